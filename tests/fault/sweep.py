"""Lets the n-th I/O call of a job fail, for n = 0, 1, 2 ... until none does. Run by test_sweep.py in a process of its own.

    python -W error -m tests.fault.sweep BACKEND FAULT FIRST STEP

Counted are the calls that sfkv's core and the engine make through the file system under them (_failing.pyx), and those that
Python makes below the job's folder. After each failure everything that is called answers right or raises a sfkv.Error.
"""

from __future__ import annotations

import errno
import faulthandler
import gc
import os
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

import sfkv
from sfkv import _core
from tests.backends import live_objects
from tests.fault import _failing
from tests.fault.job import Job, contents, expected

# Beside those of the file system: the whole machine stops, and forgets what was not synced.
FAULTS = [*_failing.FAULTS, "power loss"]
SECONDS_FOR_ONE = 60  # a hang, if it is passed

# The calls that are counted, those that change nothing apart.
LOOKS = {"os.listdir", "os.scandir"}
CHANGES = {"open", "os.rename", "os.link", "os.mkdir", "os.rmdir", "os.remove"}
folder: Path | None = None


def fail_in_python(event: str, arguments: tuple) -> None:
    """An audit hook: counts Python's own I/O below the folder, and raises where a failure is due."""
    if event not in LOOKS | CHANGES or folder is None or not isinstance(arguments[0], (str, bytes, os.PathLike)):
        return
    path = os.fsdecode(arguments[0])
    if not path.startswith(str(folder)):
        return
    reads = event in LOOKS or (event == "open" and not arguments[2] & os.O_ACCMODE)
    if _failing.fails(event, path, not reads):
        raise OSError(errno.EIO, "injected failure of Python's " + event, path)


def run_once(job: Job) -> None:
    """A failure that passes: the step is tried again, and if the store has failed for good, it is opened anew."""
    for step in job.steps():
        for attempt in range(3):
            try:
                step()
                break
            except sfkv.Error as error:
                assert attempt < 2, f"{step}: {error}"
                if job.keyed is not None:
                    job.check(contents(job.keyed))
                if attempt == 1 or isinstance(error, sfkv.FailedStoreError):
                    job.crash()


def run_until_repaired(job: Job, power: bool) -> None:
    """A failure that stays: everything is tried, then the process gives up, the disk is repaired, and the job goes on."""
    errors = 0
    for step in job.steps():
        try:
            step()
        except sfkv.Error:
            errors += 1
    job.crash()
    repair(power)
    job.read()
    job.check_snapshots()
    for step in job.steps():
        step()


def run_on_a_lying_disk(job: Job) -> None:
    """Syncs that do nothing, and then no power: nothing can be promised but that damage is seen."""
    for step in job.steps()[:-6]:
        step()
    job.crash()
    repair(power=True)
    for look in (lambda: job.backend.open(job.folder / "store", key=int, slot=job.slot, recover=True), *restores(job)):
        try:
            with look() as keyed:
                found = contents(keyed)
        except sfkv.Error:
            continue
        assert found == expected(found["offset"] or 0)


def restores(job: Job) -> list:
    return [
        lambda id=id: job.backend.restore(job.folder / f"again-{id}", job.folder / "snapshots" / f"chk-{id}", slot=job.slot)
        for id in job.snapshots
    ]


def repair(power: bool) -> None:
    global last_failed
    last_failed = _failing.disarm()
    if power:
        _failing.lose_power()


last_failed = ""


def run(backend: str, fault: str, call: int) -> str:
    """One life of the job. Returns the call that failed, '' if there were fewer calls."""
    global folder, last_failed
    last_failed = ""
    top = tempfile.mkdtemp(prefix="sfkv-sweep-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    folder = Path(top) / "job"
    job = Job(folder, backend)
    began = time.monotonic()
    faulthandler.dump_traceback_later(SECONDS_FOR_ONE, exit=True)
    try:
        _failing.arm("for good" if fault == "power loss" else fault, call)
        if fault == "lost sync":
            run_on_a_lying_disk(job)
        elif fault in ("for good", "no space", "power loss"):
            run_until_repaired(job, fault == "power loss")
        else:
            run_once(job)
    finally:
        failed = last_failed or _failing.disarm()
        print(f"{fault} {call}: {failed or 'nothing failed'} ({time.monotonic() - began:.1f} s)", flush=True)
        job.crash()
        faulthandler.cancel_dump_traceback_later()
        _failing.lose_power()  # forgets what it kept of this life
        shutil.rmtree(top, ignore_errors=True)
    del job
    gc.collect()
    assert not any(live_objects().values()), live_objects()
    return failed


def main(backend: str, fault: str, first: int, step: int) -> None:
    _core.wrap_file_system(_failing.capsule())
    sys.addaudithook(fail_in_python)
    call = first
    try:
        while run(backend, fault, call):
            call += step
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # a store may be open: nothing of it matters any more


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
