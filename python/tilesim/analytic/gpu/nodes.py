"""Lists the steps that a framework runs for a graph's operations: library calls, loops, reductions, copies.

Views have torch's strides (strides.py). A copy is a separate node if a library, or a change of shape,
cannot read the view.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .strides import Numbers, View, compact, contiguous, viewed

__all__ = ["KernelNode", "nodes_of"]

_VIEWS = ("reshape", "transpose", "slice", "broadcast", "dynamic_slice")
_LOOPS = (
    *("elementwise", "convert", "batch_norm", "rotary", "concat", "pad", "embedding", "gather", "iota", "copy"),
    "reverse",
)
_REDUCTIONS = ("softmax", "log_softmax", "normalize", "reduce")
_CALLED = ("contract", "ragged_contract", "convolution", "attention", "while", "branch")  # library calls of engines
_PICKED = ("embedding", "gather")  # they read only the requested rows of the first operand
# rotary embedding in eager torch: x cos, -x[half], cat, * sin, +: 10 passes over x instead of two of one kernel
_SPELLED = {"rotary": (5, 5.0)}
# XLA on TPUs runs a kernel per row reduction and recomputes exponentials (docs/explanation/compute_and_fusion.md)
_ON_TPU = {"softmax": (3, 2.0), "log_softmax": (3, 2.0), "normalize": (4, 3.0)}
_BYTES = {"f64": 8, "i64": 8, "u64": 8, "f32": 4, "i32": 4, "u32": 4, "f16": 2, "bf16": 2, "i16": 2, "u16": 2}


@dataclass
class KernelNode:
    """One step of a framework, with its reads and writes."""

    name: str
    kind: str  # "library", "pointwise" or "reduction"
    operations: tuple[str, ...]
    reads: list[View]
    read_bytes: list[float]
    writes: View | None
    elements: int = 0  # number of elements of its loop
    flops: float = 0.0
    rows: int = 0
    blocks: int = 0  # rows with one thread block each; 0 if rows share blocks
    launches: int = 1
    passes: float = 1.0  # passes over its bytes if the framework decomposes the operation
    call: int = -1
    epilogue: bool = False
    activates: bool = False  # whether the library call can apply an activation
    panel: float = 0.0  # bytes of the smaller operand of one product
    function: str = ""
    extents: tuple[float, int, int, int] | None = None  # for a product in an engine: count, rows, columns, contracted
    also: tuple[View, ...] = ()  # additional results of the step
    cheap: bool = False  # the node is elementwise, and a compiler may recompute it in its readers


def nodes_of(
    operations: Sequence[Mapping[str, Any]],
    outputs: Iterable[str],
    eager: bool,
    tpu: bool = False,
    engine: bool = False,
) -> tuple[list[KernelNode], set[str]]:
    """Returns the steps of a graph in order, and the storages of its outputs."""
    found, outputs = _Reader(eager, tpu, engine), list(outputs)
    for index, op in enumerate(operations):
        found.step(index, op)
    if engine:
        found.keep(outputs)
    return found.nodes, {found.values[name].base for name in outputs if name in found.values}


def _size(dtype: str) -> float:
    return float(_BYTES.get(str(dtype), 1))


class _Reader:
    def __init__(self, eager: bool, tpu: bool, engine: bool) -> None:
        self.eager, self.tpu, self.engine = eager, tpu, engine
        self.nodes: list[KernelNode] = []
        self.values: dict[str, View] = {}

    def step(self, index: int, op: Mapping[str, Any]) -> None:
        kind = op["kind"]
        if kind == "constant":
            return
        if kind == "bitcast":
            source = self.value(op["operands"][0])
            self.values[op["name"]] = source.of(op["name"], source.shape, source.strides)
        elif kind in _VIEWS:
            self.view(op)
        elif self.engine and kind == "dynamic_update":
            self.update(op)
        elif kind in _LOOPS or kind in _REDUCTIONS or (self.engine and kind not in _CALLED):
            self.loop(op)
        else:
            self.library(index, op)

    def update(self, op: Mapping[str, Any]) -> None:
        """Writes a part of a cache in place."""
        cache, new = self.value(op["operands"][0]), self.value(op["operands"][1])
        name = op["results"][0]["name"]
        written = cache.of(name, new.shape, contiguous(new.shape))
        self.nodes.append(KernelNode(op["name"], "pointwise", (op["name"],), [new], [new.bytes], written, new.elements))
        self.values[name] = cache.of(name, cache.shape, cache.strides)

    def keep(self, outputs: Iterable[str]) -> None:
        """Copies outputs that are views of a library's result, because caches live longer than the result."""
        called = {node.writes.base for node in self.nodes if node.kind == "library" and node.writes is not None}
        for name in outputs:
            if name in self.values and (view := self.values[name]).base in called and view.name != view.base:
                self.values[name] = self.copy(view, name, "the cache")

    def value(self, tensor: Mapping[str, Any]) -> View:
        """Returns the view of an operand; inputs and weights are contiguous."""
        name = tensor["name"]
        if name not in self.values:
            self.fresh(tensor)
        return self.values[name]

    def fresh(self, tensor: Mapping[str, Any], strides: Numbers | None = None) -> View:
        """Allocates new storage for a tensor."""
        name, shape = tensor["name"], tuple(tensor["shape"])
        size = _size(tensor["dtype"])
        laid = contiguous(shape) if strides is None else strides
        self.values[name] = View(name, name, size * math.prod(shape), shape, laid, size, False)
        return self.values[name]

    def operands(self, op: Mapping[str, Any]) -> list[View]:
        return [self.value(tensor) for tensor in op["operands"] if tensor is not None]

    def copy(self, source: View, op: str, why: str, shape: Numbers | None = None) -> View:
        """Adds a loop that copies elements to a contiguous tensor; returns the tensor."""
        name = f"{source.name} for {why}"
        wanted = source.shape if shape is None else shape
        bytes_ = source.size * source.elements
        made = View(name, name, bytes_, wanted, contiguous(wanted), source.size, False)
        node = KernelNode(
            f"{op} (copy of {source.name})", "pointwise", (op,), [source], [source.bytes], made, source.elements
        )
        self.nodes.append(node)
        return made

    def view(self, op: Mapping[str, Any]) -> None:
        kind, attributes = op["kind"], op["attributes"]
        result = op["results"][0]
        name, shape = result["name"], tuple(result["shape"])
        source = self.value(op["operands"][0])
        strides, turned = source.strides, False
        if kind == "reshape":
            laid = viewed(source.shape, source.strides, shape)
            if laid is None:
                source = self.copy(source, op["name"], name, source.shape)
                laid = viewed(source.shape, source.strides, shape) or contiguous(shape)
            strides = laid
        elif kind == "transpose":
            order = attributes["permutation"]
            strides = tuple(source.strides[axis] for axis in order)
            kept = [axis for axis in order if source.shape[axis] != 1]
            turned = kept != sorted(kept)
        elif kind == "slice":
            steps = attributes.get("stride") or [1] * len(source.strides)
            strides = tuple(n * step for n, step in zip(source.strides, steps, strict=True))
        elif kind == "broadcast":
            strides = self._repeated(source, shape, attributes["dims"])
        self.values[name] = source.of(name, shape, strides, turned)

    @staticmethod
    def _repeated(source: View, shape: Numbers, dims: Sequence[int]) -> Numbers:
        strides = [0] * len(shape)
        for axis, to in enumerate(dims):
            strides[to] = source.strides[axis] if source.shape[axis] == shape[to] else 0
        return tuple(strides)

    def loop(self, op: Mapping[str, Any]) -> None:
        kind = op["kind"]
        reads, result = self.operands(op), op["results"][0]
        shape = tuple(result["shape"])
        reduces = kind in _REDUCTIONS
        if self.eager and reduces and kind != "reduce" and not reads[0].dense():
            reads[0] = self.copy(reads[0], op["name"], op["name"])
        like = next((view for view in reads if view.shape == shape), None)
        laid = compact(shape, like.strides) if like is not None and not reduces else contiguous(shape)
        written = self.fresh(result, laid)
        also = tuple(self.fresh(other) for other in op["results"][1:] if other is not None)
        amounts = [view.bytes for view in reads]
        if kind in _PICKED:
            amounts[0] = min(amounts[0], written.bytes)
        elements = reads[0].elements if reduces else written.elements
        spelled = _SPELLED if self.eager else _ON_TPU if self.tpu else {}
        launches, passes = spelled.get(kind, (1, 1.0))
        self.nodes.append(
            KernelNode(
                op["name"],
                "reduction" if reduces else "pointwise",
                (op["name"],),
                reads,
                amounts,
                written,
                elements,
                float(sum(op["flops"].values())),
                _rows(op, reads[0]) if reduces else 0,
                _rows(op, reads[0]) if reduces and kind != "reduce" else 0,
                launches,
                passes,
                function=str(op["attributes"].get("function", "")) if kind == "elementwise" else "",
                also=also,
                cheap=kind in ("elementwise", "convert") or (self.tpu and kind == "iota"),
            )
        )

    def library(self, index: int, op: Mapping[str, Any]) -> None:
        kind, attributes = op["kind"], op["attributes"]
        reads = self.operands(op)
        product = kind == "contract"
        if product:
            for side, label in ((0, "a"), (1, "b")):
                batch, contracted = (list(attributes.get(f"{label}_{what}", ())) for what in ("batch", "contract"))
                if not _multiplies(reads[side], batch, contracted):
                    reads[side] = self._laid_out(op, reads[side], batch, contracted)
        biased = kind in ("contract", "convolution") and len(reads) > 2
        tail = product and biased and not attributes.get("a_batch")
        result = op["results"][0] if op["results"] else None
        written = None
        if result is not None:
            strides = None
            if kind == "attention":  # flash kernels write the sequence axis before the heads
                _, h, s, d = result["shape"]
                strides = (h * s * d, d, h * d, 1)
            written = self.fresh(result, strides)
            for other in op["results"][1:]:
                if other is not None:
                    self.fresh(other)
        node = KernelNode(
            op["name"], "library", (op["name"],), reads, [view.bytes for view in reads], written,
            0 if written is None else written.elements, call=index,
            epilogue=tail and _outputs_by_inputs(reads[1], attributes), activates=product or kind == "convolution",
            panel=min(view.bytes for view in reads[:2]) if product and not attributes.get("a_batch") else 0.0,
        )  # fmt: skip
        self.nodes.append(node)
        if kind == "convolution" and biased and self.eager and written is not None:
            bias = [written, reads[2]]
            self.nodes.append(
                KernelNode(f"{op['name']} (bias)", "pointwise", (op["name"],), bias, [v.bytes for v in bias], written,
                     written.elements)
            )  # fmt: skip

    def _laid_out(self, op: Mapping[str, Any], view: View, batch: list[int], contracted: list[int]) -> View:
        """Copies a tensor to the axis order of a batched product, and returns a view with the original axes."""
        rest = [axis for axis in range(len(view.shape)) if axis not in batch and axis not in contracted]
        order = [*batch, *rest, *contracted]
        made = self.copy(view, op["name"], op["name"])
        strides = [0] * len(order)
        for axis, stride in zip(order, contiguous([view.shape[axis] for axis in order]), strict=True):
            strides[axis] = stride
        made.strides = tuple(strides)
        return made


def _rows(op: Mapping[str, Any], x: View) -> int:
    attributes = op["attributes"]
    if op["kind"] == "normalize" and attributes.get("mode") in ("group", "instance"):
        return x.shape[0] * int(attributes.get("groups", x.shape[1]))
    dims = attributes.get("dims", attributes.get("dim", -1))
    axes = {axis % max(1, len(x.shape)) for axis in ([dims] if isinstance(dims, int) else dims)}
    return math.prod(n for axis, n in enumerate(x.shape) if axis not in axes)


def _multiplies(view: View, batch: Sequence[int], contracted: Sequence[int]) -> bool:
    """Whether a library's (batched) product can read the view: batch, rows and columns each have one stride, and rows
    or columns are contiguous."""
    free = [axis for axis in range(len(view.shape)) if axis not in batch and axis not in contracted]
    steps = []
    for axes in (batch, free, contracted):
        shape, strides = [view.shape[axis] for axis in axes], [view.strides[axis] for axis in axes]
        whole = math.prod(shape)
        laid = viewed(shape, strides, (whole,))
        if laid is None:
            return False
        steps.append(1 if whole == 1 else laid[0])
    return 1 in steps[1:]


def _outputs_by_inputs(weights: View, attributes: Mapping[str, Any]) -> bool:
    """Whether a weight has the layout of torch's Linear, with the contracted axis last."""
    contracted = list(attributes.get("b_contract", ()))
    return len(weights.shape) == 2 and len(contracted) == 1 and weights.strides[contracted[0]] == 1
