"""Files of SCALE-Sim: topologies as graphs, configurations as machines, and its cycle counts beside ours."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
from support.command import tilesim
from support.simulator_files import CONFIGURATION, PRODUCTS, TOPOLOGY
from tilesim.timing.scale_sim import counts_of

COLUMNS = TOPOLOGY.partition("\n")[0]

#: What SCALE-Sim v3 (fab89b7) prints as total cycles: convolutions of its Resnet18 and products, 128 x 128, CALC.
PRINTED = {
    "Conv1, 224, 224, 7, 7, 3, 64, 2,": 24_963, "Conv2_1a, 56, 56, 3, 3, 64, 64, 1,": 16_489,
    "Conv3_1a, 56, 56, 3, 3, 64, 128, 2,": 5_829, "Conv3_s, 57, 57, 1, 1, 64, 128, 2,": 1_222,
    "Conv5_1b, 7, 7, 3, 3, 512, 512, 1,": 58_607, "FC, 1, 1, 1, 1, 512, 1000, 1,": 12_255,
    "qkv, 512, 768, 1, 768, 1, 2304, 1,": 96_551, "qk, 512, 64, 1, 64, 1, 512, 1,": 3_575,
}  # fmt: skip


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def machine(folder: Path, **changes: str) -> ts.Machine:
    text = CONFIGURATION
    for key, value in changes.items():
        text = re.sub(rf"(?m)^{key}( *[:=]) *\S+", rf"{key}\1 {value}", text)
    return ts.Machine.load(written(folder, "scale.cfg", text))


def test_counts_are_those_that_scale_sim_prints(tmp_path: Path) -> None:
    graph = ts.frontends.from_scale_sim(written(tmp_path, "net.csv", "\n".join([COLUMNS, *PRINTED])))
    square = machine(tmp_path, ArrayHeight="128", ArrayWidth="128")
    found = {name: cycles for name, (cycles, _) in counts_of(graph, square).items()}
    assert found == {row.partition(",")[0]: cycles for row, cycles in PRINTED.items()}
    product = ts.workloads.matmul(256, 256, 256, dtype="i8")
    for changes, cycles in (({"ArrayHeight": "128", "ArrayWidth": "128", "Dataflow": "os"}, 2_039),
                            ({"ArrayHeight": "32", "ArrayWidth": "32"}, 22_399)):  # fmt: skip
        assert counts_of(product, machine(tmp_path, **changes))["matmul"][0] == cycles


def test_convolutions_mean_what_the_columns_say(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    path = written(tmp_path, "net.csv", TOPOLOGY)
    graph = ts.frontends.from_scale_sim(path, "f32")
    assert [row["name"] for row in graph.operations() if row["operands"]] == ["Conv1", "DP2", "FC"]
    rng = np.random.default_rng(0)
    given = {row["name"]: rng.standard_normal(row["shape"]).astype(np.float32) for row in graph.inputs}
    found = ts.reference(graph, given)
    values = {name: torch.tensor(graph.weight(f"{name}.w")) for name in ("Conv1", "DP2", "FC")}
    x = torch.nn.functional.pad(torch.tensor(given["Conv1.x"]), (0, 1, 0, 1))  # (12 - 3) and (11 - 4) are odd
    wanted = {
        "Conv1": torch.nn.functional.conv2d(x, values["Conv1"], stride=2),
        "DP2": torch.nn.functional.conv2d(torch.tensor(given["DP2.x"]), values["DP2"], groups=4),
        "FC": torch.tensor(given["FC.x"]) @ values["FC"],
    }
    assert wanted["Conv1"].shape == (1, 6, 6, 5) and wanted["DP2"].shape == (1, 8, 7, 7)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[f"{name}.y"], array.numpy(), rtol=1e-5, atol=1e-6)
    assert any("net.csv:2: SCALE-Sim rounds up: the last windows of Conv1" in line for line in graph.assumptions)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (PRODUCTS, [(24, 20), (24, 16)]),
        ("Layer Name, M, N, K, Sparsity,\nG, 7, 5, 16, 2:4,\n", [(7, 5)]),
        (f"{COLUMNS} Batch Size, Eh\nA, 6, 6, 3, 3, 2, 4, 1, 3, 4", [(3, 4, 4, 4)]),
        (COLUMNS.replace("Strides,", "Stride height, Stride width,") + "\nA, 9, 9, 3, 3, 2, 4, 2, 3", [(1, 4, 4, 3)]),
        (TOPOLOGY.replace(",", "\t"), [(1, 6, 6, 5), (1, 8, 7, 7), (1, 30)]),
        (COLUMNS.replace("IFMAP Height", "IFMAP Width") + "\nA, 8, 5, 3, 3, 2, 4, 1", [(1, 4, 6, 3)]),
        (f"{COLUMNS}\nA, 4, 4, 1, 1, 2, 4, 1\nA, 4, 4, 1, 1, 2, 4, 1", [(1, 4, 4, 4)] * 2),
    ],
)
def test_forms_of_topologies(text: str, shapes: list[tuple[int, ...]], tmp_path: Path) -> None:
    graph = ts.frontends.from_scale_sim(written(tmp_path, "net.csv", text))
    assert [tuple(row["shape"]) for row in graph.outputs] == shapes
    told = " ".join(graph.assumptions)
    assert "dtype (i8)" in told and ("2:4 is ignored" in told) == ("2:4" in text) and ("Eh" in told) == ("Eh" in text)


def test_a_run_names_scale_sims_count_and_what_is_open(tmp_path: Path) -> None:
    """Bytes take their time at the bandwidth of the file: a word per cycle is a byte."""
    topology, configuration = written(tmp_path, "net.csv", PRODUCTS), written(tmp_path, "scale.cfg", CONFIGURATION)
    result = ts.run(topology, machine=configuration)
    words = 24 * 16 + 16 * 20 + 24 * 20 + 24 * 20 + 20 * 16 + 24 * 16
    assert result.cycles >= words / 4 and result.memory_bytes >= words
    (line,) = [text for text in result.approximations if text.startswith("SCALE-Sim counts")]
    folds = {"scores": 1 * 3 * (24 + 38) - 1, "values": 2 * 2 * (24 + 38) - 1}  # T + 2 R + C - 2
    assert f"{sum(folds.values()):,} cycles for the 2 products, this run takes {result.cycles:,}" in line
    assert all(f"{name} {cycles} : " in line for name, cycles in folds.items())
    (open_,) = [text for text in result.approximations if "leaves open: SCALE-Sim" in text]
    assert "core.clock 1 GHz" in open_ and "not read: IfmapOffset, layout.IfmapCustomLayout" in open_
    assert any("net.csv leaves open: dtype (i8)" in text for text in result.approximations)
    quick = ts.run(topology, machine=machine(tmp_path, InterfaceBandwidth="CALC"))
    assert quick.cycles < result.cycles
    for text in ts.run(topology, machine="edge-8").approximations:
        assert not text.startswith("SCALE-Sim")
    done = tilesim("run", topology, "--machine", configuration, "--dtype", "f32", "--no-advice")
    assert done.returncode == 0 and "SCALE-Sim counts" in done.stdout and "dtype (f32)" in done.stdout


def test_a_configuration_is_a_machine(tmp_path: Path) -> None:
    found = machine(tmp_path, Dataflow="is", Bandwidth="4,6", ArrayHeight="12")
    wanted = {"core.array.rows": 12, "core.array.columns": 8, "core.array.dataflow": "input_stationary",
              "core.scratchpad.bytes": "64 KiB", "core.scratchpad.accumulator_bytes": "16 KiB",
              "memory.bandwidth": "10 GB/s", "memory.channels": 2, "memory.kind": "simple"}  # fmt: skip
    assert {path: found.get(path) for path in wanted} == wanted and found.name == "small"
    assert ts.Machine.load(found.to_dict()).sources == found.sources
    clocked = found.replace({"core.clock": "2 GHz"})
    result = ts.simulate(ts.compile(ts.workloads.matmul(8, 8, 8, dtype="i8"), clocked))
    assert not any("core.clock" in text for text in result.approximations)  # it is no longer open


BAD = {
    "": "too few columns",
    COLUMNS: "no layers",
    "Layer, M, K, N\na, 1, 2, 3": "unexpected order of columns",
    COLUMNS.replace("Filter Height", "Filter Hight"): r"unknown column.*Filter Hight.*Did you mean 'filter height'",
    f"{COLUMNS}\nA, 4, 4, 1, 1, 2, 4": r"net.csv:2, strides: not a size \(got ''",
    f"{COLUMNS}\nA, 4, 4, 1, 1, 0, 4, 1": "net.csv:2, channels: the layer is empty",
    f"{COLUMNS}\n\nA, 4, 4, 5, 1, 2, 4, 1": r"net.csv:3: the filter is larger.*got 5; allowed: 1 to 4",
    f"{COLUMNS}\nA, 4 px, 4, 1, 1, 2, 4, 1": r"ifmap height: not a size \(got '4 px'",
    f"{COLUMNS}\nA, 4, -4, 1, 1, 2, 4, 1": r"ifmap width: not a size",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_damaged_topologies(text: str, tmp_path: Path) -> None:
    with pytest.raises(ts.UserError, match=BAD[text]):
        ts.frontends.from_scale_sim(written(tmp_path, "net.csv", text))


CHANGES = {
    ("ArrayHeight", "ArayHeight"): r"\[architecture_presets\]: unknown key.*Did you mean 'ArrayHeight'",
    ("Bandwidth : 4", "Bandwith : 4"): "Did you mean 'Bandwidth'",
    ("Bandwidth : 4", ""): "missing key of the configuration.*Bandwidth",
    ("Dataflow : ws", "Dataflow : rs"): r"unknown value.*allowed: os, ws, is",
    ("ArrayWidth:     8", "ArrayWidth: 8 cells"): r"ArrayWidth: not a whole number.*'8 cells'.*1 to 65536",
    ("ArrayWidth:     8", "ArrayWidth: 0"): "ArrayWidth: not a whole number",
    ("USER", "user"): "Did you mean 'USER'",
    ("[general]\nrun_name", "run_name"): "not a configuration",
    ("[architecture_presets]", "[architecture]"): "missing key of the configuration|unknown",
    ("[architecture_presets]", "[architecture_preset]"): r"unknown section.*Did you mean '?\[architecture_presets\]",
    ("[run_presets]\nInterfaceBandwidth: USER\n", ""): "missing key of the configuration.*InterfaceBandwidth",
}


@pytest.mark.parametrize("change", CHANGES)
def test_damaged_configurations(change: tuple[str, str], tmp_path: Path) -> None:
    assert change[0] in CONFIGURATION
    with pytest.raises(ts.UserError, match=CHANGES[change]):
        ts.Machine.load(written(tmp_path, "scale.cfg", CONFIGURATION.replace(*change)))
