"""`tilesim why`: the same answer as in Python, of a model or of a saved result."""

from __future__ import annotations

import json
from pathlib import Path

import tilesim as ts
from support.command import tilesim


def run(arguments: list[str]) -> tuple[int, str, str]:
    done = tilesim(*arguments)
    return done.returncode, done.stdout, done.stderr


def test_a_model() -> None:
    code, out, _ = run(["why", "matmul:256,256,256", "matmul", "--machine", "edge-8"])
    why = ts.run(ts.workloads.matmul(256, 256, 256), machine="edge-8").why("matmul")
    assert code == 0
    assert f"{why.cycles:,} cycles" in out and max(map(len, out.splitlines())) <= 120
    for row in why.terms.rows:
        assert f"{row['cycles']:,.0f}" in out and row["term"] in out
    for row in why.alternatives.rows:
        assert f"{row['cycles']:,}" in out


def test_json_is_the_same_object() -> None:
    _, out, _ = run(["why", "mlp", "layers.1", "--machine", "tpu-v3", "--json", "-"])
    why = ts.run("mlp", machine="tpu-v3").why("layers.1")
    assert json.loads(out) == json.loads(json.dumps(why.data))


def test_a_saved_result(tmp_path: Path) -> None:
    path = str(tmp_path / "r.json")
    ts.run("resnet18", machine="tpu-v3").save(path)
    code, out, _ = run(["why", path, "fc"])
    assert code == 0 and "Alternatives (cycles" not in out and "not separated without" in " ".join(out.split())
    assert run(["why", path, "fc", "--machine", "tpu-v4"])[0] == 2
    code, _, error = run(["why", path, "fcc"])
    assert code == 2 and "Did you mean 'fc'" in error


def test_options_reach_compiler_and_simulation() -> None:
    words = ["why", "mlp", "layers.1", "--lowering", "best", "--memory", "bank", "--set", "memory.latency=200 ns"]
    _, out, _ = run([*words, "--no-alternatives"])
    machine = ts.Machine.load("tpu-v3").replace({"memory.latency": "200 ns"})
    own = ts.simulate(ts.compile("mlp", machine, lowering="best"), machine, memory="bank").why("layers.1")
    assert f"{own.cycles:,} cycles" in out and "Alternatives (cycles" not in out


def test_a_device_is_estimated() -> None:
    code, out, _ = run(["why", "bert-base", "attention.self", "--machine", "h100"])
    rows = [row for row in ts.estimate("bert-base", "h100").table() if row["operation"].endswith(".attention.self")]
    assert code == 0 and len(rows) == 12 and f"{sum(row['cycles'] for row in rows):,} cycles" in out
