"""Sparse formats: compresses a matrix, counts its bytes, and decompresses it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..base.arguments import as_array
from ..base.errors import nearest, shown, user_error

__all__ = ["FORMATS", "TILE", "Compressed", "compress", "expand", "format_name"]

FORMATS = ("dense", "bitmap", "csr", "csc", "block:N", "2:4", "zero_tiles")
"""Names of formats; `block:N` has blocks of N by N elements."""
TILE = 128
"""Rows and columns of a tile that `zero_tiles` flags."""

_Parts = dict[str, NDArray[Any]]


class Compressed(NamedTuple):
    """A compressed matrix: format, shape, and arrays by name."""

    format: str
    shape: tuple[int, int]
    parts: _Parts

    @property
    def bytes(self) -> int:
        """Bytes of all arrays: pointers and indices are i32, flags single bits, offsets of 2:4 two bits."""
        return sum(part.nbytes for part in self.parts.values())


def format_name(name: str, place: str = "format") -> str:
    """Checks the name of a format."""
    known = ("dense", "bitmap", "csr", "csc", "2:4", "zero_tiles")
    if isinstance(name, str) and (name in known or re.fullmatch(r"block:[1-9][0-9]{0,4}", name)):
        return name
    text = name if isinstance(name, str) else ""
    raise user_error(
        "unknown sparse format",
        place=place,
        value=shown(name),
        allowed=", ".join(FORMATS),
        suggestion="block:32" if text.startswith("block") else nearest(text, [*known, "block:32"]),
    )


def compress(matrix: ArrayLike, format: str, along: int = 0, name: str = "") -> Compressed:
    """Stores a matrix in a format."""
    dense = np.asarray(as_array(matrix, "matrix"))
    if dense.ndim != 2:
        raise user_error("not a matrix", place="matrix", value=f"{dense.ndim} axes", allowed="2 axes")
    format = format_name(format)
    shape = (int(dense.shape[0]), int(dense.shape[1]))
    if format == "dense":
        parts = {"values": dense.copy()}
    elif format == "bitmap":
        parts = {"mask": np.packbits(dense != 0), "values": dense[dense != 0]}
    elif format in ("csr", "csc"):
        parts = _rows(dense if format == "csr" else dense.T)
    elif format == "2:4":
        parts = _two_of_four(dense if along == 1 else dense.T, name)
    else:
        size = TILE if format == "zero_tiles" else int(format[6:])
        tiles = _tiles(dense, size)
        kept = (tiles != 0).any(axis=(2, 3))
        if format == "zero_tiles":
            parts = {"flags": np.packbits(~kept), "values": tiles[kept]}
        else:
            parts = {**_rows(kept), "values": tiles[kept]}
    return Compressed(format, shape, parts)


def expand(stored: Compressed, along: int = 0) -> NDArray[Any]:
    """Restores the matrix."""
    format, (rows, columns), parts = format_name(stored.format), stored.shape, stored.parts
    values = _part(parts, "values")
    if format == "dense":
        return values.reshape(rows, columns).copy()
    dense = np.zeros((rows, columns), values.dtype)
    if format == "bitmap":
        dense[_flags(parts, "mask", rows * columns).reshape(rows, columns)] = values
    elif format in ("csr", "csc"):
        target, lines = (dense, (rows, columns)) if format == "csr" else (dense.T, (columns, rows))
        target[_places(parts, lines, len(values))] = values
    elif format == "2:4":
        target = dense if along == 1 else dense.T
        _fill_groups(target, values, _part(parts, "offsets"))
    else:
        size = TILE if format == "zero_tiles" else int(format[6:])
        count = (-(-rows // size), -(-columns // size))
        tiles = np.zeros((*count, size, size), values.dtype)
        if format == "zero_tiles":
            tiles[~_flags(parts, "flags", count[0] * count[1]).reshape(count)] = values
        else:
            tiles[_places(parts, count, len(values))] = values
        whole = tiles.transpose(0, 2, 1, 3).reshape(count[0] * size, count[1] * size)
        dense[...] = whole[:rows, :columns]
    return dense


def _rows(dense: NDArray[Any]) -> _Parts:
    row, column = np.nonzero(dense)
    pointers = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=dense.shape[0]))])
    return {
        "pointers": pointers.astype(np.int32),
        "indices": column.astype(np.int32),
        "values": dense[row, column],
    }


def _places(parts: Mapping[str, NDArray[Any]], shape: tuple[int, int], count: int) -> tuple[Any, Any]:
    rows, columns = shape
    pointers, indices = _part(parts, "pointers").astype(np.int64), _part(parts, "indices").astype(np.int64)
    if len(pointers) != rows + 1:
        raise user_error("the pointers must be one more than the rows", value=str(len(pointers)), allowed=str(rows + 1))
    down = np.flatnonzero(np.diff(pointers) < 0)
    if len(down):
        at = int(down[0])
        raise user_error("the pointers of a compressed matrix decrease", place=f"pointers[{at + 1}]",
                         value=f"{pointers[at + 1]} after {pointers[at]}")  # fmt: skip
    if pointers[0] != 0 or pointers[-1] != len(indices) or len(indices) != count:
        raise user_error(
            "pointers, indices and values do not fit",
            value=f"{pointers[0]} to {pointers[-1]}, {len(indices)} indices, {count} values",
            allowed="pointers from 0 to the number of both",
        )
    outside = np.flatnonzero((indices < 0) | (indices >= columns))
    if len(outside):
        at = int(outside[0])
        raise user_error(
            "an index lies outside its row",
            place=f"indices[{at}]",
            value=str(indices[at]),
            allowed=f"0 to {columns - 1}",
        )
    return np.repeat(np.arange(rows), np.diff(pointers)), indices


def _two_of_four(dense: NDArray[Any], name: str) -> _Parts:
    rows, columns = dense.shape
    groups = -(-columns // 4)
    padded = np.zeros((rows, groups * 4), dense.dtype)
    padded[:, :columns] = dense
    grouped = padded.reshape(rows, groups, 4)
    held = (grouped != 0).sum(axis=2)
    if (held > 2).any():
        row, group = (int(place[0]) for place in np.nonzero(held > 2))
        last = min(4 * group + 3, columns - 1)
        raise user_error(
            "a group of a 2:4 operand has more than two nonzero values",
            place=f"{name + ': ' if name else ''}vector {row}, elements {4 * group} to {last}",
            value=f"{held[row, group]} values",
            allowed="at most 2 of 4 adjacent elements along the contracted axis",
        )
    order = np.sort(np.argsort(grouped == 0, axis=2, kind="stable")[:, :, :2], axis=2)
    offsets = order.reshape(-1).astype(np.uint8)
    bits = np.unpackbits(offsets[:, None], axis=1)[:, -2:]
    return {
        "values": np.take_along_axis(grouped, order, axis=2).reshape(rows, 2 * groups),
        "offsets": np.packbits(bits),
    }


def _fill_groups(target: NDArray[Any], values: NDArray[Any], offsets: NDArray[Any]) -> None:
    rows, columns = target.shape
    groups = -(-columns // 4)
    bits = _flags({"offsets": offsets}, "offsets", rows * groups * 4).reshape(-1, 2)
    places = (bits[:, 0] * 2 + bits[:, 1]).reshape(rows, groups, 2)
    grouped = np.zeros((rows, groups, 4), values.dtype)
    np.put_along_axis(grouped, places, values.reshape(rows, groups, 2), axis=2)
    target[...] = grouped.reshape(rows, 4 * groups)[:, :columns]


def _tiles(dense: NDArray[Any], size: int) -> NDArray[Any]:
    rows, columns = (-(-extent // size) for extent in dense.shape)
    whole = np.zeros((rows * size, columns * size), dense.dtype)
    whole[: dense.shape[0], : dense.shape[1]] = dense
    return whole.reshape(rows, size, columns, size).transpose(0, 2, 1, 3)


def _part(parts: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    if name not in parts:
        raise user_error("missing part of a compressed matrix", place=name, value=", ".join(parts) or "nothing",
                         allowed=name)  # fmt: skip
    return np.asarray(parts[name])


def _flags(parts: Mapping[str, NDArray[Any]], name: str, count: int) -> NDArray[Any]:
    part = _part(parts, name)
    if len(part) != -(-count // 8):
        raise user_error("wrong length of a part", place=name, value=f"{len(part)} bytes", allowed=f"{-(-count // 8)}")
    return np.unpackbits(part, count=count).astype(bool)
