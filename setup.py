"""Builds sfkv's extension modules against one of two engines.

tuned   the RocksDB that `make engine` built, linked statically with hidden symbols; taken where there is one
system  the distribution's librocksdb, found by pkg-config

SFKV_ENGINE=tuned|system forces one. SFKV_DEBUG=1 checks preconditions. SFKV_FLOOR=1 builds the benchmarks' floor too, and
SFKV_FAULTS=1 the file system of the fault tests.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
COMPILE_FLAGS = [
    "-std=c++17",
    "-O2",
    "-g1",
    "-Wall",
    "-Wextra",
    "-Wno-sign-compare",  # Cython's code compares signs, and names parameters that it does not use
    "-Wno-unused-parameter",
    "-Wno-cast-function-type",
    "-Wno-missing-field-initializers",
    "-fvisibility=hidden",
    "-fno-gnu-unique",
]
MODULES = (
    "_status", "_cells", "_live", "_rows", "_store", "_core", "_memory", "_table", "_bundle", "_scan", "_list", "_map", "_fold",
    "_batch",
)  # fmt: skip
WITH_ENGINE = ("sfkv._core", "benchmarks._floor", "tests.fault._failing")


def engine_cache() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("SFKV_ENGINE_CACHE") or Path(cache) / "sfkv" / "engine")


def fits_this_machine(engine: dict) -> bool:
    wanted = set(engine["cpu_flags"].split())
    return not wanted or wanted <= set(Path("/proc/cpuinfo").read_text().split())


def find_tuned() -> dict | None:
    """The newest engine in the cache that this machine can run."""
    found = []
    for description in engine_cache().glob("rocksdb-*/engine.json"):
        engine = json.loads(description.read_text())
        if fits_this_machine(engine):
            found.append(([int(part) for part in engine["rocksdb"].split(".")], engine | {"path": str(description.parent)}))
    return max(found, key=lambda entry: entry[0])[1] if found else None


def engine_settings() -> dict:
    """What the compiler and the linker must be told."""
    wanted = os.environ.get("SFKV_ENGINE", "")
    if wanted not in ("", "system", "tuned"):
        sys.exit(f"SFKV_ENGINE is {wanted!r}: use system or tuned")
    tuned = None if wanted == "system" else find_tuned()
    if tuned is None and wanted == "tuned":
        sys.exit(f"there is no tuned engine for this machine in {engine_cache()}: run make engine")
    if tuned is not None:
        return {
            "define_macros": [("SFKV_ENGINE", '"tuned"'), ("SFKV_ENGINE_FLAGS", f'"{tuned["flags"]}"')],
            "include_dirs": [f"{tuned['path']}/include"],
            "extra_objects": [f"{tuned['path']}/lib/librocksdb.a"],
            "libraries": [*tuned["libraries"], "pthread", "dl"],
            "library_dirs": [],
        }
    try:
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "rocksdb"], check=True, capture_output=True, text=True
        ).stdout.split()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"pkg-config does not find RocksDB ({error}): install librocksdb-dev and pkg-config, or run make engine")
    return {
        "define_macros": [("SFKV_ENGINE", '"system"'), ("SFKV_ENGINE_FLAGS", '""')],
        "include_dirs": [flag[2:] for flag in flags if flag.startswith("-I")],
        "extra_objects": [],
        "libraries": [flag[2:] for flag in flags if flag.startswith("-l")],
        "library_dirs": [flag[2:] for flag in flags if flag.startswith("-L")],
    }


def local_headers(source: str) -> list[str]:
    return [str(path) for path in sorted(Path(source).parent.glob("*.h"))]


def extensions(engine: dict) -> list[Extension]:
    headers = [str(path) for path in sorted((ROOT / "include" / "sfkv").glob("*.h"))]
    debug = [("SFKV_DEBUG", None)] if os.environ.get("SFKV_DEBUG") == "1" else []
    plain = {"define_macros": [], "include_dirs": [], "extra_objects": [], "libraries": [], "library_dirs": []}
    sources = {f"sfkv.{module}": f"sfkv/{module}.pyx" for module in MODULES}
    if os.environ.get("SFKV_FLOOR") == "1":
        sources |= {f"benchmarks.{name}": f"benchmarks/{name}.pyx" for name in ("_floor", "_memory_floor")}
    if os.environ.get("SFKV_FAULTS") == "1":
        sources["tests.fault._failing"] = "tests/fault/_failing.pyx"
    made = []
    for name, source in sources.items():
        settings = engine if name in WITH_ENGINE else plain
        made.append(
            Extension(
                name,
                [source],
                language="c++",
                define_macros=settings["define_macros"] + debug,
                include_dirs=["include", str(Path(source).parent), *settings["include_dirs"]],
                extra_objects=settings["extra_objects"],
                libraries=settings["libraries"],
                library_dirs=settings["library_dirs"],
                depends=[*headers, *local_headers(source), "sfkv/_exports.map", *settings["extra_objects"]],
                extra_compile_args=COMPILE_FLAGS,
                # Nothing of the engine is to be seen from outside: another RocksDB in the process must not bind to it.
                extra_link_args=["-Wl,--exclude-libs,ALL", "-Wl,--version-script=sfkv/_exports.map"],
            )
        )
    return made


class BuildExt(build_ext):
    """Compiles everything anew when the engine has changed."""

    def run(self) -> None:
        chosen = json.dumps(ENGINE, sort_keys=True) + os.environ.get("SFKV_DEBUG", "")
        noted = ROOT / "build" / "engine.txt"
        if not noted.exists() or noted.read_text() != chosen:
            self.force = True
        super().run()
        noted.parent.mkdir(exist_ok=True)
        noted.write_text(chosen)


ENGINE = engine_settings()

setup(
    packages=["sfkv", "sfkv.state", "sfkv.backend", "sfkv.checkpoint", "sfkv.config", "sfkv.flink"],
    package_data={"sfkv": ["*.pyi", "*.pxd", "py.typed"]},
    ext_modules=cythonize(extensions(ENGINE), build_dir="build/cython", compiler_directives={"embedsignature": True}),
    cmdclass={"build_ext": BuildExt},
)
