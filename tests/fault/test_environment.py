"""What the environment takes away, the directory or file descriptors: typed errors, no hang, no crash, and reads go on."""


def test_a_directory_that_vanishes(run_python):
    done = run_python(
        """
        import os, shutil, sfkv
        keyed = sfkv.open(STORE, key=int, slot=sfkv.Slot("4MB"))
        state = keyed.value_state("v", bytes)
        state.put_many(range(1000), [bytes(100)] * 1000)
        shutil.rmtree(STORE)
        assert state.get_many(range(1000)).null_count == 0
        try:
            for number in range(5000):
                state.put(number, os.urandom(1000))
        except sfkv.StorageError as error:
            assert "No such file or directory" in str(error), error
        else:
            raise SystemExit("no error")
        try:
            keyed.close()
        except sfkv.StorageError as error:
            assert error.operation == "close"
        else:
            raise SystemExit("closed, with nothing on disk")
        assert not keyed.closed
        keyed.close(discard=True)
        assert keyed.closed
        with sfkv.open(STORE, key=int) as again:
            assert again.states == {}
        """
    )
    assert done.stderr == ""


def test_too_many_open_files(run_python):
    done = run_python(
        """
        import os, resource, sfkv
        with sfkv.open(STORE + "-other", key=int) as other:
            other.value_state("v", int).put(1, 1)
        keyed = sfkv.open(STORE, key=int, slot=sfkv.Slot("4MB"))
        state = keyed.value_state("v", bytes)
        state.put_many(range(100), [b"kept"] * 100)
        keyed._store.flush()
        open_files = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files + 2, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        for attempt in (
            lambda: [state.put(number, os.urandom(1000)) for number in range(100, 20_000)],
            lambda: sfkv.open(STORE + "-other"),
        ):
            try:
                attempt()
            except sfkv.StorageError as error:
                assert "Too many open files" in str(error), error
            else:
                raise SystemExit("no error")
        assert state.get_many(range(100)).to_pylist() == [b"kept"] * 100
        keyed.close(discard=True)
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files + 50, open_files + 50))
        with sfkv.open(STORE, recover=True) as again:
            assert again.value_state("v", bytes).get_many(range(100)).to_pylist() == [b"kept"] * 100
        with sfkv.open(STORE + "-other") as other:
            assert other.value_state("v", int).get(1) == 1
        """
    )
    assert done.stderr == ""
