"""Programs whose tensors exceed the machine's memory: said in the result, or refused."""

import pytest

import tilesim as ts
from tilesim import models


def product(rows: int = 256) -> ts.Graph:
    b = ts.GraphBuilder("product")
    b.output(b.linear(b.input("x", [rows, 512], "bf16"), 512, name="out"), "y")
    return b.build()


def bytes_needed(program: ts.Program) -> int:
    return sum(count for count, _ in program.footprint)


def test_refused_at_one_byte_less_and_allowed_at_the_bytes_needed() -> None:
    program = ts.compile(product(), "edge-8")
    needed = bytes_needed(program)
    assert needed == 2 * (256 * 512 + 512 * 512 + 512 + 256 * 512)
    exact, less = (ts.Machine.load("edge-8").replace({"memory.capacity": f"{n} B"}) for n in (needed, needed - 1))
    ts.compile(product(), exact, capacity="error")
    with pytest.raises(ts.UserError, match=r"1,049,600 bytes of tensors \(largest: .*524,288 bytes.*at most 1,049,599"):
        ts.compile(product(), less, capacity="error")


def test_the_result_names_bytes_capacity_and_the_largest_tensors() -> None:
    program = ts.compile(product(), "edge-8")
    small = ts.Machine.load("edge-8").replace({"memory.capacity": "600 KiB"})
    texts = [t for t in ts.simulate(program, small).approximations if "memory.capacity" in t]
    assert len(texts) == 1
    assert "1,049,600 bytes" in texts[0]
    assert "614,400 bytes" in texts[0]
    assert not any("memory.capacity" in t for t in ts.simulate(program).approximations)


def test_padding_of_layouts_counts() -> None:
    """The longer axis lies over the 128 lanes, the other over 8 sublanes."""
    b = ts.GraphBuilder("narrow")
    b.output(b.input("x", [64, 5]) * 2.0, "y")
    assert bytes_needed(ts.compile(b.build(), "tpu-v3")) == 2 * 8 * 128 * 4


def test_a_network_of_seventy_billion_parameters_does_not_fit_a_core() -> None:
    graph = models.llama_3_70b(phase="decode", context=128)
    with pytest.raises(ts.UserError, match=r"13\d\.\d\d GiB.*at most 16\.00 GiB"):
        ts.compile(graph, "tpu-v3", capacity="error")


def test_unknown_treatment_is_refused() -> None:
    with pytest.raises(ts.UserError, match="report, error"):
        ts.compile(product(), "edge-8", capacity="ignore")
