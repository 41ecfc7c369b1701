"""Problems and architectures of Timeloop as graphs and machines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("yaml", reason="pyyaml is not installed")

import tilesim as ts
from support.simulator_files import ARCHITECTURE, GEMM, OLDER, PROBLEM
from tilesim.mapping import products
from tilesim.mapping_import import from_timeloop


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def values(graph: ts.Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {row["name"]: rng.standard_normal(row["shape"]).astype(np.float32) for row in graph.inputs}


def test_a_problem_is_the_convolution_of_its_sums(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    graph = ts.frontends.from_timeloop_problem(written(tmp_path, "p.yaml", PROBLEM), "f32")
    given = values(graph)
    # 2 (P - 1) + (R - 1) + 1 rows, (Q - 1) + 3 (S - 1) + 1 columns
    assert given["Inputs"].shape == (2, 3, 11, 9) and given["Weights"].shape == (4, 3, 3, 2)
    x, w = (torch.tensor(given[name]) for name in ("Inputs", "Weights"))
    wanted = torch.nn.functional.conv2d(x, w, stride=(2, 1), dilation=(1, 3)).numpy()
    (found,) = ts.reference(graph, given).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert any("not read: densities" in line for line in graph.assumptions)


def test_a_problem_is_the_product_of_its_data_spaces(tmp_path: Path) -> None:
    graph = ts.frontends.from_timeloop_problem(written(tmp_path, "p.yaml", GEMM), "f32")
    given = values(graph)
    (found,) = ts.reference(graph, given).values()
    np.testing.assert_allclose(found, given["A"] @ given["W"], rtol=1e-5, atol=1e-6)
    assert found.shape == (3, 10, 12)


@pytest.mark.parametrize(
    ("text", "multiply_adds"),
    [
        ("problem: {shape: cnn-layer, C: 3, K: 4, R: 3, S: 2, P: 5, Q: 6, N: 2}", 3 * 4 * 3 * 2 * 5 * 6 * 2),
        ("problem: {instance: {C: 3, K: 4, R: 1, S: 1, P: 5, Q: 6, N: 1, Wstride: 2}}", 3 * 4 * 5 * 6),
        (PROBLEM.replace("[[M]], [[R]]", "[[M]], [[G]], [[R]]").replace("[[N]], [[C]]", "[[N]], [[G]], [[C]]")
         .replace("[[N]], [[M]]", "[[N]], [[G]], [[M]]").replace("[C, M, R,", "[G, C, M, R,")
         .replace("{C: 3, M", "{G: 5, C: 3, M"), 5 * 3 * 4 * 3 * 2 * 2 * 5 * 6),
    ],
)  # fmt: skip
def test_forms_of_problems(text: str, multiply_adds: int, tmp_path: Path) -> None:
    graph = ts.frontends.from_timeloop_problem(written(tmp_path, "p.yaml", text))
    assert graph.flops()["matrix"] == 2 * multiply_adds


def test_an_architecture_is_a_machine(tmp_path: Path) -> None:
    found = ts.Machine.load(written(tmp_path, "a.yaml", ARCHITECTURE))
    wanted = {"core.count": 2, "core.array.columns": 8, "core.array.rows": 4, "core.clock": "500 MHz",
              "core.scratchpad.bytes": "12 KiB", "memory.kind": "simple", "memory.bandwidth": "8 GB/s",
              "memory.burst_bytes": "8 B"}  # fmt: skip
    assert {path: found.get(path) for path in wanted} == wanted and found.name == "chip"
    older = ts.Machine.load(written(tmp_path, "o.yaml", OLDER))
    wanted = {"core.count": 1, "core.array.columns": 8, "core.array.rows": 4, "core.scratchpad.bytes": "8 KiB",
              "memory.kind": "ideal", "core.clock": "1 GHz"}  # fmt: skip
    assert {path: older.get(path) for path in wanted} == wanted


def test_one_file_is_a_machine_a_workload_and_a_mapping(tmp_path: Path) -> None:
    nest = """mapping:
- {target: main, type: temporal, factors: M=2 N=3 K=1, permutation: MNK}
- {target: inputs, type: temporal, factors: M=5 N=4 K=14}
"""
    whole = written(tmp_path, "all.yaml", ARCHITECTURE + GEMM.replace("  B: 3", "  B: 1") + nest)
    result = ts.run(whole, machine=whole)
    (open_,) = [line for line in result.approximations if "leaves open" in line and "Timeloop" in line]
    assert "register" in open_ and "chip.technology" in open_ and "core.array.dataflow weight_stationary" in open_
    assert result.seconds >= (10 * 14 + 12 * 14 + 10 * 12) / 8e9  # bytes at 16 words of a byte per 2 ns
    graph, machine = ts.frontends.from_timeloop_problem(whole), ts.Machine.load(whole)
    table = from_timeloop(whole, products(graph, machine))
    program = ts.compile(graph, machine, mapping=table)
    assert table.hits == ["gemm"] and ts.simulate(program).cycles > 0


BAD_PROBLEMS = {
    ("instance: {C: 3", "instance: {C: 0"): "instance: C: the layer is empty",
    ("instance: {C: 3", "instance: {C: 3 KiB"): "instance: C: invalid extent.*3 KiB",
    ("instance: {C: 3,", "instance: {"): "instance: C: missing extent",
    ("Wstride: 2", "Wstrid: 2"): "unknown dimension.*Wstrid.*Did you mean 'Wstride'",
    ("data_spaces", "data_space"): "unknown key.*data_space.*Did you mean 'data_spaces'",
    ("[[M]], [[R]]", "[[M]], [[T]]"): r"data_spaces\[0\]: projection\[2\]: unknown dimension.*'T'",
    ("[R, Wdilation]", "[R, Wdilaton]"): "unknown coefficient.*Did you mean 'Wdilation'",
    ("read_write: true", "read_write: false"): "neither a product of two operands nor a convolution",
    ("[[N]], [[C]]", "[[N]]"): "a dimension occurs in only one data space.*C",
    ("[[Q]], [[P]]]", "[[Q]]]"): "not a window over positions",
    ("problem:", "problems:"): "the file has no problem",
    ("  shape:", "  shape: ["): "invalid YAML",
}


@pytest.mark.parametrize("change", BAD_PROBLEMS)
def test_damaged_problems(change: tuple[str, str], tmp_path: Path) -> None:
    assert change[0] in PROBLEM
    with pytest.raises(ts.UserError, match=BAD_PROBLEMS[change]):
        ts.frontends.from_timeloop_problem(written(tmp_path, "p.yaml", PROBLEM.replace(*change)))


BAD_ARCHITECTURES = {
    ("shared_bandwidth", "shared_bandwidt"): "unknown attribute.*shared_bandwidt'.*Did you mean 'shared_bandwidth'",
    ("global_cycle_seconds", "global_cycle_secnds"): "unknown attribute.*Did you mean 'global_cycle_seconds'",
    ("spatial: {meshX: 2}", "spatial: {meshx: 2}"): "unknown key of a mesh.*Did you mean 'meshX'",
    ("spatial: {meshX: 2}", "spatial: {meshX: two}"): "spatial: meshX: not a number above 0.*two",
    ("spatial: {meshX: 2}", "spatal: {meshX: 2}"): "unknown key of a node.*Did you mean 'spatial'",
    ("!Parallel", "!Paralel"): "unknown tag of a node.*Did you mean 'Parallel'",
    ("{depth: 1024, width: 64, n_banks: 4}", "{depth: -1, width: 64}"): "depth: not a number above 0",
    ("class: DRAM", "class: SRAM"): "missing off-chip memory",
    ("class: intmac", "class: adder"): "missing multiplier",
    ("2e-9", "fast"): "global_cycle_seconds: not a number above 0",
    ("architecture:\n", "arch:\n"): "missing architecture",
    ("  nodes:\n", "  nodes: 3\n  unused:\n"): "a value has the wrong type.*a list",
    ("attributes: {width: 64, datawidth: 8, shared_bandwidth: 16}", "attributes: [1]"): "wrong type.*a mapping",
}


@pytest.mark.parametrize("change", BAD_ARCHITECTURES)
def test_damaged_architectures(change: tuple[str, str], tmp_path: Path) -> None:
    text = ARCHITECTURE.replace("name: main", "name: big") if "class: DRAM" in change else ARCHITECTURE
    text = text.replace("name: mac", "name: sum") if "class: intmac" in change else text
    assert change[0] in text
    with pytest.raises(ts.UserError, match=BAD_ARCHITECTURES[change]):
        ts.Machine.load(written(tmp_path, "a.yaml", text.replace(*change, 1)))


def test_what_a_yaml_file_is_not(tmp_path: Path) -> None:
    architecture, problem = (
        written(tmp_path, name, text) for name, text in (("a.yaml", ARCHITECTURE), ("p.yaml", GEMM))
    )
    with pytest.raises(ts.UserError, match="an architecture is a machine: --machine FILE"):
        ts.run(architecture)
    with pytest.raises(ts.UserError, match="missing architecture"):
        ts.run(problem, machine=problem)
    template = written(tmp_path, "t.yaml", "{{include_text('base.yaml')}}\nproblem: {}")
    with pytest.raises(ts.UserError, match="Give the file that pytimeloop generated"):
        ts.frontends.from_timeloop_problem(template)
