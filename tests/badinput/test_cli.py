"""The command line: exit codes, one clear message, files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
from support.command import tilesim
from support.unlowered import by_size


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "resnet19"], ["resnet18"]),
        (["run", "mlp", "--machine", "tpu-v9"], ["tpu-v"]),
        (["run", "mlp", "--set", "core.array.counts=2"], ["core.array.count"]),
        (["run", "mlp", "--set", "core.array.count=-1"], ["out of range"]),
        (["run", "mlp", "--set", "memory.bandwidth=5"], ["memory.bandwidth"]),
        (["run", "mlp", "--set", 'core.scratchpad.bytes="64 B"'], ["fit"]),
        (["run", "missing.json"], ["missing.json"]),
        (["run", "resnet18", "--machine", "gemmini-16"], ["f32", "i8"]),
        (["validate", "tpu-v3", "--cases", "missing.csv"], ["missing.csv"]),
        (["run", "missing.onnx"], ["missing.onnx: no such file"]),
        (["run", "models/net.pb"], ["models/net.pb", ".onnx"]),
        (["run", "matmul:1,2"], ["matmul:M,N,K"]),
        (["run", "mlp", "--quiet", "--json", "/nowhere/r.json"], ["/nowhere/r.json", "cannot be written"]),
        (["run", "mlp", "--quiet", "--timeline", "/nowhere/r.trace"], ["/nowhere/r.trace", "does not exist"]),
        (["run", "mlp", "--fallback", "cloud"], ["cloud", "error, host"]),
        (["run", "mlp", "--place", "layers.0"], ["layers.0", "name=host"]),
        (["run", "mlp", "--place", "layers.9=host"], ["layers.9", "unknown operation"]),
        (["coverage", "resnet19"], ["resnet18"]),
        (["run", "matmul:8,8,8", "--context", "4"], ["--context 4", "a product has a batch, but no tokens and phases"]),
        (["run", "matmul:8,8,8", "--phase", "decode"], ["--phase decode"]),
        (["run", "matmul:0,8,8"], ["M is not a size"]),
        (["run", "matmul:99999999999,1,1"], ["99999999999", "1 to 2,147,483,647"]),
        (["crossover", "h100", "int8", "--shape", f"1,{2**40},1"], [f"{2**40}", "below 1,099,511,627,776"]),
        (["cluster", "step", "llama-3-8b", "--cluster", f"dgx-a100:{9**20}"], [f"{9**20}", "1 to 16,777,216"]),
        (["cluster", "collective", "all_reduce", "1MB", "--cluster", "dgx-a100:16777217"], ["1 to 16,777,216"]),
        (["cluster", "show", "dgx-a100:0"], ["'0'", "1 to 16,777,216"]),
        (["run", "mlp", "--trips", "while=-1"], ["--trips while", "out of range", "'-1'", "from 0 on"]),
        (["run", "/tmp"], ["/tmp", "a directory", ".onnx"]),
        (["run", "mlp", "--cores", "0"], ["cores: out of range", "got 0"]),
        (["run", "mlp", "--set", "memory.bandwidth=900"], ["needs a unit", "GB/s"]),
        (["run", "mlp", "--dtype", "f23"], ["unknown dtype"]),
        (["run", "mlp", "--dtype", "f16", "--machine", "edge-8"], ["f16", "--dtype bf16"]),
        (["roofline", "mlp", "--engine", "vLMM"], ["unknown engine", "vLLM"]),
        (["map", "matmul:8,8,8", "--table", "x.json", "--tiles", "m=8"], ["given twice"]),
        (["profile", "missing.json"], ["missing.json: no such file"]),
        (["run", "mlp", "-m", "tpu-v3"], ["No such option: -m", "--machine"]),
        (["--machine", "tpu-v3", "run", "mlp"], ["Options follow the command", "tilesim run mlp"]),
        (["run", "mlp", "--batch", "zero"], ["not a whole number", "'zero'"]),
        (["run", "mlp", "--batch", "0"], ["1 or more", "'0'"]),
        (["sweep", "mlp", "--over", "core.arrays=1,2"], ["No such option: --over", "--set"]),
        (["sweep", "mlp", "--set", "core.arrays=1,2,"], ["is empty", "a comma too many"]),
        (["run", "mlp", "--set", "core.clock"], ["--set", "core.clock='value'"]),
        (["run", "mlp", "--set", "core.clock=1GHz,core.arrays=2"], ["several settings", "--set once for each"]),
        (["check", "old.json"], ["check needs a saved result", "--against"]),
        (["help"], ["tilesim --help"]),
        (["cluster", "step", "mlp", "--cluster", "dgx-h100:8"], ["mlp is a network of one chip"]),
        (["cluster", "step", "llama-3-8b", "--cluster", "tpu-v3-8", "--timeline", "x.pftrace"], [".pftrace", ".json"]),
    ],
)
def test_mistakes_are_explained(arguments: list[str], words: list[str]) -> None:
    done = tilesim(*arguments)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_columns_that_a_table_lacks(tmp_path: Path) -> None:
    """All missing columns at once; --device stands for its column."""
    path = tmp_path / "rows.csv"
    for text, words in (
        ("m,n,k,time\n1,2,3,4\n", "lacks columns: dtype, latency_ms"),
        ("m;n;k\n1;2;3\n", "not separated by commas"),
        ("", "the file is empty"),
    ):
        path.write_text(text, encoding="utf-8")
        done = tilesim("calibrate", str(path), "--device", "h100")
        assert done.returncode == 2 and words in done.stderr, done.stderr
    path.write_text("m,n,k,dtype,latency_ms\n64,64,64,f16,1\n", encoding="utf-8")
    assert tilesim("validate", "gemm", "--cases", str(path), "--device", "h100").returncode == 0


def test_sections_are_listed_once() -> None:
    done = tilesim("run", "mlp", "--set", "foo=3")
    assert done.returncode == 2 and done.stderr.count("memory.*") == 1


def test_sizes_of_a_file_are_its_own(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    ts.models.mlp().save(path)
    assert tilesim("run", str(path), "--quiet").returncode == 0
    done = tilesim("run", str(path), "--batch", "4")
    assert done.returncode == 2 and "--batch 4" in done.stderr and "fixed" in done.stderr


def test_tables_by_pipe(tmp_path: Path) -> None:
    """A byte order mark, a pipe, a header without rows."""
    table = "\ufeffworkload,measured_cycles_at_940MHz\ngemm_64x64x64,1000\ngemm_8x8,10\ngemm_8x8x8,\n"
    command = [sys.executable, "-m", "tilesim", "validate", "tpu-v3", "--cases", "/dev/stdin", "--json", "-"]
    done = subprocess.run(command, input=table, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [row["status"] for row in json.loads(done.stdout)["rows"]] == ["ok", "invalid", "invalid"]
    path = tmp_path / "header.csv"
    path.write_text(table.split("\n")[0] + "\n", encoding="utf-8")
    for name in ("tpu-v3", "gemm"):
        done = tilesim("validate", name, "--cases", str(path))
        assert done.returncode == 2 and "no rows" in done.stderr and "header.csv" in done.stderr


def test_run_writes_files(tmp_path: Path) -> None:
    result, trace = tmp_path / "result.json", tmp_path / "trace.perfetto"
    done = tilesim("run", "mlp", "--json", str(result), "--timeline", str(trace), "--verify")
    assert done.returncode == 0, done.stderr
    loaded = ts.Result.load(result)
    assert loaded.cycles == json.loads(result.read_text())["cycles"]
    assert loaded.summary() in done.stdout
    assert trace.stat().st_size > 100


def test_the_trace_is_what_perfetto_reads(tmp_path: Path) -> None:
    trace_pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    path = tmp_path / "trace"
    result = ts.run(ts.workloads.matmul(256, 256, 256), timeline=True)
    result.timeline(path)
    trace = trace_pb2.Trace()
    trace.ParseFromString(path.read_bytes())
    events = [packet.track_event for packet in trace.packet if packet.HasField("track_event")]
    counters = [event for event in events if event.type == event.TYPE_COUNTER]
    assert len(events) - len(counters) == 2 * len(result.data["intervals"])
    memory = result.data["memory"]
    assert len(counters) == sum(len(row) + 1 for row in memory["channel_bytes"])
    step = memory["step_cycles"] / memory["hertz"]
    moved = sum(event.counter_value for event in counters) * 1e6 * step
    assert moved == pytest.approx(result.memory_bytes, rel=0.01)


def test_fallback_and_place(tmp_path: Path) -> None:
    b = ts.GraphBuilder("spectrum")
    re, _ = by_size(b, b.linear(b.input("x", (16, 16)), 16, name="first"), "order", 1)
    b.output(re, "y")
    path = str(tmp_path / "graph.json")
    b.build().save(path)
    done = tilesim("run", path)
    assert done.returncode == 2 and "sort" in done.stderr and "--fallback host" in done.stderr
    done = tilesim("run", path, "--fallback", "host", "--verify", "--json", str(tmp_path / "r.json"))
    assert done.returncode == 0, done.stderr
    assert "of the time on the host" in done.stdout and "to host: first" in done.stdout and "xeon-8480" in done.stdout
    assert ts.Result.load(tmp_path / "r.json").host_share > 0
    done = tilesim("run", path, "--fallback", "host", "--place", "first=host")
    assert done.returncode == 0 and "to host: x" in done.stdout
    done = tilesim("coverage", path, "--json", "-")
    rows = json.loads(done.stdout)["operations"]
    assert {row["operation"]: row["on"] for row in rows}["order"] == "host"
    assert "unsupported on tpu-v3" in tilesim("coverage", path).stdout


@pytest.mark.parametrize("name", ts.Machine.names())
def test_every_number_of_a_preset_has_a_source(name: str) -> None:
    machine = ts.Machine.load(name)
    assert ts.Machine.load(machine.to_dict()).core.hash() == machine.core.hash()
    stated = (
        json.loads((Path(ts.__file__).parent / "configs" / "machines" / f"{name}.json").read_text())
        if (Path(ts.__file__).parent / "configs").exists()
        else None
    )
    assert all(machine.sources.values())
    assert stated is None or "sources" in stated


def test_unknown_key_in_a_machine_file(tmp_path: Path) -> None:
    data = ts.Machine.load("edge-8").to_dict()
    data["core"]["array"]["rowz"] = 3
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")
    with pytest.raises(ts.UserError, match="rowz") as caught:
        ts.Machine.load(path)
    assert "rows" in str(caught.value)
    assert "machine.json:" in str(caught.value)


def test_arrays_that_timing_reads(tmp_path: Path) -> None:
    """Each expert's rows are data: all on one take another time than an even spread; what is no array is refused."""
    graph = ts.GraphBuilder("ragged")
    x, w = graph.input("x", (64, 32)), graph.input("w", (4, 32, 48))
    sizes = graph.input("sizes", (4,), "i32")
    graph.output(graph.op("ragged_contract", x, w, sizes, name="experts"), "y")
    path, data = str(tmp_path / "ragged.json"), tmp_path / "data.npz"
    built = graph.build()
    built.save(path)
    array = np.array([61, 1, 1, 1], np.int32)
    np.savez(data, sizes=array)
    done = tilesim("run", path, "--quiet", "--tensors", str(data), "--json", str(tmp_path / "r.json"))
    assert done.returncode == 0, done.stderr
    wanted = ts.simulate(ts.compile(built, "tpu-v3"), tensors={"sizes": array})
    result = ts.Result.load(tmp_path / "r.json")
    assert result.cycles == wanted.cycles != ts.simulate(ts.compile(built, "tpu-v3")).cycles
    assert "computed from sizes (trace data.npz)" in result.data["data_sources"].values()
    assert "sizes" in result.data["options"]["tensors"]
    data.write_bytes(b"no archive")
    for name in (data, tmp_path / "missing.npz"):
        done = tilesim("run", path, "--quiet", "--tensors", str(name))
        assert done.returncode == 2 and name.name in done.stderr
