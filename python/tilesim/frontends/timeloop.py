"""Reads problems of Timeloop (versions 0.2 to 0.4): products and convolutions.

A problem has dimensions, and data spaces whose axes are sums of products of a dimension and a coefficient (Timeloop's
page on problems). Two data spaces are inputs and one is the output. If an axis of an input is a sum of two dimensions,
one of them is the position of a window and the other the position inside it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.arguments import dtype_name
from ..base.checked import checked
from ..base.errors import listed, nearest, path_text, shown, unknown, unsupported, user_error
from ..base.files import read_json, read_yaml
from ..graph import Graph, GraphBuilder
from ..graph.building import SPATIAL, convolved
from ..graph.tensor import Tensor

__all__ = ["from_timeloop_problem"]

_SHAPE = ("name", "dimensions", "coefficients", "data_spaces")
_SPACE = ("name", "projection", "read_write", "rank_name")
_MOST, _MOST_AXES = 1 << 24, 8
_Term = tuple[str, int]  # a dimension and its coefficient

#: the default shape of a problem, also named cnn-layer
_LAYER = {
    "dimensions": list("RSPQCKN"),
    "coefficients": [{"name": name, "default": 1} for name in ("Wstride", "Hstride", "Wdilation", "Hdilation")],
    "data_spaces": [
        {"name": "Weights", "projection": [[["C"]], [["K"]], [["R"]], [["S"]]]},
        {"name": "Inputs", "projection": [[["N"]], [["C"]], [["R", "Wdilation"], ["P", "Wstride"]],
                                          [["S", "Hdilation"], ["Q", "Hstride"]]]},
        {"name": "Outputs", "projection": [[["N"]], [["K"]], [["Q"]], [["P"]]], "read_write": True},
    ],
}  # fmt: skip


@dataclass
class _Space:
    """A data space; each of its axes is a sum of dimensions with coefficients."""

    name: str
    axes: list[list[_Term]]
    written: bool

    def dims(self) -> list[str]:
        return [dim for axis in self.axes for dim, _ in axis]


@checked()
def from_timeloop_problem(path: str | os.PathLike[str], dtype: str = "i8") -> Graph:
    """Reads a problem of Timeloop.

    Args:
        path: `.yaml` file (needs `pip install 'tilesim[mapping]'`) or `.json` file with the key `problem`.
        dtype: data type of all tensors, which a problem does not state.

    Returns:
        A graph of one product or convolution with the problem's name, whose inputs are the input data spaces.
        Its `assumptions` list unstated properties and ignored keys.

    Raises:
        UserError: for a file without a problem, an unknown key or dimension (with the nearest), an invalid extent.
        Unsupported: for data spaces that form neither a product of two operands nor a convolution.
    """
    name, dtype = path_text(path), dtype_name(dtype)
    data = read_json(name) if name.endswith(".json") else read_yaml(name)
    problem = data.get("problem") if isinstance(data, Mapping) else None
    if not isinstance(problem, Mapping):
        raise user_error("the file has no problem", place=name, allowed="problem: {shape: {..}, instance: {..}}",
                         suggestion=_hint_for(data))  # fmt: skip
    place = f"{name}: problem"
    shape = problem.get("shape", _LAYER)
    if isinstance(shape, str) and shape.replace("_", "-").lower() == "cnn-layer":
        shape = _LAYER
    shape = _keys(shape, _SHAPE, f"{place}: shape")
    sizes, spaces, unread = _read(problem, shape, place)
    file = os.path.basename(name)
    title = str(shape.get("name", "problem"))
    b = GraphBuilder(title, dtype=dtype)
    b.output(_operation(b, title, sizes, spaces, f"{place}: shape"), next(one.name for one in spaces if one.written))
    graph = b.build()
    graph.assumptions.append(f"{file} leaves open: dtype ({dtype}), padding (inputs hold all elements that are read)")
    if unread:
        graph.assumptions.append(f"{file}: not read: {listed(unread)}")
    return graph


def _hint_for(data: Any) -> str:
    parts = {"architecture": "an architecture is a machine: --machine FILE", "mapping": "tilesim map --format timeloop"}
    return next((hint for key, hint in parts.items() if isinstance(data, Mapping) and key in data), "")


def _keys(node: Any, allowed: Sequence[str], place: str) -> dict[str, Any]:
    """Reads a mapping and rejects unknown keys; converts "-" of older files to "_"."""
    if not isinstance(node, Mapping):
        raise user_error("a value has the wrong type", place=place, value=shown(node), allowed="a mapping")
    found = {str(key).replace("-", "_"): value for key, value in node.items()}
    for key in found:
        if key not in allowed:
            raise unknown("key", key, allowed, place=place)
    return found


def _list(node: Mapping[str, Any], key: str, place: str, most: int) -> list[Any]:
    found = node.get(key)
    if not isinstance(found, list) or not 0 < len(found) <= most:
        what = "invalid list" if found else "missing or empty list"
        raise user_error(what, place=f"{place}: {key}", value=shown(found), allowed=f"1 to {most} entries")
    return found


def _read(
    problem: Mapping[str, Any], shape: Mapping[str, Any], place: str
) -> tuple[dict[str, int], list[_Space], list[str]]:
    """Reads extents of dimensions, data spaces, and unused keys."""
    dims = [str(dim) for dim in _list(shape, "dimensions", f"{place}: shape", 32)]
    factors: dict[str, Any] = {}
    for number, one in enumerate(shape.get("coefficients") or []):
        known = _keys(one, ("name", "default"), f"{place}: shape: coefficients[{number}]")
        factors[str(known.get("name"))] = known.get("default", 1)
    given = problem.get("instance", {key: value for key, value in problem.items() if key not in ("shape", "version")})
    if not isinstance(given, Mapping):
        raise user_error("a value has the wrong type", place=f"{place}: instance", value=shown(given),
                         allowed="a mapping")  # fmt: skip
    names, unread = [*dims, *factors], []
    for key in given:
        if str(key) not in names:
            near = nearest(str(key), [one for one in names if one not in given])
            if near and len(str(key)) > 1:
                raise user_error("unknown dimension", place=f"{place}: instance", value=shown(key), suggestion=near,
                                 allowed=", ".join(names))  # fmt: skip
            unread.append(str(key))
    sizes: dict[str, int] = {}
    for name in names:
        value = given.get(name, factors.get(name))
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _MOST:
            what = "missing extent" if value is None else "the layer is empty" if value == 0 else "invalid extent"
            raise user_error(what, place=f"{place}: instance: {name}", value="" if value is None else shown(value),
                             allowed=f"1 to {_MOST}")  # fmt: skip
        sizes[name] = value
    spaces = [
        _space(one, sizes, factors, f"{place}: shape: data_spaces[{number}]")
        for number, one in enumerate(_list(shape, "data_spaces", f"{place}: shape", 16))
    ]
    return sizes, spaces, unread


def _space(node: Any, sizes: Mapping[str, int], factors: Mapping[str, Any], place: str) -> _Space:
    known, axes = _keys(node, _SPACE, place), []
    for number, terms in enumerate(_list(known, "projection", place, _MOST_AXES)):
        where = f"{place}: projection[{number}]"
        axis: list[_Term] = []
        for term in terms if isinstance(terms, list) and 0 < len(terms) <= 2 else [None]:
            if not isinstance(term, list) or not 0 < len(term) <= 2:
                raise user_error("not a sum of one or two dimensions", place=where, value=shown(terms),
                                 allowed="[[P, Wstride], [R, Wdilation]]")  # fmt: skip
            for part, names in zip(term, (set(sizes) - set(factors), set(factors)), strict=False):
                if str(part) not in names:
                    what = "unknown dimension" if part is term[0] else "unknown coefficient"
                    raise user_error(what, place=where, value=shown(part), allowed=", ".join(sorted(names)),
                                     suggestion=nearest(str(part), names))  # fmt: skip
            axis.append((str(term[0]), sizes[str(term[1])] if len(term) > 1 else 1))
        axes.append(axis)
    return _Space(str(known.get("name", "")), axes, known.get("read_write") is True)


def _operation(b: GraphBuilder, title: str, sizes: Mapping[str, int], spaces: list[_Space], place: str) -> Tensor:
    """Builds the operation, with the axis order of its operation kind because data spaces have no layout."""
    read, written = [one for one in spaces if not one.written], [one for one in spaces if one.written]
    moved = [one for one in read if any(len(axis) > 1 or axis[0][1] > 1 for axis in one.axes)]
    if len(read) != 2 or len(written) != 1 or len(moved) > 1 or any(len(axis) > 1 for axis in written[0].axes):
        what = "the data spaces form neither a product of two operands nor a convolution"
        raise unsupported(what, place=place, value=listed(one.name for one in spaces))
    x = moved[0] if moved else read[0]
    w = next(one for one in read if one is not x)
    windows = [axis for axis in x.axes if len(axis) > 1 or axis[0][1] > 1]
    inside = [dim for axis in windows for dim, _ in axis]
    of_x, of_w, of_z = ({dim for dim in one.dims() if dim not in inside} for one in (x, w, written[0]))
    if alone := (of_x - of_w - of_z) | (of_w - of_x - of_z) | (of_z - of_x - of_w):
        raise unsupported("a dimension occurs in only one data space", place=place, value=listed(sorted(alone)))

    def extent(dims: set[str]) -> int:
        return math.prod(sizes[dim] for dim in dims)

    batch, depth, rows, columns = (
        extent(dims) for dims in (of_x & of_w & of_z, (of_x & of_w) - of_z, of_x - of_w, of_w - of_x)
    )
    if windows:
        found = [_window(axis, set(w.dims()), set(written[0].dims()), sizes, f"{place}: {x.name}") for axis in windows]
        return _convolution(b, title, (x.name, w.name), (batch, rows, depth, columns), found, place)
    group = [batch] if batch > 1 else []
    return b.matmul(b.input(x.name, (*group, rows, depth)), b.input(w.name, (*group, depth, columns)), name=title)


def _window(
    axis: list[_Term], of_w: set[str], of_z: set[str], sizes: Mapping[str, int], place: str
) -> tuple[int, int, int, int]:
    """Returns number of positions, stride, taps and dilation of a windowed axis."""
    place_of = [term for term in axis if term[0] in of_z and term[0] not in of_w]
    tap_of = [term for term in axis if term[0] in of_w and term[0] not in of_z]
    if len(place_of) != 1 or len(tap_of) != len(axis) - 1:
        raise unsupported("an axis is not a window over positions of the result", place=place,
                          value=" + ".join(dim for dim, _ in axis))  # fmt: skip
    (at, stride), (tap, dilation) = place_of[0], tap_of[0] if tap_of else ("", 1)
    return sizes[at], stride, sizes.get(tap, 1), dilation


def _convolution(
    b: GraphBuilder,
    title: str,
    names: tuple[str, str],
    extents: tuple[int, int, int, int],
    windows: list[tuple[int, int, int, int]],
    place: str,
) -> Tensor:
    groups, images, channels, filters = extents
    if len(windows) > len(SPATIAL):
        raise unsupported("too many axes of a convolution", place=place, value=str(len(windows)),
                          allowed=f"1 to {len(SPATIAL)}")  # fmt: skip
    reach = [(at - 1) * stride + (taps - 1) * dilation + 1 for at, stride, taps, dilation in windows]
    x = b.input(names[0], (images, groups * channels, *reach))
    w = b.input(names[1], (groups * filters, channels, *(taps for _, _, taps, _ in windows)))
    return convolved(
        b.op, x, w, name=title, strides=[stride for _, stride, _, _ in windows],
        window_dilation=[dilation for _, _, _, dilation in windows], groups=groups,
    )  # fmt: skip
