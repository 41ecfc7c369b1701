"""Converts MLIR types, constants and attributes to Python values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._core import Unsupported
from ...base.dtypes import FLOATS, NUMPY

_FLOATS = (
    "f64 f32 f16 bf16 f8E4M3FN f8E5M2 f8E4M3FNUZ f8E5M2FNUZ f8E8M0FNU f4E2M1FN f8E3M4 f8E4M3B11FNUZ f6E2M3FN f6E3M2FN"
)
DTYPES = {
    **{name: name.lower() for name in _FLOATS.split()},
    "f8E4M3": "f8e4m3ieee",
    "i1": "bool",
    **{f"{prefix}{bits}": f"i{bits}" for prefix in ("i", "si") for bits in (2, 4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"u{bits}" for bits in (2, 4, 8, 16, 32, 64)},
}
#: bits of an element in StableHLO
BITS = {name: 1 if name == "bool" else int(re.findall(r"\d+", name)[0]) for name in NUMPY if name[0] != "c"}

NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|inf|nan)|true|false")


class Shaped:
    """The dtype and shape of a tensor type, and whether its elements are complex."""

    def __init__(self, mlir_type: Any, place: str) -> None:
        """Reads a ranked tensor type with static extents."""
        text = str(mlir_type)
        found = re.match(r"tensor<((?:\d+x)*)(complex<(\w+)>|\w+)(?:,.*)?>$", text)
        if not found:
            remedy = "export it with static shapes" if "?" in text else "only ranked tensors of numbers are read"
            raise Unsupported(f"{place}: type {text}: {remedy}")
        self.shape = [int(extent) for extent in found[1].split("x")[:-1]]
        self.complex = found[3] is not None
        element = found[3] or found[2]
        if element not in DTYPES or (self.complex and element not in ("f32", "f64")):
            raise Unsupported(f"{place}: element type {found[2]}")
        self.dtype = DTYPES[element]

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=object))


def parts_of(mlir_type: Any) -> list[Any] | None:
    """Returns the element types of a tuple, [] for a token (data dependences order a graph), None for other types."""
    if str(mlir_type) == "!stablehlo.token":
        return []
    return [mlir_type.get_type(i) for i in range(mlir_type.num_types)] if hasattr(mlir_type, "num_types") else None


def _parsed(text: str, dtype: str, count: int, width: int) -> NDArray[Any]:
    """Reads the numbers in `dense<...>`, including hexadecimal blobs and bit patterns."""
    body = text[text.index("<") + 1 : text.rindex(">")]
    target = np.dtype(NUMPY[dtype])
    blob = re.match(r'"0x([0-9a-fA-F]*)"', body)
    if blob:
        return np.frombuffer(bytes.fromhex(blob[1]), dtype=target)
    numbers = NUMBER.findall(body)
    values = np.empty(len(numbers), dtype=target)
    for i, number in enumerate(numbers):
        if number[:2].lower() == "0x":
            values[i] = np.frombuffer(int(number, 16).to_bytes(target.itemsize, "little"), dtype=target)[0]
        elif dtype in FLOATS:
            values[i] = float(number)
        else:
            values[i] = {"true": 1, "false": 0}.get(number) if number in ("true", "false") else int(number)
    return np.broadcast_to(values, (count * width,)) if len(values) == 1 else values


def dense(op: Any, shaped: Shaped, place: str) -> tuple[NDArray[Any], bool]:
    """Reads the elements of a constant."""
    width = 2 if shaped.complex else 1
    tail = [2] if shaped.complex else []
    try:
        attribute = op.attributes["value"]
    except TypeError:  # the bindings have no class for complex elements
        text = re.sub(r"\s*:\s*tensor<.*", "", op.get_asm(large_elements_limit=None).split("constant", 1)[1])
        values = _parsed(text, shaped.dtype, 1, width)
        if len(values) == width and shaped.size != 1:
            return values.reshape(tail), True
        return values.reshape([*shaped.shape, *tail]), False
    if "Resource" in type(attribute).__name__:
        return np.frombuffer(memoryview(attribute), dtype=NUMPY[shaped.dtype]).reshape(shaped.shape), False
    splat = bool(getattr(attribute, "is_splat", False))
    if splat and shaped.size != 1:
        inner = attribute.get_splat_value()
        text = re.sub(r"\s*:.*", "", str(inner)) if inner is not None else str(attribute)
        return _parsed(f"<{text}>", shaped.dtype, 1, width).reshape(()), True
    try:
        values = np.array(attribute)
    except (TypeError, ValueError, BufferError):
        values = _parsed(str(attribute).split(" : ")[0], shaped.dtype, shaped.size, width)
    if values.size != shaped.size:
        raise Unsupported(f"{place}: a constant of {values.size} elements for a type of {shaped.size}")
    return np.ascontiguousarray(values.astype(NUMPY[shaped.dtype], copy=False)).reshape(shaped.shape), False


def integers(op: Any, name: str, fallback: list[int] | None = None) -> list[int]:
    """Reads a list of integers from any form of attribute."""
    if name not in op.attributes:
        return list(fallback or [])
    attribute = op.attributes[name]
    kind = type(attribute).__name__
    if kind == "DenseIntElementsAttr":
        return [int(value) for value in np.array(attribute).reshape(-1)]
    return [int(value) if isinstance(value, int) else int(value.value) for value in attribute]


def integer(op: Any, name: str, fallback: int = 0) -> int:
    """Reads an integer attribute."""
    return int(op.attributes[name].value) if name in op.attributes else fallback


def flag(op: Any, name: str, fallback: bool = False) -> bool:
    """Reads a boolean attribute."""
    if name not in op.attributes:
        return fallback
    return bool(getattr(op.attributes[name], "value", True))  # the presence of a unit attribute means true


def text(op: Any, name: str, fallback: str = "") -> str:
    """Reads a text attribute; for an enumeration, its last word."""
    if name not in op.attributes:
        return fallback
    attribute = op.attributes[name]
    if type(attribute).__name__ in ("StringAttr", "FlatSymbolRefAttr"):
        return str(attribute.value)
    return re.split(r"[\s<]+", str(attribute).rstrip(">"))[-1]
