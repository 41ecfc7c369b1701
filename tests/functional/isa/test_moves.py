"""DMA: transfers by descriptor leave what numpy leaves; queues, tickets and their times by hand; what traps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts
import tilesim.isa as isa
from support.transfers import descriptor

FILL, WIDE = 1, 2
MOVE = """
f:  # descriptor, outside, inside, rows, offset: bases of the descriptor are relative to the arrays
 ld t0, 0(a0)
 add t0, t0, a1
 sd t0, 0(a0)
 ld t0, 8(a0)
 add t0, t0, a2
 sd t0, 8(a0)
 ld t0, 40(a0)
 beqz t0, g
 sd a3, 40(a0)
g: ts.move a0, a0, a4, {queue}
 ts.move.wait a0, {queue}
 ret
"""


def moved(given: Any, outside: Any, inside: Any, rows: Any = None, offset: int = 0, **more: Any) -> isa.IsaResult:
    queue = more.pop("queue", 0)
    rows = np.zeros(1, np.int32) if rows is None else rows
    code = isa.assemble(MOVE.format(queue=queue))
    return isa.call(code, "f", given, outside, inside, rows, offset, **{"machine": "edge-8", **more})


def random_transfer(rng: np.random.Generator) -> tuple[Any, ...]:
    """A tensor, a place for its part, the descriptor's numbers, and which elements go where by numpy's indexing."""
    kind = np.dtype(rng.choice(["u1", "u2", "u4", "u8"]))
    size, count = kind.itemsize, int(rng.integers(0, 7))
    shape = [int(n) for n in rng.integers(1, 6, count)]
    extents = [
        int(rng.integers(0, 2)) * int(rng.integers(0, 2)) if rng.random() < 0.03 else int(rng.integers(1, 6))
        for _ in shape
    ]
    firsts = [int(rng.integers(-3, n + 2)) for n in shape]
    order, place = rng.permutation(count), rng.permutation(count)
    steps, step = [0] * count, size
    for axis in order:  # the tensor's layout: any order of axes, gaps between some
        steps[axis], step = step, step * (shape[axis] + int(rng.integers(0, 2)))
    outside_bytes, inner, step = step, [0] * count, size
    for axis in place:
        inner[axis], step = step, step * (max(extents[axis], 1) + int(rng.integers(0, 2)))
    return kind, shape, extents, firsts, steps, inner, outside_bytes, step


@pytest.mark.parametrize("seed", range(4))
def test_random_transfers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    machine = ts.Machine.load("edge-8").to_dict()["core"]["dma"]
    for _ in range(60):
        kind, shape, extents, firsts, steps, inner, far_bytes, near_bytes = random_transfer(rng)
        size, count, store = kind.itemsize, len(shape), bool(rng.integers(0, 2))
        far, near = (rng.integers(0, 256, n, dtype=np.uint8) for n in (far_bytes, near_bytes))
        by_rows = int(rng.integers(0, count)) if count and rng.random() < 0.4 else -1
        rows = np.zeros(1, np.int32)
        indices = [first + np.arange(extent) for first, extent in zip(firsts, extents, strict=True)]
        flags = FILL
        if by_rows >= 0:
            wide = bool(rng.integers(0, 2))
            flags |= WIDE * wide
            pool = np.arange(-2, max(shape[by_rows], extents[by_rows]) + 2)
            rows = rng.choice(pool, extents[by_rows], replace=not store).astype(np.int64 if wide else np.int32)
            indices[by_rows] = firsts[by_rows] + rows.astype(np.int64)
            rows = rows if rows.size else np.zeros(1, rows.dtype)
        fill = int(rng.integers(0, 2**63)) % 2 ** (8 * size)
        offset = int(rng.integers(0, 3)) * size if far_bytes > 2 * size else 0
        dims = [(*row,) for row in zip(extents, steps, inner, firsts, shape, strict=True)]
        given = descriptor(size, dims, -offset, fill=fill, flags=flags, row_dim=max(by_rows, 0), rows=int(by_rows >= 0))
        # numpy: addresses of all elements by broadcasting, those in the tensor by their indices
        far_at, near_at, inside = np.zeros((1,) * count, int), np.zeros((1,) * count, int), np.ones((1,) * count, bool)
        for axis in range(count):
            along = [1] * count
            along[axis] = extents[axis]
            far_at = far_at + (indices[axis] * steps[axis]).reshape(along)
            near_at = near_at + (np.arange(extents[axis]) * inner[axis]).reshape(along)
            inside = inside & ((indices[axis] >= 0) & (indices[axis] < shape[axis])).reshape(along)
        far_want, near_want = far.copy(), near.copy()
        for f, n, ok in zip(far_at.reshape(-1), near_at.reshape(-1), inside.reshape(-1), strict=True):
            if store and ok:
                far_want[f : f + size] = near[n : n + size]
            elif not store:
                value = far[f : f + size] if ok else np.frombuffer(fill.to_bytes(8, "little")[:size], np.uint8)
                near_want[n : n + size] = value
        queue = machine["load_queues"] if store else 0
        result = moved(given, far, near, rows, offset, queue=queue, timed=bool(rng.integers(0, 2)))
        assert result.trap is None, (result, dims)
        np.testing.assert_array_equal(far, far_want)
        np.testing.assert_array_equal(near, near_want)


ROW = [(64, 4, 4, 0, 64)]


@pytest.mark.parametrize(
    ("given", "queue", "said"),
    [
        (descriptor(4, ROW), 100, "fewer DMA queues"),
        (descriptor(3, ROW), 0, "1, 2, 4 or 8 bytes"),
        (descriptor(4, ROW, count=7), 0, "at most six dims"),
        (descriptor(4, ROW, flags=4), 0, "no such flag"),
        (descriptor(4, ROW, rows=1, row_dim=1), 0, "row table is unknown"),
        (descriptor(1, [(1 << 20, 0, 0, 0, 1 << 40)] * 2), 0, "4,294,967,296 elements"),
    ],
)
def test_bad_descriptors(given: Any, queue: int, said: str) -> None:
    trap = moved(given, np.zeros(64, np.float32), np.zeros(64, np.float32), queue=queue).trap
    assert trap is not None and trap["cause"] == "illegal instruction" and said in trap["detail"], trap
    assert trap["instruction"].startswith("ts.move")


def test_bad_addresses_change_nothing() -> None:
    far, near = np.ones(64, np.float32), np.zeros(64, np.float32)
    # the scratchpad of 256 KiB ends within the row
    end = 0x8_0000_0000 + (256 << 10)
    text = MOVE.replace("add t0, t0, a2", f"li t0, {end - 8}").format(queue=0)
    result = isa.call(isa.assemble(text), "f", descriptor(4, ROW), far, near, near, 0, machine="edge-8")
    assert result.trap is not None
    assert (result.trap["cause"], result.trap["address"]) == ("store to a bad address", end)
    # an index below the first, without a fill: its address is named
    trap = moved(descriptor(4, [(4, 4, 4, -1, 64)]), far, near).trap
    assert trap is not None and trap["cause"] == "load from a bad address" and "no fill" in trap["detail"]
    assert trap["address"] % 4096 == 4096 - 4


def test_without_a_machine_there_is_no_dma() -> None:
    given = descriptor(4, ROW)
    x = np.zeros(64, np.float32)
    trap = moved(given, x, x, machine=None).trap
    assert trap is not None and trap["cause"] == "illegal instruction" and "no DMA" in trap["detail"]


def test_a_ticket_that_no_move_gave() -> None:
    for word in ("ts.move.wait a0, 1", "ts.move.done a0, a0"):
        trap = isa.call(isa.assemble(f"f: {word}\nret"), "f", 1, machine="edge-8").trap
        assert trap is not None and "no transfer has this ticket" in trap["detail"]


def test_memories_of_a_machine() -> None:
    """Scratchpad, accumulator memory and memory off chip, from their first byte to their last; no more."""
    core = ts.Machine.load("gemmini-16").to_dict()
    text = "f: ld t0, 0(a0)\naddi t0, t0, 1\nsd t0, 0(a0)\nld a0, 0(a0)\nret"
    code = isa.assemble(text)
    assert core["core"]["scratchpad"]["accumulator_bytes"] == "64 KiB"
    for base, size in ((0x8_0000_0000, 256 << 10), (0xC_0000_0000, 64 << 10)):
        for at in (base, base + size - 8):
            assert isa.call(code, "f", at, machine="gemmini-16", returns="i64").value == 1
        for at in (base - 8, base + size):
            trap = isa.call(code, "f", at, machine="gemmini-16").trap
            assert trap is not None and trap["address"] == at
    assert isa.call(code, "f", 0x100_1234_5678, machine="gemmini-16", returns="i64").value == 1
    where = isa.call(isa.assemble("f: ret"), "f", np.zeros(4), machine="gemmini-16", returns="u64")
    assert where.value == 0x100_0000_0000  # arguments lie off chip
    assert isa.call(code, "f", 0x8_0000_0000).trap is not None  # a core without a machine has none
