"""AggregatingState: a result for each key of what was added to it."""

from __future__ import annotations

from sfkv.state.folded import FoldedState


class AggregatingState(FoldedState):
    """A result for each key, of all that was added to it. Made by ``keyed.aggregating_state(name, type, aggregate)``.

    Absent is None until something is added; None itself cannot be. An object's ``result`` may be None: ``get``, batches and
    scans give it as that, and ``in`` tells it from absent. Batches answer by position and may repeat keys: all that is added
    to one counts, in order. Bad input, and an object that raises, leave the state as it was for the whole call.

    Cost:
        Adding by a built-in fold needs no read: the engine folds what is added into what is stored, when that is read or
        moved. A batch is folded key by key first, and touches each distinct key once. A Python object's methods are called for
        each value, between one batched read and one batched write.
    """
