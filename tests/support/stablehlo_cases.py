"""Modules of StableHLO by operation and element type, and what its reference interpreter (in jaxlib) gives for them.

The interpreter ends the process on what it does not know, so that it runs in one of its own, all modules in one go.
Modules take and give f32, f64 and integers of a byte or more: others pass through `convert`, `complex`, `real`, `imag`.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

Case = tuple[str, list[Any]]

INTERPRET = """
import sys
import numpy as np
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from tilesim.frontends.stablehlo.passes import know_quantized
given, found = np.load(sys.argv[1]), {}
for name in given["names"]:
    context = mlir.make_ir_context()
    stablehlo.register_interpreter_dialect(context)
    text = str(given[name + "|text"])
    if "!quant" in text:
        know_quantized(context)
    print(name, flush=True)
    with context, ir.Location.unknown():
        arrays = [given[f"{name}|{i}"] for i in range(int(given[name + "|count"]))]
        attributes = [ir.DenseElementsAttr.get(a, signless=a.dtype.kind != "u") for a in arrays]
        for i, result in enumerate(stablehlo.eval_module(ir.Module.parse(text), attributes)):
            shape = tuple(result.type.shape)
            array = np.array(result)
            found[f"{name}|{i}"] = np.broadcast_to(array, shape)
np.savez(sys.argv[2], **found)
"""


def interpreted(cases: dict[str, Case], folder: Path) -> dict[str, list[Any]]:
    """Results of the reference interpreter by name of the case; files of both in a folder."""
    given: dict[str, Any] = {"names": np.array(list(cases))}
    for name, (text, arrays) in cases.items():
        given[name + "|text"], given[name + "|count"] = np.array(text), np.array(len(arrays))
        given |= {f"{name}|{i}": array for i, array in enumerate(arrays)}
    paths = [folder / "given.npz", folder / "found.npz"]
    np.savez(paths[0], **given)
    command = [sys.executable, "-c", INTERPRET, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-100:]}{done.stderr[-1000:]}"
    with np.load(paths[1]) as found:
        return {name: [found[f"{name}|{i}"] for i in range(2) if f"{name}|{i}" in found] for name in cases}


def tensor(shape: Any, element: str) -> str:
    """A type."""
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


def function(inputs: list[str], body: str, outputs: list[str], values: str) -> str:
    """A module of one function with inputs %a, %b, .."""
    names = ", ".join(f"%{letter}: {given}" for letter, given in zip("abcdefgh", inputs, strict=False))
    types = ", ".join(outputs)
    return f"func.func @main({names}) -> ({types}) {{\n{body}\n return {values} : {types} }}"


# --- narrow element types: through f32 or i32 ---

FLOATS = ("f8E4M3", "f8E3M4", "f8E4M3B11FNUZ", "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ", "f6E2M3FN", "f6E3M2FN",
          "f4E2M1FN", "bf16", "f16")  # fmt: skip
INTEGERS = ("i2", "ui2", "i4", "ui4", "i8", "ui8")
NUMBERS = np.array(
    [0, -0.0, 1, -1, 0.3, 2.5, 7, 6, -28, 15, 16, 240, 448, 1e-3, -1e-2, 0.0625, 1000, -3000, 3, 0.75], np.float32
)
WHOLE = np.array([0, 1, 2, 3, -1, -2, -3, 5, 100, -100], np.int32)


def narrow(element: str, wide: str, name: str, arrays: list[Any], result: str = "") -> Case:
    """An operation on a narrow type."""
    outer, inner = tensor(arrays[0].shape, wide), tensor(arrays[0].shape, element)
    letters = "abc"[: len(arrays)]
    body = "\n".join(f" %{x}0 = stablehlo.convert %{x} : ({outer}) -> {inner}" for x in letters)
    operands = ", ".join(f"%{x}0" for x in letters)
    given = result or inner
    body += f'\n %r = "stablehlo.{name}"({operands}) : ({", ".join([inner] * len(arrays))}) -> {given}'
    body += f"\n %y = stablehlo.convert %r : ({given}) -> {outer}"
    return function([outer] * len(arrays), body, [outer], "%y"), arrays


def of_narrow_types() -> Iterator[tuple[str, Case]]:
    for element in FLOATS:
        for name in ("add", "multiply", "maximum", "divide"):
            safe = NUMBERS[::-1] if name != "divide" else np.where(np.abs(NUMBERS[::-1]) < 0.5, 2, NUMBERS[::-1])
            yield f"{name} {element}", narrow(element, "f32", name, [NUMBERS, safe.astype(np.float32)])
        for name in ("abs", "negate", "sign", "floor", "tanh", "sqrt"):
            if name == "floor" and element in ("f8E3M4", "f6E2M3FN"):
                continue  # wrong in the interpreter of jaxlib 0.10
            array = np.abs(NUMBERS) if name == "sqrt" else NUMBERS
            yield f"{name} {element}", narrow(element, "f32", name, [array])
        finite = tensor(NUMBERS.shape, "i1")
        yield f"is_finite {element}", narrow(element, "f32", "is_finite", [NUMBERS * 1e3], finite)
        values, inner = tensor((5,), "f32"), tensor((5,), element)
        body = f" %r = stablehlo.iota dim = 0 : {inner}\n %y = stablehlo.convert %r : ({inner}) -> {values}"
        yield f"iota {element}", (function([], body, [values], "%y"), [])
        body = f" %r = stablehlo.constant dense<[0.0, 1.0, -1.5, 2.0, 0.5]> : {inner}\n"
        body += f" %y = stablehlo.convert %r : ({inner}) -> {values}"
        yield f"constant {element}", (function([], body, [values], "%y"), [])
    for element in INTEGERS:
        for name in ("add", "multiply", "maximum", "minimum", "subtract", "and", "or", "xor"):
            yield f"{name} {element}", narrow(element, "i32", name, [WHOLE, WHOLE[::-1].copy()])
        for name in ("shift_left", "shift_right_logical", "shift_right_arithmetic", "power"):
            yield f"{name} {element}", narrow(element, "i32", name, [WHOLE, np.abs(WHOLE[::-1]) % 2])
        for name in ("divide", "remainder"):
            yield f"{name} {element}", narrow(element, "i32", name, [np.abs(WHOLE), np.ones_like(WHOLE)])
        signed = () if element[0] == "u" else ("abs", "sign", "negate")
        for name in (*signed, "not", "popcnt", "count_leading_zeros"):
            yield f"{name} {element}", narrow(element, "i32", name, [WHOLE])


# --- complex numbers: from parts, to parts ---

POINTS = [(1, 2), (3, -4), (0, 0), (-1, 0), (0, 1), (0, -2), (1e-3, 1e-4), (-0.5, 0.25), (5, 7), (-3, -3), (20, 1),
          (0.999, 0.01), (-0.999, 1e-3), (2.5, 0), (-2, 0.5)]  # fmt: skip
UNARY = ("abs", "cbrt", "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "negate",
         "rsqrt", "sign", "sine", "sqrt", "tan", "tanh")  # fmt: skip
BINARY = ("add", "atan2", "subtract", "multiply", "divide", "maximum", "minimum", "power")


def of_parts(part: str, name: str, pairs: list[tuple[Any, Any]], real: bool = False, more: str = "") -> Case:
    """An operation on complex numbers, each operand two arrays."""
    dtype = np.float32 if part == "f32" else np.float64
    arrays = [np.array(array, dtype, order="C") for pair in pairs for array in pair]
    types = [tensor(array.shape, part) for array in arrays]
    numbers = [tensor(array.shape, f"complex<{part}>") for array in arrays[::2]]
    letters = list(zip("aceg", "bdfh", strict=True))[: len(pairs)]
    body = "\n".join(
        f" %{x}0 = stablehlo.complex %{x}, %{y} : {kind}" for (x, y), kind in zip(letters, numbers, strict=True)
    )
    operands = ", ".join(f"%{x}0" for x, _ in letters)
    result = types[0] if real else numbers[-1]
    body += f'\n %r = "stablehlo.{name}"({operands}) {more} : ({", ".join(numbers)}) -> {result}'
    if real:
        return function(types, body, [types[0]], "%r"), arrays
    for letter, half in (("x", "real"), ("y", "imag")):
        body += f"\n %{letter}r = stablehlo.{half} %r : ({result}) -> {types[-1]}"
    return function(types, body, [types[-1]] * 2, "%xr, %yr"), arrays


def of_complex_numbers() -> Iterator[tuple[str, Case]]:
    re, im = np.array(POINTS, np.float64).T
    for part in ("f32", "f64"):
        for name in UNARY:
            yield f"{name} {part}", of_parts(part, name, [(re, im)], real=name == "abs")
        places = np.array(list(itertools.product(range(len(re)), repeat=2)))
        for name in BINARY:
            i, j = places[(np.abs(re[places]) + np.abs(im[places]) < 9).all(1) & (re[places[:, 1]] != 0)].T
            if name == "power":  # whose values stay in range
                keep = (np.abs(re[i]) + np.abs(im[i]) > 1e-2) & (np.abs(re[j]) + np.abs(im[j]) < 2.6)
                i, j = i[keep], j[keep]
            if name == "atan2":  # away from the cut
                i, j = i[im[i] * im[j] != 0], j[im[i] * im[j] != 0]
            yield f"{name} {part}", of_parts(part, name, [(re[i], im[i]), (re[j], im[j])])
        random = np.random.default_rng(0)
        a, b = (random.standard_normal((2, 4, n)) for n in (4, 2))
        a[0] += 3 * np.eye(4)
        for lower, left, unit in itertools.product(("true", "false"), repeat=3):
            for transpose in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
                more = f"{{left_side = {left}, lower = {lower}, unit_diagonal = {unit}, "
                more += f"transpose_a = #stablehlo<transpose {transpose}>}}"
                side = b if left == "true" else b.transpose(0, 2, 1)
                case = of_parts(part, "triangular_solve", [tuple(a), tuple(side)], more=more)
                yield f"triangular_solve {part} {lower} {left} {unit} {transpose}", case


# --- bits, precision, quantized types ---


def of_bits() -> Iterator[tuple[str, Case]]:
    random = np.random.default_rng(1)
    bools = random.integers(0, 2, 64).astype(np.int8)
    for element, shape, result, wanted in (
        ("i1", (64,), "i64", ()), ("i1", (8, 8), "i8", (8,)), ("i2", (3, 4), "i8", (3,)), ("i4", (3, 4), "i16", (3,)),
        ("i16", (2, 4), "i64", (2,)), ("i8", (2, 8), "f64", (2,)), ("ui8", (3, 2), "f16", (3,)),
    ):  # fmt: skip
        size = int(np.prod(shape))
        array = (bools[:size] if element == "i1" else np.arange(size)).reshape(shape).astype(np.int32)
        outer, inner, after = tensor(shape, "i32"), tensor(shape, element), tensor(wanted, result)
        body = f" %0 = stablehlo.convert %a : ({outer}) -> {inner}\n"
        body += f" %r = stablehlo.bitcast_convert %0 : ({inner}) -> {after}"
        text = function([outer], body, [after], "%r")
        if result == "f16":
            final = tensor(wanted, "f32")
            text = function([outer], body + f"\n %y = stablehlo.convert %r : ({after}) -> {final}", [final], "%y")
        yield f"bitcast_convert {element} {result}", (text, [array])
        body = f" %0 = stablehlo.bitcast_convert %a : ({after}) -> {inner}\n"
        body += f" %r = stablehlo.convert %0 : ({inner}) -> {outer}"
        if result != "f16":
            dtype = {"i": np.dtype(f"int{result[1:]}"), "f": np.dtype(np.float64)}[result[0]]
            back = random.integers(1, 100, wanted).astype(dtype)
            yield f"bitcast_convert {result} {element}", (function([after], body, [outer], "%r"), [back])
    values = random.standard_normal(200) * np.exp2(random.uniform(-40, 40, 200))
    values = np.concatenate([values, [0, -0.0, np.inf, -np.inf, np.nan, 65504, 65520, 5.9e-8, 6e-5, -6e-5]])
    for element, (exponent, mantissa) in itertools.product(
        ("f32", "f64"), [(4, 3), (5, 2), (8, 3), (3, 10), (5, 10), (8, 7), (2, 1), (6, 9), (11, 52), (10, 12), (1, 3)]
    ):
        kind = tensor(values.shape, element)
        body = f" %r = stablehlo.reduce_precision %a, format = e{exponent}m{mantissa} : {kind}"
        array = values.astype(np.float32 if element == "f32" else np.float64)
        yield f"reduce_precision {element} {exponent} {mantissa}", (function([kind], body, [kind], "%r"), [array])


QUANTIZED = ("i8:f32, 0.1:-30", "ui8:f32, 34.0:16", "i4:f32, 0.5:1", "i8<-127:127>:f32, 0.1", "i32:f32, 0.01",
             "i8:f32:1, {0.1:-30,0.5:-20,0.25:3}")  # fmt: skip


def of_quantized_types() -> Iterator[tuple[str, Case]]:
    values = (np.random.default_rng(2).standard_normal((4, 3)) * 4).astype(np.float32)
    outer = tensor((4, 3), "f32")
    for quantized in QUANTIZED:
        inner = tensor((4, 3), f"!quant.uniform<{quantized}>")
        body = f" %0 = stablehlo.uniform_quantize %a : ({outer}) -> {inner}\n"
        body += f" %r = stablehlo.uniform_dequantize %0 : ({inner}) -> {outer}"
        yield f"quantized {quantized}", (function([outer], body, [outer], "%r"), [values])


CASES: dict[str, Case] = {}
for _cases in (of_narrow_types(), of_complex_numbers(), of_bits(), of_quantized_types()):
    CASES.update(_cases)
