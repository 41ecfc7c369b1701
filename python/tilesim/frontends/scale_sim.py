"""Reads topology files of SCALE-Sim (versions 1 to 3): one convolution or matrix product per row.

SCALE-Sim reads columns by position (scalesim/topology_utils.py): a name, then IFMAP height and width, filter height and
width, channels, filters and one or two strides, or M, N, K. A convolution has no padding and
ceil((extent - window + stride) / stride) positions; a name with "DP" marks a depthwise convolution.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass

from ..base.arguments import dtype_name, is_size
from ..base.checked import checked
from ..base.errors import listed, nearest, path_text, user_error
from ..base.files import read_text
from ..graph import Graph, GraphBuilder
from ..graph.building import convolved, namer
from ..graph.tensor import Tensor

__all__ = ["from_scale_sim"]

_GEMM = ("layer name", "m", "n", "k")
_WINDOW = ("ifmap height", "ifmap width", "filter height", "filter width", "channels", "num filter", "strides")
_CONVOLUTION = ("layer name", *_WINDOW)
_FURTHER = ("stride width", "sparsity", "batch size")  # optional columns at the end, found by name
_SPELLINGS = {"layer": "layer name", "num filters": "num filter", "stride": "strides", "stride height": "strides"}
_MOST_BYTES = 16 << 20
_MOST = 1 << 24  # largest extent


@dataclass
class _Row:
    """A row of the file, by the names of its columns."""

    place: str
    cells: dict[str, str]

    def size(self, column: str, default: int | None = None) -> int:
        text = self.cells.get(column, "")
        if not text and default is not None:
            return default
        if not is_size(text) or not 0 < int(text) <= _MOST:
            what = "the layer is empty" if text == "0" else "not a size"
            raise user_error(what, place=f"{self.place}, {column}", value=f"'{text}'", allowed=f"1 to {_MOST}")
        return int(text)


@checked()
def from_scale_sim(path: str | os.PathLike[str], dtype: str = "i8") -> Graph:
    """Reads a topology file of SCALE-Sim.

    Args:
        path: `.csv` file of convolutions or of matrix products (columns M, N, K).
        dtype: data type of all tensors, which the format does not state.

    Returns:
        A graph with one operation per row, named as the row; each reads an input `NAME.x` and a weight `NAME.w`. Its
        `assumptions` list what the file leaves open and the columns that are not read.

    Raises:
        UserError: for a file without layers, an unknown column (with the nearest), a cell that is not a size, a window
            larger than its input.
    """
    name, dtype = path_text(path), dtype_name(dtype)
    lines = read_text(name, _MOST_BYTES).splitlines()
    split = csv.reader(lines, delimiter="\t" if lines and "\t" in lines[0] and "," not in lines[0] else ",")
    try:
        rows = [(split.line_num, [cell.strip() for cell in row]) for row in split]
    except csv.Error as error:
        raise user_error("not a CSV file", place=f"{name}:{split.line_num}", value=str(error)) from None
    columns, ignored = _columns(rows[0][1] if rows else [], name)
    file = os.path.basename(name)
    b, fresh = GraphBuilder(os.path.splitext(file)[0], dtype=dtype), namer()
    said = [f"{file} leaves open: dtype ({dtype}), connections of layers (each reads and writes separate tensors)"]
    said += [f"{file}: not read: columns {listed(ignored)}"] if ignored else []
    layers = [(number, cells) for number, cells in rows[1:] if any(cells)]
    if not layers:
        raise user_error("the file has no layers", place=name, allowed="a row of column names, then a row per layer")
    make = _product if "m" in columns else _convolution
    for number, cells in layers:
        row = _Row(f"{name}:{number}", dict(zip(columns, cells, strict=False)))
        layer = fresh(row.cells.get("layer name") or "layer")
        b.output(make(b, row, layer, said), f"{layer}.y")
        if (ratio := row.cells.get("sparsity", "1")) not in ("", "1"):
            said.append(f"{file}:{number}: sparsity {ratio} is ignored: {layer} is dense")
    graph = b.build()
    graph.assumptions += said
    return graph


def _columns(header: list[str], name: str) -> tuple[list[str], list[str]]:
    """Finds the field of each column ("" for ignored ones), and the headers of ignored columns."""
    found = [" ".join(cell.lower().replace("_", " ").split()) for cell in header]
    found = [_SPELLINGS.get(cell, cell) for cell in found]
    wanted = _GEMM if "m" in found[1:4] else _CONVOLUTION
    allowed = ", ".join(wanted)
    if len(found) < len(wanted):
        raise user_error("the first row names too few columns", place=f"{name}:1", value=listed(header),
                         allowed=f"{', '.join(_GEMM)}; {', '.join(_CONVOLUTION)}")  # fmt: skip
    for at, cell in enumerate(found[1 : len(wanted)], 1):
        if cell not in wanted:
            near = nearest(cell, wanted)
            raise user_error("unknown column", place=f"{name}:1", value=f"'{header[at]}'", allowed=allowed,
                             suggestion=f"Did you mean '{near}'?" if near else "")  # fmt: skip
    if found[1 : len(wanted)] != list(wanted[1:]) and len(set(found[1 : len(wanted)])) == len(wanted) - 1:
        raise user_error("unexpected order of columns: SCALE-Sim reads them by position", place=f"{name}:1",
                         value=listed(header), allowed=allowed)  # fmt: skip
    rest = [cell if cell in _FURTHER else "" for cell in found[len(wanted) :]]
    ignored = [cell for cell, own in zip(header[len(wanted) :], rest, strict=True) if cell and not own]
    return [*wanted, *rest], ignored


def _product(b: GraphBuilder, row: _Row, layer: str, said: list[str]) -> Tensor:
    m, n, k = (row.size(column) for column in _GEMM[1:])
    return b.matmul(b.input(f"{layer}.x", (m, k)), b.weight(f"{layer}.w", (k, n)), name=layer)


def _convolution(b: GraphBuilder, row: _Row, layer: str, said: list[str]) -> Tensor:
    """Builds a convolution, or a product if the window is a full row of the input."""
    height, width, kernel_height, kernel_width, channels, filters, stride = (row.size(column) for column in _WINDOW)
    strides = (stride, row.size("stride width", stride))
    batch = row.size("batch size", 1)
    pads: list[int] = []
    for extent, kernel, step in zip((height, width), (kernel_height, kernel_width), strides, strict=True):
        if kernel > extent:
            raise user_error("the filter is larger than the input", place=row.place, value=str(kernel),
                             allowed=f"1 to {extent}")  # fmt: skip
        pads += [0, -(extent - kernel) % step]
    if (kernel_height, kernel_width, *strides, batch) == (1, width, 1, 1, 1):
        x = b.input(f"{layer}.x", (height, width * channels))
        return b.matmul(x, b.weight(f"{layer}.w", (width * channels, filters)), name=layer)
    if any(pads):
        where = os.path.basename(row.place)
        said.append(f"{where}: SCALE-Sim rounds up: the last windows of {layer} reach beyond the input, into zeros")
    groups = channels if "DP" in layer else 1
    x = b.input(f"{layer}.x", (batch, channels, height, width))
    w = b.weight(f"{layer}.w", (filters * groups, channels // groups, kernel_height, kernel_width))
    return convolved(b.op, x, w, name=layer, strides=list(strides), pads=pads, groups=groups)
