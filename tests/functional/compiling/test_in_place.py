"""States lie where they lay: through functions and loops, and nowhere where the old value is read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilesim as ts
from tilesim.graph import Tensor
from tilesim.models.decoder import LLAMA_3_8B, decoder

ROWS, WIDTH = 1024, 128
WHOLE = ROWS * WIDTH * 4


def layer(b: ts.GraphBuilder, name: str, reads_old: bool = False) -> ts.GraphBuilder:
    """(x, cache) -> (sum of the cache's rows + x, cache with x at row 5)."""
    f = b.function(name)
    x, cache = f.input("x", (1, WIDTH)), f.input("cache", (ROWS, WIDTH))
    row, zero = f.scalar(5, "i32"), f.scalar(0, "i32")
    new = f.op("dynamic_update", cache, x, row, zero, name="store")
    total = f.op("reduce", cache if reads_old else new, dims=[0], combiner="add", name="total")
    f.output(f.apply("tanh", total.reshape(1, WIDTH) + x, name="act"), "y")
    f.output(new, "kept")
    return f


def graph(calls: int = 2, reads_old: bool = False, aliased: bool = True, later: bool = False) -> ts.Graph:
    """Each call has a cache of its own; `later`: an old cache is read behind its call."""
    b = ts.GraphBuilder("caches")
    f = layer(b, "layer", reads_old)
    x = b.input("x", (1, WIDTH))
    caches = [b.input(f"cache{i}", (ROWS, WIDTH)) for i in range(calls)]
    kept = []
    for i, cache in enumerate(caches):
        x, new = b.call(f, x, cache, name=f"call{i}")
        kept.append(new)
    b.output(x, "y")
    for i, new in enumerate(kept):
        b.output(new, f"new{i}")
        if aliased:
            b.alias(1 + i, 1 + i)
    if later:
        b.output(b.apply("negate", caches[0]), "old")
    return b.build()


def equal(program: ts.Program, graph: ts.Graph, seed: int = 0) -> None:
    wanted = ts.reference(graph, seed=seed)
    for order in ("text", "early_loads", "random"):
        for poison in (False, True):
            found = ts.execute(program, seed=seed, order=order, poison=poison)
            for name, value in wanted.items():
                np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4, err_msg=f"{name} {order} {poison}")


def moved(graph: ts.Graph, machine: str = "edge-8", **options: object) -> int:
    return ts.simulate(ts.compile(graph, machine, **options)).memory_bytes


@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3", "mesh-16"])
def test_an_alias_reaches_through_calls(machine: str) -> None:
    """Each call reads its cache once, for the sum, and writes a row of it: a copy would move it twice more."""
    own = graph()
    program = ts.compile(own, machine)
    assert ts.simulate(program).memory_bytes < 1.3 * 2 * WHOLE
    equal(program, own)
    assert ts.verify(program).ok
    assert ts.execute(program, find_races=True)
    rows = {row["name"]: row["alias_of"] for row in program.tensors().rows}
    assert rows["new0"] == "cache0"
    assert rows["new1"] == "cache1"


def test_what_is_read_later_is_copied() -> None:
    """Inside the function, behind one of two calls, and without an alias: the old value stays whole."""
    in_place = moved(graph())
    for own in (graph(reads_old=True), graph(later=True), graph(aliased=False)):
        assert moved(own) > in_place + 2 * WHOLE
        program = ts.compile(own, "edge-8")
        said = [note for note in program.notes if 'the state "cache0" is copied' in note]
        assert len(said) == len(own.core.aliases[:1])
        equal(program, own)
        assert ts.verify(program).ok
    assert not any("is copied" in note for note in ts.compile(graph(), "edge-8").notes)


def test_one_call_that_may_not_keeps_all_others_from_it() -> None:
    """A function is one text: its result takes its operand's bytes in every call or in none."""
    b = ts.GraphBuilder("mixed")
    f = layer(b, "layer")
    x, cache, given = b.input("x", (1, WIDTH)), b.input("cache", (ROWS, WIDTH)), b.input("given", (ROWS, WIDTH))
    x, new = b.call(f, x, cache, name="first")
    x, other = b.call(f, x, given, name="second")
    b.output(x, "y")
    b.output(new, "new")
    b.output(b.op("reduce", other, dims=[0], combiner="add"), "sum")
    b.alias(1, 1)
    own = b.build()
    program = ts.compile(own, "edge-8")
    equal(program, own)
    assert ts.verify(program).ok


def test_a_chain_of_calls_updates_one_state() -> None:
    b = ts.GraphBuilder("chain")
    f = layer(b, "layer")
    x, cache = b.input("x", (1, WIDTH)), b.input("cache", (ROWS, WIDTH))
    for i in range(3):
        x, cache = b.call(f, x, cache, name=f"call{i}")
    b.output(x, "y")
    b.output(cache, "new")
    b.alias(1, 1)
    own = b.build()
    program = ts.compile(own, "edge-8")
    assert ts.simulate(program).memory_bytes < 1.3 * 3 * WHOLE
    equal(program, own)
    assert ts.verify(program).ok


def test_a_function_within_a_function() -> None:
    b = ts.GraphBuilder("nested")
    inner = layer(b, "inner")
    outer = b.function("outer")
    x, cache = outer.input("x", (1, WIDTH)), outer.input("cache", (ROWS, WIDTH))
    y, kept = outer.call(inner, x, cache, name="within")
    outer.output(outer.apply("tanh", y), "y")
    outer.output(kept, "kept")
    x, cache = b.input("x", (1, WIDTH)), b.input("cache", (ROWS, WIDTH))
    y, new = b.call(outer, x, cache, name="call")
    b.output(y, "y")
    b.output(new, "new")
    b.alias(1, 1)
    own = b.build()
    program = ts.compile(own, "edge-8")
    assert ts.simulate(program).memory_bytes < 1.3 * WHOLE
    equal(program, own)
    assert ts.verify(program).ok


def loop(through_call: bool, later: bool = False) -> ts.Graph:
    """Three trips, each of which writes a row of the cache."""
    b = ts.GraphBuilder("loop")
    f = b.function("store")
    x, cache, at = f.input("x", (1, WIDTH)), f.input("cache", (ROWS, WIDTH)), f.input("at", (), "i32")
    f.output(f.op("dynamic_update", cache, x, at, f.scalar(0, "i32"), name="row"), "kept")
    x, cache = b.input("x", (1, WIDTH)), b.input("cache", (ROWS, WIDTH))
    shapes = {"i": ((), "i32"), "x": ((1, WIDTH), "f32"), "cache": ((ROWS, WIDTH), "f32")}
    more, step = b.function("more"), b.function("step")
    state = {key: more.input(key, shape, dtype) for key, (shape, dtype) in shapes.items()}
    more.output(more.apply("less", state["i"], more.scalar(5, "i32")), "on")
    state = {key: step.input(key, shape, dtype) for key, (shape, dtype) in shapes.items()}
    if through_call:
        row = step.scalar(7, "i32")
        new = step.call(f, state["x"], state["cache"], row, name="stored")
    else:
        new = step.op("dynamic_update", state["cache"], state["x"], state["i"], step.scalar(0, "i32"), name="row")
    step.output(state["i"] + 1, "i.next")
    step.output(step.apply("tanh", state["x"]), "x.next")
    step.output(new, "cache.next")
    found = b.core.op("while", [b.scalar(2, "i32").value, x.value, cache.value], {}, "loop", 3, ["more", "step"])
    b.output(Tensor(b, found[1]), "y")
    b.output(Tensor(b, found[2]), "new")
    b.alias(1, 1)
    if later:
        b.output(b.apply("negate", cache), "old")
    return b.build()


@pytest.mark.parametrize("through_call", [False, True])
def test_an_alias_reaches_through_loops(through_call: bool) -> None:
    own, later = loop(through_call), loop(through_call, later=True)
    assert moved(own) < WHOLE / 4
    assert moved(later) > 3 * WHOLE
    for one in (own, later):
        program = ts.compile(one, "edge-8")
        equal(program, one)
        assert ts.verify(program).ok


def test_llama_decode_moves_little_more_than_its_bound() -> None:
    """Weights and caches once: no layer copies its cache (which alone was more than the caches' bytes again)."""
    sizes = {"vocabulary": 1024, "width": 512, "layers": 2, "heads": 4, "key_heads": 2, "hidden": 1024}
    own = decoder(replace(LLAMA_3_8B, name="small", **sizes), 4, 2048, "decode", "bf16")
    result = ts.simulate(ts.compile(own, "tpu-v3", lowering="best"))
    assert result.bounds is not None
    assert 1 <= result.memory_bytes / result.bounds.bytes < 1.25


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3"])
@pytest.mark.parametrize("behind", ["transpose", "reshape", "slice", "reverse", "concat", "twice transposed"])
def test_what_moves_an_update_has_what_was_not_updated(behind: str, machine: str) -> None:
    """An update of an update leaves most of its tensor where it lay: only a whole tensor may be stored elsewhere."""
    b = ts.GraphBuilder("updates")
    x = b.input("x", [3, 7, 4])
    known = np.random.default_rng(0).standard_normal((3, 7, 4)).astype(np.float32)
    inputs, value = [known], known.copy()
    for number, size in enumerate(([2, 3, 1], [1, 2, 4])):
        part = np.full(size, number + 5, np.float32)
        x = b.op("dynamic_update", x, b.input(f"u{number}", size), *(b.scalar(1, "i32") for _ in range(3)))
        start = [min(1, extent - s) for extent, s in zip((3, 7, 4), size, strict=True)]
        value[tuple(slice(at, at + s) for at, s in zip(start, size, strict=True))] = part
        inputs.append(part)
    if behind.endswith("transposed") or behind == "transpose":
        x, value = b.op("transpose", x, permutation=[1, 2, 0]), value.transpose(1, 2, 0)
    if behind == "twice transposed":
        x, value = b.op("transpose", b.apply("negate", x), permutation=[1, 0, 2]), -value.transpose(1, 0, 2)
    elif behind == "reshape":
        x, value = b.op("reshape", x, shape=[21, 4]), value.reshape(21, 4)
    elif behind == "slice":
        x, value = b.op("slice", x, start=[0, 1, 0], limit=[3, 7, 3], stride=[1, 2, 1]), value[:, 1::2, :3]
    elif behind == "reverse":
        x, value = b.op("reverse", x, dims=[1]), value[:, ::-1]
    elif behind == "concat":
        x, value = b.op("concat", x, x, dim=2), np.concatenate([value, value], 2)
    b.output(x, "y")
    program = ts.compile(b.build(), machine)
    np.testing.assert_array_equal(ts.execute(program, inputs, poison=True)["y"], value)
    assert ts.verify(program).ok
