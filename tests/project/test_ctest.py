"""Builds the C++ tests, runs ctest and shows each C++ case as one test here.

The cases are read from the sources, so that a selection without them builds nothing; only the programs of the selected
rooms are built.
TILESIM_TEST_BUILD names another build directory than build/pytest.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.boost_cases import cases_by_room, programs_of_rooms

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TILESIM_TEST_BUILD", ROOT / "build" / "pytest"))
ROOMS = cases_by_room(ROOT / "tests" / "cpp")
CASES = [(room, case) for room, cases in ROOMS.items() for case in cases]
PROGRAMS = programs_of_rooms(ROOT / "tests" / "cpp")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _tool(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        pytest.fail(f"{name} is missing: pip install 'tilesim[test]'")
    return found


class _Broken(Exception):
    """A command of the build failed; the text is what it printed."""


def _run(*command: str, check: bool = True) -> str:
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if check and done.returncode != 0:
        raise _Broken(f"{' '.join(command)}\n{done.stdout[-20000:]}")
    return done.stdout


@dataclass
class Outcomes:
    """By ctest name: did it pass, and what did it print. `broken`: why there is none."""

    cases: dict[str, tuple[bool, str]] = field(default_factory=dict)
    broken: str = ""

    def require(self) -> dict[str, tuple[bool, str]]:
        if self.broken:
            why, self.broken = self.broken, "the C++ tests do not build: see the first of them"
            pytest.fail(why, pytrace=False)
        return self.cases


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest, ctest_report: list[str]) -> Outcomes:
    """Builds and runs the programs of the selected cases."""
    programs = sorted(
        {
            PROGRAMS[item.callspec.params["room"]]
            for item in request.session.items
            if isinstance(item, pytest.Function) and item.originalname == "test_cpp"
        }
        or set(PROGRAMS.values())
    )
    with _locked(BUILD.with_name(BUILD.name + ".lock")):
        try:
            return Outcomes(_build_and_run(programs, ctest_report))
        except _Broken as broken:
            return Outcomes(broken=str(broken))


def _build_and_run(programs: list[str], ctest_report: list[str]) -> dict[str, tuple[bool, str]]:
    cmake, build = _tool("cmake"), str(BUILD)
    settings = {
        "CMAKE_MAKE_PROGRAM": _tool("ninja"), "Python_EXECUTABLE": sys.executable, "CMAKE_BUILD_TYPE": "Release",
        "TILESIM_TESTS": "ON", "TILESIM_PYTHON": "OFF",
    }  # fmt: skip
    _run(cmake, "-S", str(ROOT), "-B", build, "-G", "Ninja", *(f"-D{key}={value}" for key, value in settings.items()))
    _run(cmake, "--build", build, "-j2", "--target", *(f"test_{name}" for name in programs))
    junit = BUILD / "ctest.xml"
    junit.unlink(missing_ok=True)
    select = ["-R", f"^({'|'.join(programs)})/", "--output-junit", str(junit), "--test-output-size-failed", "65536"]
    said = _run(_tool("ctest"), "--test-dir", build, "-j2", "--timeout", "600", *select, check=False)
    if not junit.exists():
        raise _Broken(said)
    ctest_report += [line for line in said.splitlines() if re.match(r"\d+% tests passed|Total Test time", line)]
    return {
        case.attrib["name"]: (case.attrib["status"] == "run", case.findtext("system-out") or "")
        for case in ElementTree.parse(junit).iter("testcase")
    }


@pytest.mark.parametrize(("room", "case"), CASES, ids=[f"{room}/{case}" for room, case in CASES])
def test_cpp(room: str, case: str, outcomes: Outcomes) -> None:
    name = f"{PROGRAMS[room]}/{case}"
    mine = {key: value for key, value in outcomes.require().items() if _belongs(key, name)}
    assert mine, f"{name} is in the sources and ctest does not know it"
    for key, (passed, output) in mine.items():
        if not passed:
            pytest.fail(f"{key}\n{output}", pytrace=False)


def _belongs(ctest_name: str, case: str) -> bool:
    """A template or data-driven case has several ctest names: case<int>, case/_0."""
    rest = ctest_name.removeprefix(case)
    return ctest_name.startswith(case) and (
        rest == "" or rest.startswith("<") or re.fullmatch(r"/_\d+", rest) is not None
    )


def test_every_cpp_case_is_shown(outcomes: Outcomes) -> None:
    known = [f"{PROGRAMS[room]}/{case}" for room, case in CASES]
    missed = [name for name in outcomes.require() if not any(_belongs(name, case) for case in known)]
    assert not missed, "these ctest cases come from a macro that tests/support/boost_cases.py does not read"


@pytest.mark.slow
@pytest.mark.parametrize("program", sorted(set(PROGRAMS.values())))
def test_more_random_cases(program: str, outcomes: Outcomes) -> None:
    outcomes.require()
    path = BUILD / "tests" / "cpp" / f"test_{program}"
    done = subprocess.run(
        [path], env={**os.environ, "TILESIM_TRIALS": "3"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-20000:]
