"""kill -9 at random moments: what is found afterwards is a prefix of the batches, and the offset says which."""

import random
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import sfkv

KEYS, BATCH, BATCHES = 300, 100, 600

WORKER = f"""
import os, sys, numpy as np, sfkv
keyed = sfkv.open(sys.argv[1], key=int, recover=True, slot=sfkv.Slot("4MB"))
count, seen, last = keyed.value_state("count", int), keyed.list_state("seen", int), keyed.map_state("last", int, int)
pad, total = keyed.value_state("pad", bytes), keyed.reducing_state("total", int, "sum")
done = keyed.offset or 0
print("ready", flush=True)
while done < {BATCH * BATCHES}:
    numbers = np.arange(done, done + {BATCH})
    keys = numbers * 7919 % {KEYS}
    with keyed.batch(offset=done + {BATCH}):
        with count.bundle(keys) as rows:
            for key in keys.tolist():
                rows[key] = (rows[key] or 0) + 1
        seen.add_many(keys, numbers)
        total.add_many(keys, numbers)
        last.put_many(keys, numbers % 5, numbers)
        pad.put(done, os.urandom(20_000))  # so that memtables fill, and flushes and compactions are always under way
    done += {BATCH}
    print(done, flush=True)
keyed.close()
"""


def check(path):
    """Compares every row with the batches up to the offset. The offset, and whether the stream has been read."""
    with sfkv.open(path, key=int, recover=True) as keyed:
        done = keyed.offset or 0
        numbers = np.arange(done)
        keys = numbers * 7919 % KEYS
        order = np.argsort(keys, kind="stable")
        groups = dict(zip(*np.unique(keys, return_counts=True), strict=True))
        counts = {row["key"]: row["value"] for row in keyed.value_state("count", int).scan().to_arrow().to_pylist()}
        assert counts == groups
        lists = {row["key"]: row["value"] for row in keyed.list_state("seen", int).scan().to_arrow().to_pylist()}
        starts = np.cumsum([0, *groups.values()])
        assert lists == {key: numbers[order[starts[i] : starts[i + 1]]].tolist() for i, key in enumerate(groups)}
        sums = {row["key"]: row["value"] for row in keyed.reducing_state("total", int, "sum").scan().to_arrow().to_pylist()}
        assert sums == {key: sum(values) for key, values in lists.items()}
        entries = keyed.map_state("last", int, int).scan().to_arrow().to_pylist()
        expected = {}
        for key, number in zip(keys.tolist(), numbers.tolist(), strict=True):
            expected[key, number % 5] = number
        assert {(row["key"], row["user_key"]): row["value"] for row in entries} == expected
    return done


def kill_and_check(tmp_path, kills, seed):
    rng = random.Random(seed)
    reached, stores = set(), 0
    for _ in range(kills):
        path = tmp_path / str(stores)
        worker = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WORKER), path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert worker.stdout.readline() == "ready\n", worker.stderr.read()
        for _ in range(rng.randrange(150)):
            worker.stdout.readline()  # empty when the worker has ended
        time.sleep(rng.random() * 0.01)  # not at the end of a batch
        worker.kill()
        _, errors = worker.communicate()
        assert worker.returncode in (-signal.SIGKILL, 0), errors
        if rng.random() < 0.3 and worker.returncode != 0:
            continue  # the next worker opens what this one left
        done = check(path)
        reached.add((stores, done))
        if done == BATCH * BATCHES:
            stores += 1
    assert len(reached) > kills // 4, f"seed {seed}: the kills hit too few different moments: {sorted(reached)}"


def test_a_few_kills(tmp_path):
    kill_and_check(tmp_path, kills=8, seed=1)


@pytest.mark.slow
def test_200_kills(tmp_path):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    kill_and_check(tmp_path, kills=200, seed=seed)
