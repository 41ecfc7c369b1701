"""Cycles are the same everywhere: stored hashes, two threads, and builds without and with optimisation.

Stored figures are allowed here because they are integers that must be the same bit for bit on every machine and build,
which no bound or formula can check. They say nothing about being right: that is asserted elsewhere. A change of the
engine that is meant writes `result_hashes.json.new` beside the stored file; look at the cycles in both, then move it
into place.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support import hashes
from tilesim import _core

STORED = Path(__file__).with_name("result_hashes.json")
ROOT = Path(__file__).resolve().parents[2]


def test_ten_results_are_as_stored() -> None:
    found = hashes.fixed()
    assert len(found) == 10
    assert len({row["hash"] for row in found.values()}) == 10
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    if found != stored:
        STORED.with_suffix(".json.new").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    changed = {
        name: (stored.get(name, {}).get("cycles"), row["cycles"])
        for name, row in found.items()
        if row != stored.get(name)
    }
    assert not changed, f"cycles before and now: {changed}; the new hashes are in {STORED.name}.new"


def in_threads(calls: list[Any]) -> list[Any]:
    """Results of calls that run side by side (the core gives up the GIL)."""
    results: list[Any] = [None] * len(calls)
    barrier = threading.Barrier(len(calls))

    def run(index: int) -> None:
        barrier.wait()
        results[index] = calls[index]()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_two_threads_find_the_same() -> None:
    alone = hashes.fixed()
    for _ in range(3):
        assert in_threads([hashes.fixed, hashes.fixed]) == [alone, alone]


def test_two_sessions_in_two_threads() -> None:
    """Sessions advanced in steps of different lengths, at the same time."""
    program, chip = ts.compile(ts.workloads.matmul(512, 512, 512), "tpu-v3").core, ts.Machine.load("tpu-v3").core
    whole = _core.simulate(program, chip)

    def stepped(step: int) -> str:
        session = _core.Session(chip)
        job = session.submit(program)
        while session.run_until(session.now + step):
            assert session.finished(job) is None or session.finished(job) <= session.now
        return str(session.result().timing_hash())

    assert in_threads([lambda: stepped(97), lambda: stepped(1013)]) == [whole.timing_hash()] * 2


def test_a_compiled_program_shared_by_two_threads() -> None:
    program, chip = ts.compile(ts.workloads.softmax(512, 512), "tpu-v3").core, ts.Machine.load("tpu-v3").core
    wanted = _core.simulate(program, chip).timing_hash()
    found = in_threads([lambda: [_core.simulate(program, chip).timing_hash() for _ in range(5)]] * 2)
    assert found == [[wanted] * 5] * 2


@pytest.mark.slow
def test_builds_without_and_with_optimisation_agree() -> None:
    """The presets debug (-O0) and release (-O3), each with its own Python module."""
    found = {}
    for preset, flag in (("debug", "-O0"), ("release", "-O3")):
        build = ROOT / "build" / preset
        extra = [f"-DCMAKE_CXX_FLAGS_DEBUG={flag} -g0"] if preset == "debug" else []
        for command in (
            ["cmake", "--preset", preset, "-DTILESIM_TESTS=OFF", f"-DPython_EXECUTABLE={sys.executable}", *extra],
            ["cmake", "--build", str(build), "--target", "_core"],
        ):
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        flags = (build / "compile_commands.json").read_text(encoding="utf-8")
        assert flag in flags
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(build / "python"), str(ROOT / "tests")])}
        done = subprocess.run(
            [sys.executable, "-m", "support.hashes", "compiled"], env=environment, check=True, capture_output=True,
            text=True,
        )  # fmt: skip
        found[preset] = json.loads(done.stdout)
    assert found["debug"] == found["release"]
    assert len(found["debug"]) == 10 + 2 * len(hashes.COMPILED)
