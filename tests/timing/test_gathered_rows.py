"""Rows that data names fall on the channels, cache lines and tiles where they lie: closed forms by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts

ROW = 256  # bytes: one unit of the interleaving
CHANNELS = 16


def table(rows: int, height: int = 4096, width: int = ROW // 4, kind: str = "embedding") -> ts.Graph:
    b = ts.GraphBuilder("gathered")
    t = b.input("t", [height, width])
    if kind == "embedding":
        y = b.op("embedding", t, b.input("ids", [rows], "i32"), name="rows")
    else:
        ids = b.input("ids", [rows, 1], "i32")
        attributes: dict[str, Any] = {"start_index_map": [0], "slice_sizes": [1, width], "collapsed_slice_dims": [0]}
        attributes |= {"offset_dims": [1], "index_vector_dim": 1, "mode": kind}
        y = b.op("gather", t, ids, name="rows", **attributes)
    b.output(y, "y")
    return b.build()


def wide(**changes: Any) -> ts.Machine:
    """One core whose ports pass all channels, each of which passes 32 bytes a cycle."""
    settings = {"core.count": 1, "network.port_bytes_per_cycle": 4096, "core.dma.bytes_per_cycle": 4096}
    settings |= {"core.dma.outstanding_bytes": "1 MiB", "memory.buffer_bytes": "1 MiB"}
    settings |= {"memory.channel_hash": "none", "memory.efficiency": 1.0, **changes}
    return ts.Machine.load("mesh-16").replace(settings)


def cycles(machine: ts.Machine, graph: ts.Graph, ids: Any, **options: Any) -> int:
    shape = graph.core.inputs[1]["shape"]
    given = {"ids": np.asarray(ids, np.int32).reshape(shape)}
    return ts.simulate(ts.compile(graph, machine), tensors=given, **options).cycles


@pytest.mark.parametrize("kind", ["embedding", "clip", "error"])
@pytest.mark.parametrize("used", [1, 2, 4, 16])
def test_channels_that_hold_the_rows_set_the_time(kind: str, used: int) -> None:
    """Row i lies on channel i modulo 16: what `used` of them hold passes through these alone."""
    rows, per_cycle = 2048, 32
    ids = np.arange(rows) // used * CHANNELS + np.arange(rows) % used
    machine = wide()
    found = cycles(machine, table(rows, height=65536, kind=kind), ids % 65536)
    read, written = rows * ROW / (per_cycle * used), rows * ROW / (per_cycle * CHANNELS)
    assert read <= found <= read + written + 2000 + 0.05 * read


def test_one_row_again_and_again() -> None:
    machine = wide()
    graph = table(2048)
    same, spread = cycles(machine, graph, np.full(2048, 5)), cycles(machine, graph, np.arange(2048))
    assert same >= 2048 * ROW / 32  # one channel serves them all
    assert spread < same / 6


def test_banks_take_conflicts() -> None:
    """Rows of one bank, each in another row of it, wait for a precharge and an activation each."""
    machine = wide(**{"memory.bank_hash": "none", "memory.mapping": "row bank bank_group column pseudo_channel offset"})
    graph = table(1024, height=1 << 20)
    near = cycles(machine, graph, np.arange(1024), memory="bank")
    far = cycles(machine, graph, np.arange(1024) * 1024 % (1 << 20), memory="bank")
    assert far > 4 * near


def test_a_cache_has_what_was_read_before() -> None:
    cache = {"memory.cache.sets": 64, "memory.cache.ways": 8, "memory.cache.managed": "hardware"}
    machine = wide(**cache)
    graph = table(2048, height=1 << 20)
    program = ts.compile(graph, machine)
    below = {}
    for name, ids in {"few": np.arange(2048) % 16, "many": np.arange(2048) * 16}.items():
        result = ts.simulate(program, tensors={"ids": ids.astype(np.int32)})
        below[name] = result.memory_bytes
    assert below["few"] <= below["many"] - 2000 * ROW


def test_padded_tiles_hold_a_row_in_pieces() -> None:
    """In tiles of 8 by 128 a row of 1,024 is eight pieces of 512 B, 4 KiB apart: eight rows of a tile lie together."""
    machine = ts.Machine.load("tpu-v3").replace({"memory.channel_hash": "none"})
    graph = table(512, width=1024)
    program = ts.compile(graph, machine, lowering="best")
    sizes = {ts.simulate(program, tensors={"ids": np.full(512, i, np.int32)}).memory_bytes for i in (0, 9, 4095)}
    assert len(sizes) == 1


@pytest.mark.parametrize("memory", ["ideal", "simple", "bank"])
@pytest.mark.parametrize("kind", ["embedding", "error"])
@pytest.mark.parametrize("bad", [4096, -1])
def test_an_index_outside_its_table_is_named(memory: str, kind: str, bad: int) -> None:
    ids = np.arange(64)
    ids[37] = bad
    with pytest.raises(ts.UserError, match=rf"index lies outside its table.*{bad}.*0 to 4095.*axis 0 of t") as caught:
        cycles(ts.Machine.load("mesh-16"), table(64, kind=kind), ids, memory=memory)
    assert "element 37" in str(caught.value)


def test_clipped_and_filled_indices_may_lie_anywhere() -> None:
    machine = wide()
    outside = np.full(512, 1 << 20)
    clipped = cycles(machine, table(512, kind="clip"), outside)
    assert clipped == cycles(machine, table(512, kind="clip"), np.full(512, 4095))
    program = ts.compile(table(512, kind="fill"), machine)
    filled, inside = (
        ts.simulate(program, tensors={"ids": np.full((512, 1), i, np.int32)}).memory_bytes for i in (1 << 20, 7)
    )
    assert inside - filled == 512 * ROW  # what is outside is not read


def test_without_indices_rows_are_neighbours() -> None:
    machine, graph = wide(), table(1024)
    result = ts.simulate(ts.compile(graph, machine))
    assert result.data_sources == {"ids": "default: consecutive rows"}
    assert abs(result.cycles / cycles(machine, graph, np.arange(1024)) - 1) < 0.1


def test_pages_of_a_cache() -> None:
    """A page table of one page: its channels serve every read; of all pages, all do."""
    b = ts.GraphBuilder("paged", dtype="bf16")
    pool, pages = b.input("pool", [512, 2, 64]), b.input("pages", [4, 128], "i32")
    b.output(_paged(b, pool, pages), "y")
    graph = b.build()
    program = ts.compile(graph, wide())
    one = ts.simulate(program, tensors={"pages": np.zeros((4, 128), np.int32)})
    drawn = ts.simulate(program, tensors={"pages": "balanced"}, seed=7)
    assert one.cycles > 4 * drawn.cycles
    assert any("balanced, seed 7" in how for how in drawn.data_sources.values())


def _paged(b: ts.GraphBuilder, pool: Any, pages: Any) -> Any:
    attributes: dict[str, Any] = {"start_index_map": [0], "slice_sizes": [1, 2, 64], "collapsed_slice_dims": [0]}
    attributes |= {"offset_dims": [2, 3], "index_vector_dim": 2, "mode": "clip"}
    return b.op("gather", pool, pages, name="cache", **attributes)
