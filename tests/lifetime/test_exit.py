"""The end of the interpreter, in every way it may come, with everything open: no crash, no hang, nothing on stderr, and the
data are there."""

import re
import signal
import subprocess
import sys
import textwrap

import pytest

import sfkv
from tests.backends import new_backend
from tests.lifetime.children import KEYS, state_of, value

pytestmark = pytest.mark.backends

# Everything is begun, and the snapshot is still running: the thread that completes it waits a moment first.
BEGUN = """
import os, sys, threading, time, warnings
import sfkv
from tests.lifetime import workers
warnings.simplefilter("ignore", ResourceWarning)
begun = workers.inherit(STORE)
begun.future.result(60)
begun.keyed._finisher.submit(time.sleep, 0.2)
running = begun.keyed.snapshot(2, STORE + "/chk")
"""


def check_left(path, *, clean):
    """What is on disk: all writes if it was closed, some if not; and in no case what was half done."""
    for name in ("a", "b"):
        assert state_of(path / name) == ("clean" if clean else "open")
        with sfkv.open(path / name, key=int, recover=not clean) as keyed:
            assert value(keyed).get(1) == 1 or not clean
            assert value(keyed).get(1) in (None, 1)
            assert keyed.offset is None
            assert value(keyed).scan().to_arrow().num_rows == KEYS or not clean
    taken = [snapshot.id for snapshot in sfkv.list_snapshots(path / "chk")]
    assert taken == [1, 2] if clean else taken in ([1], [1, 2])
    with new_backend().restore(path / "again", path / "chk" / "chk-1") as keyed:
        assert value(keyed).get(KEYS - 1) == KEYS - 1


@pytest.mark.parametrize(
    "leave",
    [
        "pass",
        "sys.exit(0)",
        "raise SystemExit",
        "del begun",
        "threading.Thread(target=sys.exit, args=(3,)).start()",
        "threading.Thread(target=begun.keyed.close).start()",
        "threading.Thread(target=lambda: [time.sleep(0.1), begun.value.get(1)]).start()",
        "import gc; cycle = [begun]; cycle.append(cycle); del begun, cycle; gc.disable()",
        "sys.modules.clear()",
        "import atexit; atexit.register(lambda: begun.value.get(1))",
    ],
)
def test_leaving_with_everything_open(run_python, in_memory, leave):
    done = run_python(BEGUN + leave, STORE=str(in_memory))
    assert (done.stdout, done.stderr) == ("", "")
    check_left(in_memory, clean=True)


def test_leaving_by_an_exception_shows_its_traceback_and_no_more(run_python, in_memory):
    done = run_python(BEGUN + "raise RuntimeError('mine')", STORE=str(in_memory), expect=1)
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "RuntimeError: mine"
    assert sum(not line.startswith(" ") for line in lines) == 2, done.stderr
    check_left(in_memory, clean=True)


@pytest.mark.parametrize("block", ["begun.value.bundle([1])", "begun.keyed.batch(offset=5)", "begun.value.scan()"])
def test_leaving_from_inside_a_block(run_python, in_memory, block):
    """By an exception, or because the interpreter ends in another thread's hands: nothing of the block is written."""
    done = run_python(BEGUN + f"with {block}:\n    sys.exit(4)", STORE=str(in_memory), expect=4)
    assert done.stderr == ""
    done = run_python(
        f"""
        import threading, warnings, sfkv
        warnings.simplefilter("ignore", ResourceWarning)
        from tests.lifetime import workers
        begun = workers.inherit(STORE + "/second")
        entered = threading.Event()
        def work():
            with {block}:
                begun.value.put(1, 100) if "batch" in {block!r} else None
                entered.set()
                threading.Event().wait()
        threading.Thread(target=work, daemon=True).start()
        entered.wait()
        """,
        STORE=str(in_memory),
    )
    assert done.stderr == ""
    check_left(in_memory, clean=True)
    with sfkv.open(in_memory / "second" / "a") as keyed:
        assert (value(keyed).get(1), keyed.offset) == (1, None)


def test_leaving_at_once(run_python, in_memory):
    done = run_python(BEGUN + "os._exit(5)", STORE=str(in_memory), expect=5)
    assert (done.stdout, done.stderr) == ("", "")
    check_left(in_memory, clean=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_leaving_by_a_signal(run_python, in_memory, number):
    """SIGINT is Python's KeyboardInterrupt, so the backends are closed; the others end the process as it is."""
    done = run_python(BEGUN + f"os.kill(os.getpid(), {number})\ntime.sleep(60)", STORE=str(in_memory), expect=-number)
    if number == signal.SIGINT:
        assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"
    else:
        assert done.stderr == ""
    check_left(in_memory, clean=number == signal.SIGINT)


def test_an_interrupt_in_the_middle_of_a_long_write(in_memory, on_backend):
    """The signal comes while the write is under way: the write ends, the program by the interrupt, and the data are whole."""
    program = """
        import itertools, sys, numpy as np, sfkv
        from tests import backends
        backends.use(sys.argv[2])
        keyed = sfkv.open(sys.argv[1], key=int, slot=sfkv.Slot("16MB"))
        state = keyed.value_state("v", int)
        keys = np.arange(300_000)
        for turn in itertools.count(1):
            state.put_many(keys, np.full(len(keys), turn), offset=turn)
            if turn == 1:  # by now pyarrow has imported pandas, in which an interrupt is lost at times
                print("ready", flush=True)
    """
    for _ in range(3):
        worker = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(program), str(in_memory / "s"), on_backend],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert worker.stdout.readline() == "ready\n", worker.stderr.read()
        with pytest.raises(subprocess.TimeoutExpired):
            worker.wait(0.3)
        worker.send_signal(signal.SIGINT)
        try:
            _, errors = worker.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            worker.send_signal(signal.SIGABRT)  # faulthandler tells where each thread is
            pytest.fail(f"it did not end:\n{worker.communicate()[1]}")
        assert worker.returncode == -signal.SIGINT, errors
        assert errors.splitlines()[-1] == "KeyboardInterrupt"
        assert errors.count("Traceback") == 1
        assert state_of(in_memory / "s") == "clean"
        with sfkv.open(in_memory / "s") as keyed:
            turns = value(keyed).get_many(range(300_000)).unique().to_pylist()
            assert turns == [keyed.offset]


def test_all_backends_are_closed_though_one_cannot_be(run_python, in_memory):
    """Its error is shown. A daemon thread holds them all, so that nothing but the round at the exit closes them."""
    done = run_python(
        """
        import shutil, threading, sfkv
        entered = threading.Event()
        def work():
            opened = [sfkv.open(f"{STORE}/{number}", key=int) for number in range(12)]
            for keyed in opened:
                keyed.value_state("v", int).put(1, 1)
            for number in range(2):
                shutil.rmtree(f"{STORE}/{number}")
            entered.set()
            threading.Event().wait()
        threading.Thread(target=work, daemon=True).start()
        entered.wait()
        """,
        STORE=str(in_memory),
    )
    assert len(re.findall("^sfkv.*Error: .*No such file or directory", done.stderr, re.MULTILINE)) == 2
    for number in range(2, 12):
        with sfkv.open(in_memory / str(number)) as keyed:
            assert value(keyed).get(1) == 1
