"""Killed while saving, sweeping, tuning: the old file or the new one, whole, and nothing lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tilesim as ts


def killed(count: int, seed: int) -> Counter[str]:
    """Kills in a process of its own, since the tests' process may have threads: by what was killed."""
    tests = Path(__file__).resolve().parents[1]
    paths = [str(tests), str(Path(ts.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "support.killed", str(count), str(seed)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return Counter(done.stdout.split())


def test_some_kills() -> None:
    outcomes = killed(30, 1)
    assert outcomes['{"killed":'] == 30 and len(outcomes) == 11


@pytest.mark.slow
def test_two_hundred_kills() -> None:
    print(killed(200, 2))


def test_what_the_killed_leave_is_removed_and_nothing_else(tmp_path: Path) -> None:
    abandoned = tmp_path / ".table.tilesim-0123456789abcdef.json"
    others = [".table.json", "x.tilesim-0123456789abcdef.json", ".x.tilesim-0123456789abcdeg.json", ".tilesim-0.json"]
    for name in (abandoned.name, *others):
        (tmp_path / name).write_text("kept", encoding="utf-8")
    ts.mapping.MappingTable({"matmul": {"tiles": [1, 1, 1]}}).save(tmp_path / "table.json")
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "table.json"])
