"""Every public call, each of its parameters replaced by junk: refused by an error that a user can read, or taken."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import tilesim as ts
from support import junk, junk_cli
from support.junk_arguments import prepare

TESTS = Path(__file__).resolve().parents[1]


def tried(module: str, seed: int, count: int) -> tuple[int, list[str]]:
    """Number of cases tried, and what was wrong: traces by case, and cases that ended the process."""
    start, seen, wrong = 0, 0, []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), "JAX_PLATFORMS": "cpu"}
    while True:
        command = [sys.executable, "-m", f"support.{module}", str(seed), str(count), str(start)]
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        lines = ended.stdout.splitlines()
        case = ""
        for line in lines:
            if line.startswith("! "):
                wrong.append(f"{case}: {line}")
            elif line != "done":
                case, seen = line, seen + 1
        if lines and lines[-1] == "done":
            return seen, wrong
        assert case, ended.stderr
        wrong.append(f"{case}: ended the process, {ended.returncode}")
        start = int(case.split()[0]) + 1


@pytest.mark.parametrize("count", [80, pytest.param(0, marks=pytest.mark.slow)])
def test_junk_is_refused(count: int) -> None:
    seen, wrong = tried("junk", 20260, count)
    assert seen == (count or len(junk.cases()))
    assert not wrong, "\n".join(wrong[:100])


@pytest.mark.parametrize("count", [60, pytest.param(0, marks=pytest.mark.slow)])
def test_junk_on_the_command_line(count: int) -> None:
    """Exit code 0, 1 or 2, one line of what is wrong, no traceback."""
    seen, wrong = tried("junk_cli", 20261, count)
    assert seen == (count or len(junk_cli.cases()))
    assert not wrong, "\n".join(wrong[:100])


def test_every_call_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """No public callable is left out for want of arguments, and the arguments are valid."""
    monkeypatch.chdir(tempfile.mkdtemp())
    prepare()
    calls = list(junk.public_calls())
    assert len(calls) > 250
    slow = ("ts.from_", "ts.analytic.calibrate", "ts.frontends.", "ts.tune", "ts.views", ".plot", ".to_pandas")
    for call in calls:
        if not any(word in call.name for word in slow):
            call.run()


def test_a_message_says_what_the_parameter_is() -> None:
    with pytest.raises(ts.UserError) as caught:
        ts.compile(ts.workloads.matmul(2, 2, 2), "edge-8", fallback=3)  # type: ignore[arg-type]
    error = caught.value
    assert (error.place, error.value, error.allowed) == ("compile: fallback", "3", "a string")
    assert "`fallback`" in error.suggestion
    with pytest.raises(ts.UserError, match=r"compile: integer_products.*'x'.*True, False"):
        ts.compile(ts.workloads.matmul(2, 2, 2), "edge-8", integer_products="x")  # type: ignore[arg-type]
