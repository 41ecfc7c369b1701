"""What a format is, for `formats`; graphs, programs and results among them: samples and uses."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tilesim as ts
from support.unlowered import by_size
from tilesim import _core
from tilesim.base.dtypes import NUMPY
from tilesim.graph.tensor import Tensor

Use = Callable[[Any, Path], object]
TESTS = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Format:
    """One format. `read` gets the file's path, each of `uses` what `read` gave and a folder for what it writes."""

    name: str
    file: str  # its name says what it is
    form: str  # of damage.damaged
    samples: Callable[[Path], Sequence[bytes]]
    read: Callable[[Path], Any]
    uses: Sequence[Use] = ()
    share: int = 300  # files of a run of 20,000
    beside: Callable[[Path], object] | None = None  # makes files that it names
    needs: str = ""  # a library


def texts(*values: Any) -> list[bytes]:
    """JSON values, or texts, as files."""
    return [(value if isinstance(value, str) else json.dumps(value)).encode() for value in values]


def saved(made: Sequence[Any], folder: Path, name: str) -> list[bytes]:
    """What their `save` writes."""
    found = []
    for value in made:
        value.save(folder / name)
        found.append((folder / name).read_bytes())
    return found


# --- graphs ---


def graphs() -> list[ts.Graph]:
    """Small ones, with weights of their own."""
    b = ts.GraphBuilder("small")
    w = b.weight("w", [20, 30], data=np.ones((20, 30), np.float32))
    b.output(b.apply("relu", b.linear(b.matmul(b.input("x", (6, 20)), w), 8, name="out")), "y")
    kept = b.build()
    kept.defaults["x"] = np.arange(120, dtype=np.float32).reshape(6, 20)
    return [kept, ts.workloads.softmax(4, 8), ts.workloads.conv2d(1, 3, 6, 6, 4, 3, padding=1), looped()]


def looped() -> ts.Graph:
    """A loop that data end."""
    b = ts.GraphBuilder("halved")
    test, step = b.function("test"), b.function("step")
    total = test.op("reduce", test.input("v", (4,)), dims=[0], combiner="add")
    test.output(test.apply("greater", total, test.scalar(1.0)))
    step.output(step.input("v", (4,)) * 0.5)
    found = b.core.op("while", [b.input("x", (4,)).value], {}, "loop", 1, ["test", "step"])
    b.output(Tensor(b, found[0]), "y")
    return b.build()


def spectrum() -> ts.Graph:
    """A part of it runs on the host."""
    b = ts.GraphBuilder("spectrum")
    real, _ = by_size(b, b.linear(b.input("x", (16, 32)), 64, name="mix"), "spectrum", 1)
    b.output(b.linear(real, 8, name="head"), "y")
    return b.build()


def told(graph: ts.Graph, folder: Path) -> None:
    """Everything that a graph says about itself."""
    assert repr(graph) and graph.operations() is not None
    graph.flops(), graph.compulsory_bytes(), graph.parameters
    for name in graph.weights():
        graph.weight(name)


def saved_again(graph: ts.Graph, folder: Path) -> None:
    """What is saved is read again."""
    for name in ("again.json", "again.tsim"):
        graph.save(folder / name)
        again = ts.Graph.load(folder / name)
        assert len(again.operations()) == len(graph.operations())


def simulated(graph: ts.Graph, folder: Path) -> None:
    """Compiled, simulated, saved."""
    program = ts.compile(graph, "edge-8")
    result = ts.simulate(program, timeline=True)
    shown(result, folder)
    program.save(folder / "program.tsim")


def passed(graph: ts.Graph, folder: Path) -> None:
    """Every pass."""
    copy = graph.copy()
    copy.optimize()
    copy.fold_constants(1 << 10)
    copy.expand()
    copy.inline_calls()
    copy.merge_common_subexpressions()
    copy.remove_dead_code()
    copy.check()


GRAPH_USES: list[Use] = [
    told,
    saved_again,
    simulated,
    passed,
    lambda graph, _: ts.reference(graph),
    lambda graph, _: ts.verify(ts.compile(graph, "edge-8")).table(),
    lambda graph, _: ts.simulate(ts.compile(graph, "tpu-v3", fallback="host")).table(),
    lambda graph, _: repr(ts.estimate(graph, "t4")),
    lambda graph, _: repr(ts.coverage(graph, "edge-8")),
]


def by_path(folder: Path) -> list[bytes]:
    """Graphs whose weights lie beside them, or in their own text."""
    found = []
    for source in ({"source": "file", "path": "w.bin", "byte_offset": 4}, {"source": "data", "data": "AAAAAAAAgD8="}):
        weight = {"dtype": "f32", "shape": [2], **source}
        ops = [
            {"name": "c", "kind": "constant", "attributes": {"reference": "w"}},
            {"name": "r", "kind": "copy", "operands": ["c"]},
        ]
        document = {"schema": "tilesim.graph", "version": 1, "weights": {"w": weight}}
        document["functions"] = [{"name": "main", "inputs": [], "ops": ops, "outputs": ["r"]}]
        found.append(document)
    return texts(*found)


def read_graph(path: Path) -> ts.Graph:
    """Under the file's own rules."""
    return ts.Graph.load(path)


# --- programs ---


def executed(program: ts.Program, folder: Path) -> None:
    """By hand, on zeros."""
    arrays = {
        row["name"]: np.zeros(row["shape"], NUMPY[row["dtype"]])
        for row in program.core.tensors()
        if row["role"] in ("input", "weight")
    }
    _core.execute(program.core, arrays, find_races=True)


#: of programs that name none
CHIP = ts.Machine.load("tpu-v3").replace({"core.count": 2, "core.dma.load_queues": 2, "layout.tile": []})


def program_simulated(program: ts.Program, folder: Path) -> None:
    """On its own machine, else on a small one."""
    shown(ts.simulate(program, program.machine or CHIP, timeline=True), folder)


def program_told(program: ts.Program, folder: Path) -> None:
    """Everything that it says about itself, and its own text."""
    assert repr(program) and program.notes is not None
    program.operations, program.footprint, program.tensors(), program.placement, program.transfers, program.loops_said
    if "program" in program._contents():
        _core.Program.from_json(program.core.to_json())


def whole(program: ts.Program, folder: Path) -> None:
    """Its weights, and its files."""
    program.weights()
    program.save(folder / "again.tsim")
    ts.Program.load(folder / "again.tsim")


def compiled(folder: Path) -> list[bytes]:
    """For one machine, with parts for the host, with trips that were said."""
    made = [
        ts.compile(graphs()[0], "edge-8"),
        ts.compile(spectrum(), "tpu-v3", fallback="host"),
        ts.compile(looped(), "edge-8", trips={"loop": 3}),
    ]
    return saved(made, folder, "seed.tsim")


COMPILED_USES: list[Use] = [
    program_told, program_simulated, whole, lambda program, _: ts.execute(program),
    lambda program, _: ts.verify(program).table(), lambda program, _: told(program.graph, Path()),
]  # fmt: skip


def shown(result: ts.Result, folder: Path) -> None:
    """All that shows a result."""
    assert repr(result) and result._repr_html_()
    tables = (result.table(), result.units(), result.cores(), result.jobs(), result.cache_table())
    shares = (result.energy, result.utilisation, result.host_share, result.channel_bytes, result.data_sources)
    moved = (result.cache, result.approximations, result.local_bytes, result.remote_bytes)
    assert len(tables) + len(shares) + len(moved) == 14
    repr(ts.compare(result, result))
