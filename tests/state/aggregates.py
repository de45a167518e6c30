"""An aggregate object, and what a state of one holds."""


def rows_of(state):
    return {row["key"]: row["value"] for row in state.scan().to_arrow().to_pylist()}


class Mean:
    def create(self):
        return [0, 0]

    def add(self, accumulator, value):
        return [accumulator[0] + value, accumulator[1] + 1]

    def merge(self, a, b):
        return [a[0] + b[0], a[1] + b[1]]

    def result(self, accumulator):
        return accumulator[0] / accumulator[1]
