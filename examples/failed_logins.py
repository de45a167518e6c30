"""Watches failed logins in Flink's manner: an account that fails three times within a minute is reported, and then blocked.

The program is what a Flink user would write: descriptors, states that belong to the current key, and a function that is called
with one event after the other. State is made by sfkv, in a directory, and survives a restart: the second half of the events is
read by a second run over the same store, which knows what the first one saw. In the end a plain dict counts the same events
again, and the two are compared.

    python examples/failed_logins.py [folder]
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sfkv.flink import (
    EmbeddedRocksDBStateBackend,
    ListStateDescriptor,
    MapStateDescriptor,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)

EVENTS = 20_000
ACCOUNTS = 1_000
WITHIN_MS = 60_000
MOST_FAILURES = 3

Event = tuple[str, str, int, bool]  # account, address, time in ms, whether the login failed


class FailedLogins:
    """Three states for each account: its latest failures, whether it is blocked, and its failures by address."""

    def open(self, context: RuntimeContext) -> None:
        self.latest = context.get_list_state(ListStateDescriptor("latest", Types.LONG()))
        self.blocked_ms = context.get_state(ValueStateDescriptor("blocked_ms", Types.LONG()))
        self.by_address = context.get_map_state(MapStateDescriptor("by_address", Types.STRING(), Types.INT()))

    def process_element(self, event: Event, context: RuntimeContext) -> Iterator[str]:
        _, address, at_ms, failed = event
        if self.blocked_ms.value() is not None:
            return
        if not failed:
            self.latest.clear()
            return
        self.by_address[address] = (self.by_address[address] or 0) + 1
        latest = [then_ms for then_ms in self.latest.get() if at_ms - then_ms < WITHIN_MS] + [at_ms]
        self.latest.update(latest)
        if len(latest) >= MOST_FAILURES:
            self.blocked_ms.update(at_ms)
            yield f"{context.get_current_key()} is blocked at {at_ms} ms after {len(latest)} failures"


def events() -> Iterator[Event]:
    """Logins of a minute and a half, always the same ones; a few accounts are attacked."""
    rng = np.random.default_rng(20130101)
    times = np.sort(rng.integers(0, 90_000, EVENTS)).tolist()
    for at_ms in times:
        attacked = rng.random() < 0.02
        account = f"ACC{rng.integers(0, 40 if attacked else ACCOUNTS):04}"
        yield account, f"10.0.0.{rng.integers(0, 8)}", at_ms, bool(attacked or rng.random() < 0.002)


def run(folder: Path, stream: list[Event]) -> list[str]:
    """Reads events into the store; what was reported."""
    backend = EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True)
    with backend.open(folder / "logins", key=Types.STRING()) as keyed:
        context, function = RuntimeContext(keyed), FailedLogins()
        function.open(context)
        reports = []
        for event in stream:
            context.set_current_key(event[0])
            reports.extend(function.process_element(event, context))
        return reports


def recount(stream: list[Event]) -> dict[str, int]:
    """When each account was blocked, by plain dicts."""
    failures: dict[str, list[int]] = {}
    blocked: dict[str, int] = {}
    for account, _, at_ms, failed in stream:
        if account in blocked:
            continue
        kept = [then_ms for then_ms in failures.get(account, []) if at_ms - then_ms < WITHIN_MS]
        failures[account] = [*kept, at_ms] if failed else []
        if len(failures[account]) >= MOST_FAILURES:
            blocked[account] = at_ms
    return blocked


def main(folder: Path) -> int:
    stream = list(events())
    half = len(stream) // 2
    reports = [report for part in (stream[:half], stream[half:]) for report in run(folder, part)]
    for report in reports[:3]:
        print(report)
    print(f"... {len(reports)} accounts blocked among {len(stream):,} logins, in two runs over one store")

    with EmbeddedRocksDBStateBackend().open(folder / "logins") as keyed:
        blocked = keyed.value_state("blocked_ms", Types.LONG()).scan().to_arrow()
        found = dict(zip(blocked["key"].to_pylist(), blocked["value"].to_pylist(), strict=True))
        context = RuntimeContext(keyed)
        by_address = context.get_map_state(MapStateDescriptor("by_address", Types.STRING(), Types.INT()))
        context.set_current_key(min(found))
        print(f"{min(found)} failed from", dict(by_address.items()))
    equal = found == recount(stream) and len(found) == len(reports)
    print("equal to a count by plain dicts" if equal else "DIFFERS from a count by plain dicts")
    return int(not equal)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True)
        sys.exit(main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory(prefix="sfkv-logins-") as temporary:
        sys.exit(main(Path(temporary)))
