"""The thread sanitizer watches C++ tests of some rooms, and random calls of several threads on shared objects."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.boost_cases import cases_by_room

ROOT = Path(__file__).resolve().parents[2]
ROOMS = cases_by_room(ROOT / "tests" / "cpp")
BUILD = Path(os.environ.get("TILESIM_TSAN_BUILD", ROOT / "build" / "tsan-python"))
SUPPRESSED = ROOT / "tests" / "support" / "tsan.txt"
OPTIONS = "halt_on_error=1:second_deadlock_stack=1"
# The interpreter's own lock orders what its threads do: modules without the sanitizer may not be left out.
CALL_OPTIONS = f"{OPTIONS}:suppressions={SUPPRESSED}"
# What has threads or may be cancelled by one. Networks and DRAM channels have one thread and run for minutes here; the
# cases of `threads` call them from several.
SUITES = {
    "core": ",".join(sorted({case.split("/")[0] for room in ("base", "report") for case in ROOMS[room]})),
    "engine": "threads,session,memory",
}
# what compiles, simulates, reads, writes and changes: small, since everything is ten times as slow
CALLS = [
    "compile", "simulate", "save", "load", "text", "operations", "latencies", "table", "store", "weights", "machine",
]  # fmt: skip
SETTINGS = {
    "CMAKE_BUILD_TYPE": "Debug", "CMAKE_CXX_FLAGS_DEBUG": "-O1 -g1", "TILESIM_SANITIZE": "thread",
    "TILESIM_PYTHON": "ON", "TILESIM_NATIVE": "OFF", "Python_EXECUTABLE": sys.executable,
}  # fmt: skip

pytestmark = pytest.mark.slow


def said(*command: str, **environment: str) -> str:
    done = subprocess.run(
        command, env={**os.environ, **environment}, text=True, capture_output=True, timeout=3000, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-8000:]}\n{done.stderr[-12000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def runtime() -> str:
    """The sanitizer's library, which must be loaded before the interpreter's own."""
    compiler = shutil.which("c++") or pytest.skip("no compiler here")
    path = said(compiler, "-print-file-name=libtsan.so").strip()
    if not os.path.isabs(path):
        pytest.skip("this compiler has no thread sanitizer as a library")
    settings = [f"-D{key}={value}" for key, value in SETTINGS.items()]
    said("cmake", "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", *settings)
    return path


RACE = """
#include <thread>
int shared = 0;
int main() {
  std::thread other([] { ++shared; });
  ++shared;
  other.join();
}
"""


def test_a_race_is_seen(runtime: str, tmp_path: Path) -> None:
    source, program = tmp_path / "race.cpp", tmp_path / "race"
    source.write_text(RACE, encoding="utf-8")
    said("c++", "-std=c++20", "-O1", "-fsanitize=thread", str(source), "-o", str(program))
    with pytest.raises(AssertionError, match="data race"):
        said(str(program), TSAN_OPTIONS=OPTIONS)


@pytest.mark.parametrize("name", SUITES)
def test_rooms(name: str, runtime: str) -> None:
    said("cmake", "--build", str(BUILD), "-j2", "--target", f"test_{name}")
    program = BUILD / "tests" / "cpp" / f"test_{name}"
    said(str(program), f"--run_test={SUITES[name]}", TSAN_OPTIONS=OPTIONS)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_calls(seed: int, runtime: str) -> None:
    said("cmake", "--build", str(BUILD), "-j2", "--target", "_core")
    paths = os.pathsep.join([str(BUILD / "python"), str(ROOT / "tests")])
    arguments = [str(seed), "8", "6", *CALLS]
    out = said(
        sys.executable, "-m", "support.thread_mix", *arguments,
        LD_PRELOAD=runtime, TSAN_OPTIONS=CALL_OPTIONS, PYTHONPATH=paths, OPENBLAS_NUM_THREADS="1",
    )  # fmt: skip
    assert out.strip() == "equal"
