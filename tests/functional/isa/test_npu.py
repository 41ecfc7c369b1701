"""Instructions of an NPU core: arrays, what software may ask, what traps; encodings of all. Against numpy, and clang's
assembler for the encodings."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilesim.isa as isa
from support import riscv_tools

#: element types by their numbers in `mx.weights` and `mx.push`
F32, F16, BF16, I8, U8 = 1, 2, 3, 13, 18
NUMPY = {F32: np.float32, F16: np.float16, BF16: ml_dtypes.bfloat16, I8: np.int8, U8: np.uint8}
BITS = {number: np.dtype(kind).itemsize * 8 for number, kind in NUMPY.items()}

PRODUCT = """
f: # weights, rows, sums, elements of weights, of rows, of sums
 vsetvli t0, a3, e{bits}, {lmul}, ta, ma
 vle{bits}.v v8, (a0)
 mx.weights v8, {array}, {dtype}
 vsetvli t0, a4, e{bits}, {lmul}, ta, ma
 vle{bits}.v v16, (a1)
 mx.push v16, {array}, {dtype}
 vsetvli t0, a5, e32, m8, ta, ma
 mx.pop v24, {array}
 vse32.v v24, (a2)
 ret
"""


def product(machine: str, dtype: int, weights: Any, rows: Any, array: int = 0, lmul: str = "m8") -> Any:
    """Through one array, all weights and rows at once."""
    kind = np.int32 if dtype in (I8, U8) else np.float32
    columns = weights.shape[1]
    taken = -(-rows.size // weights.shape[0])
    sums = np.zeros((taken, columns), kind)
    text = PRODUCT.format(bits=BITS[dtype], dtype=dtype, array=array, lmul=lmul)
    result = isa.call(
        isa.assemble(text), "f", raw(weights), raw(rows), sums, weights.size, rows.size, sums.size, machine=machine
    )
    assert result.trap is None, result.trap
    return sums


def raw(values: Any) -> Any:
    """The same bytes as a type that is numpy's own."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return flat.view(f"u{flat.dtype.itemsize}")


@pytest.mark.parametrize("dtype", [F32, BF16, I8])
def test_products_of_small_integers_are_exact(dtype: int) -> None:
    rng = np.random.default_rng(dtype)
    weights, rows = (rng.integers(-8, 9, shape) for shape in ((8, 8), (11, 8)))
    sums = product("edge-8", dtype, weights.astype(NUMPY[dtype]), rows.astype(NUMPY[dtype]))
    np.testing.assert_array_equal(sums, rows @ weights)


def test_ends_of_integers() -> None:
    weights, rows = np.full((8, 8), -128, np.int8), np.full((3, 8), -128, np.int8)
    assert (product("edge-8", I8, weights, rows) == 8 * 128 * 128).all()
    unsigned = np.full((8, 8), 255, np.uint8), np.full((3, 8), 255, np.uint8)
    assert (product("edge-8", U8, *unsigned) == 8 * 255 * 255).all()


def test_products_of_bfloat16_within_their_bound() -> None:
    rng = np.random.default_rng(0)
    weights, rows = (rng.normal(size=s).astype(ml_dtypes.bfloat16) for s in ((8, 8), (9, 8)))
    w, r = weights.astype(np.float64), rows.astype(np.float64)
    bound = 8 * 2.0**-24 / (1 - 8 * 2.0**-24) * (np.abs(r) @ np.abs(w))
    assert (np.abs(product("edge-8", BF16, weights, rows) - r @ w) <= bound).all()


def test_operands_are_rounded_where_the_machine_multiplies_in_bfloat16() -> None:
    """tpu-v3 takes single floats as their bfloat16; edge-8 as they are."""
    text = """
f: # weights of 128 x 128, a row, sums
 li t1, 128
w: vsetvli t0, t1, e32, m1, ta, ma
 vle32.v v8, (a0)
 mx.weights v8, 1, 1
 addi a0, a0, 512
 addi a3, a3, -1
 bnez a3, w
 vle32.v v8, (a1)
 mx.push v8, 1, 1
 mx.pop v9, 1
 vse32.v v9, (a2)
 ret
"""
    weights, row, sums = np.zeros((128, 128), np.float32), np.zeros(128, np.float32), np.zeros(128, np.float32)
    weights[3] = np.random.default_rng(1).normal(size=128)
    row[3] = 1 + 2.0**-20  # no bfloat16
    assert isa.call(isa.assemble(text), "f", weights, row, sums, 128, machine="tpu-v3").trap is None
    np.testing.assert_array_equal(sums, weights[3].astype(ml_dtypes.bfloat16).astype(np.float32))
    small = np.zeros((8, 8), np.float32)
    small[0] = weights[3, :8]
    exact = product("edge-8", F32, small, np.array([[1, 0, 0, 0, 0, 0, 0, 0]], np.float32))
    np.testing.assert_array_equal(exact[0], weights[3, :8])


def test_a_short_last_row_counts_zeros() -> None:
    rng = np.random.default_rng(2)
    weights, rows = (rng.integers(-8, 9, shape).astype(np.int8) for shape in ((8, 8), (20,)))
    whole = np.concatenate([rows, np.zeros(4, np.int8)]).reshape(3, 8)
    sums = product("edge-8", I8, weights, rows)
    np.testing.assert_array_equal(sums, whole.astype(int) @ weights.astype(int))


def test_results_come_in_order_of_pushes_whatever_their_types() -> None:
    """Bytes, floats and bytes again pass one array before anything is taken."""
    text = """
f: li t1, 64 # weights as bytes and as floats, rows of both, sums
 vsetvli t0, t1, e8, m1, ta, ma
 vle8.v v8, (a0)
 mx.weights v8, 0, 13
 vsetvli t0, t1, e32, m2, ta, ma
 vle32.v v10, (a1)
 mx.weights v10, 0, 1
 vsetivli t0, 16, e8, m1, ta, ma
 vle8.v v12, (a2)
 mx.push v12, 0, 13
 vsetivli t0, 8, e32, m1, ta, ma
 vle32.v v13, (a3)
 mx.push v13, 0, 1
 vsetivli t0, 16, e8, m1, ta, ma
 mx.push v12, 0, 13
 vsetivli t0, 12, e32, m1, ta, ma
 mx.pop v14, 0
 vse32.v v14, (a4)
 addi a4, a4, 48
 vsetivli t0, 28, e32, m1, ta, ma
 mx.pop v14, 0
 vse32.v v14, (a4)
 ret
"""
    rng = np.random.default_rng(4)
    weights, rows = rng.integers(-9, 10, (8, 8)).astype(np.int8), rng.integers(-9, 10, (2, 8)).astype(np.int8)
    row, sums = rng.integers(-9, 10, (1, 8)).astype(np.float32) / 4, np.zeros((5, 8), np.int32)
    called = isa.call(isa.assemble(text), "f", weights, weights.astype(np.float32), rows, row, sums, machine="edge-8")
    assert called.trap is None, called.trap
    whole = rows.astype(np.int32) @ weights.astype(np.int32)
    np.testing.assert_array_equal(sums[[0, 1, 3, 4]], np.concatenate([whole, whole]))
    np.testing.assert_array_equal(sums[2].view(np.float32), (row @ weights.astype(np.float32))[0])


def test_weights_change_at_the_first_push_after_a_whole_set() -> None:
    """A set that is being filled is not in use; results of old and new weights come out in order."""
    text = """
f: li t1, 64
 vsetvli t0, t1, e8, m1, ta, ma
 vle8.v v8, (a0)
 vle8.v v9, (a1)
 mx.weights v8, 0, 13
 vsetivli t0, 8, e8, m1, ta, ma
 vle8.v v10, (a2)
 mx.push v10, 0, 13
 vsetivli t0, 24, e8, m1, ta, ma
 mx.weights v9, 0, 13
 vsetivli t0, 8, e8, m1, ta, ma
 mx.push v10, 0, 13
 li t1, 40
 addi a1, a1, 24
 vsetvli t0, t1, e8, m1, ta, ma
 vle8.v v9, (a1)
 mx.weights v9, 0, 13
 vsetivli t0, 8, e8, m1, ta, ma
 mx.push v10, 0, 13
 vsetivli t0, 24, e32, m1, ta, ma
 mx.pop v11, 0
 vse32.v v11, (a3)
 ret
"""
    rng = np.random.default_rng(3)
    one, two = (rng.integers(-9, 10, (8, 8)).astype(np.int8) for _ in range(2))
    row, sums = rng.integers(-9, 10, 8).astype(np.int8), np.zeros((3, 8), np.int32)
    assert isa.call(isa.assemble(text), "f", one, two, row, sums, machine="edge-8").trap is None
    want = [row.astype(int) @ w.astype(int) for w in (one, one, two)]
    np.testing.assert_array_equal(sums, want)


@pytest.mark.parametrize(("dtype", "kind"), [(F32, np.float32), (I8, np.int32)])
def test_results_to_memory(dtype: int, kind: Any) -> None:
    """`mx.put` writes, `mx.add` adds, one row behind the other; 0 ends it and rows wait to be taken again."""
    bits = BITS[dtype]
    text = f"""
f: # weights, rows, sums, popped
 li t1, 64
 vsetvli t0, t1, e{bits}, m4, ta, ma
 vle{bits}.v v8, (a0)
 mx.weights v8, 0, {dtype}
 li t1, 24
 vsetvli t0, t1, e{bits}, m4, ta, ma
 vle{bits}.v v16, (a1)
 mx.put 0, a2
 mx.push v16, 0, {dtype}
 mx.add 0, a2
 mx.push v16, 0, {dtype}
 mx.push v16, 0, {dtype}
 mx.add 0, zero
 mx.push v16, 0, {dtype}
 vsetvli t0, t1, e32, m4, ta, ma
 mx.pop v24, 0
 vse32.v v24, (a3)
 ret
"""
    rng = np.random.default_rng(4)
    weights, rows = (rng.integers(-8, 9, shape) for shape in ((8, 8), (3, 8)))
    sums, popped = np.full((9, 8), 77, kind), np.zeros((3, 8), kind)
    given = weights.astype(NUMPY[dtype]), rows.astype(NUMPY[dtype])
    result = isa.call(isa.assemble(text), "f", *given, sums, popped, machine="edge-8")
    assert result.trap is None, result.trap
    want = rows @ weights
    np.testing.assert_array_equal(sums[:3], 2 * want)
    np.testing.assert_array_equal(sums[3:6], 77 + want)  # what was there, once added to
    np.testing.assert_array_equal(sums[6:], 77)
    np.testing.assert_array_equal(popped, want)


def test_what_software_may_ask() -> None:
    want = {
        "scratchpad": 0x8_0000_0000, "scratchpad_bytes": 16 * 2**20, "lanes": 128, "arrays": 2, "rows": 128,
        "columns": 128, "core": 0, "sequencer": 0,
    }  # fmt: skip
    for number, (name, value) in enumerate(want.items()):
        by_name = isa.assemble(f"f: csrr a0, ts.{name}\nret")
        assert isa.call(by_name, "f", machine="tpu-v3", returns="u64").value == value
        by_number = isa.assemble(f"f: csrr a0, {0xCC0 + number:#x}\nret")
        assert isa.call(by_number, "f", machine="tpu-v3", returns="u64").value == value


E8 = "vsetivli t0, 8, e8, m1, ta, ma\n"
WEIGHTS = "li t1, 64\nvsetvli t0, t1, e8, m1, ta, ma\nmx.weights v8, 0, 13\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (E8 + "mx.weights v8, 1, 13", "fewer arrays"),
        (E8 + "mx.push v8, 7, 13", "fewer arrays"),
        (E8 + "mx.weights v8, 0, 3", "another width than SEW"),
        (E8 + "mx.push v8, 0, 31", "no element type"),
        (E8 + "mx.push v8, 0, 13", "no weights"),
        (WEIGHTS + "mx.weights v8, 0, 13", "shadow set is full"),
        ("li t1, 72\nvsetvli t0, t1, e8, m1, ta, ma\nmx.weights v8, 0, 13", "more weights"),
        ("vsetivli t0, 8, e32, m1, ta, ma\nmx.pop v8, 0", "fewer results"),
        (WEIGHTS + E8 + "mx.push v8, 0, 13\nvsetivli t0, 16, e32, m1, ta, ma\nmx.pop v8, 0", "fewer results"),
        (WEIGHTS + E8 + "mx.push v8, 0, 13\nmx.put 0, sp", "wait to be taken"),
        (WEIGHTS + "li t2, 1000\np: mx.push v8, 0, 13\naddi t2, t2, -1\nbnez t2, p", "result queue is full"),
        ("vsetivli t0, 8, e32, m1, ta, ma\nfn v8, v9, 24", "no function"),
        ("vsetivli t0, 8, e16, m1, ta, ma\nfn v8, v9, 0", ""),
        (E8 + "xl.spread v8, v9", ""),
        (E8 + "xl.flip v8, v9, t0", ""),
        ("vsetivli t0, 8, e32, m1, ta, ma\n.word 0xa082c45b", "overlaps"),
        ("vsetivli t0, 8, e32, m1, ta, ma\nxf.widen v8, v9, 2", "no float of 8 bits"),
        ("vsetivli t0, 8, e32, m1, ta, ma\nxf.narrow v8, v9, 13", "no float of 8 bits"),
        ("vsetivli t0, 8, e32, m1, ta, ma\nxf.narrow v8, v9, 31", "no float of 8 bits"),
        ("vsetivli t0, 8, e32, m1, ta, ma\nxf.narrow v8, v9, 9", "no float of 8 bits"),
        (E8 + "mx.pop v8, 0", ""),
        ("vsetivli t0, 8, e32, m2, ta, ma\nfn v8, v9, 0", ""),
    ],
)
def test_traps(text: str, told: str) -> None:
    result = isa.run(isa.assemble("_start: " + text + "\nli a0, 0\nli a7, 93\necall"), machine="edge-8")
    assert result.trap is not None and "illegal" in result.trap["cause"]
    assert told in result.trap["detail"]


@pytest.mark.parametrize(
    ("line", "told"),
    [("mx.weights v8, 0, 1", "no arrays"), ("mx.pop v8, 0", "no arrays"), ("xl.spread v8, v9", "no rows of lanes")],
)
def test_other_cores_have_none_of_it(line: str, told: str) -> None:
    text = f"_start: vsetivli t0, 8, e32, m1, ta, ma\n{line}\nli a0, 0\nli a7, 93\necall"
    trap = isa.run(isa.assemble(text)).trap
    assert trap is not None and told in trap["detail"]
    asked = isa.run(isa.assemble("_start: csrr a0, ts.lanes\nli a7, 93\necall")).trap
    assert asked is not None and "illegal" in asked["cause"]


def test_encodings_are_clangs(tmp_path: Path) -> None:
    """Vector coprocessor instructions of SiFive's VCIX, whose fields hold array, type and number."""
    ours, theirs = [], []
    for vs2, array, dtype in ((0, 0, 1), (31, 7, 13), (9, 3, 18), (16, 1, 31)):
        signed = dtype - 32 * (dtype > 15)
        ours += [f"mx.weights v{vs2}, {array}, {dtype}", f"mx.push v{vs2}, {array}, {dtype}", f"mx.pop v{vs2}, {array}"]
        # op, bits 11 to 7, vs2, immediate; sf.vc.v.i: op, bits 24 to 20, vd, immediate
        theirs += [f"sf.vc.iv 1, {array}, v{vs2}, {signed}", f"sf.vc.iv 0, {array}, v{vs2}, {signed}"]
        theirs += [f"sf.vc.v.i 0, {array}, v{vs2}, 0"]
    for number in (0, 15, 16, 23, 31):
        ours.append(f"fn v3, v30, {number}")
        theirs.append(f"sf.vc.v.iv 3, v3, v30, {number - 32 * (number > 15)}")
    for number in range(16):
        ours.append(f"xl.reduce v7, v12, {number}")
        theirs.append(f"sf.vc.v.iv 2, v7, v12, {number}")
    ours += ["xl.spread v7, v12", "mx.add 5, a3", "mx.put 2, t6", "mx.add 0, zero"]
    theirs += ["sf.vc.v.iv 2, v7, v12, -16", "sf.vc.x 1, 0, 5, a3", "sf.vc.x 2, 0, 2, t6", "sf.vc.x 1, 0, 0, zero"]
    for name, form, op in (("up", "xvv", 0), ("down", "xvv", 1), ("pick", "xv", 0), ("flip", "xv", 1)):
        ours += [f"xl.{name} v7, v12, {reg}" for reg in ("t6", "zero")]
        theirs += [f"sf.vc.v.{form} {op}, v7, v12, {reg}" for reg in ("t6", "zero")]
    for number in (4, 5, 31):
        ours += [f"xf.widen v4, v12, {number}", f"xf.narrow v7, v8, {number}"]
        theirs += [
            f"sf.vc.v.iv {op}, {to}, {number - 32 * (number > 15)}" for op, to in ((0, "v4, v12"), (1, "v7, v8"))
        ]
    text = ".option arch, +xsfvcp"
    want = riscv_tools.clang_bits(tmp_path, [text, *theirs])
    for i, (line, other) in enumerate(zip(ours, theirs, strict=True)):
        (bits,) = struct.unpack_from("<I", want, 4 * i)
        assert isa.disassemble(bits) == line, other
        assert struct.unpack_from("<I", isa.assemble(line), 0x1000)[0] == bits, line
