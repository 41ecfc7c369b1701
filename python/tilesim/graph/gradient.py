"""Differentiates graphs in reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from ..base.checked import checked
from ..base.errors import shown, unknown, user_error
from .attention_gradient import AttentionGradient
from .builder import GraphBuilder
from .graph import Graph
from .tensor import Tensor

__all__ = ["gradient"]

Row = dict[str, Any]
Gradients = list[Tensor | None]  # one per operand or result; None if no gradient reaches it

#: function -> gradient by each operand, from (builder, gradient, result, operands); None without gradient
ELEMENTWISE: dict[str, Callable[..., list[Any]]] = {
    "identity": lambda b, g, y, x: [g],
    "negate": lambda b, g, y, x: [-g],
    "abs": lambda b, g, y, x: [g * b.apply("sign", x)],
    "exp": lambda b, g, y, x: [g * y],
    "log": lambda b, g, y, x: [g / x],
    "sqrt": lambda b, g, y, x: [g / (y * 2)],
    "rsqrt": lambda b, g, y, x: [g * y * y * y * -0.5],
    "reciprocal": lambda b, g, y, x: [-g * y * y],
    "sin": lambda b, g, y, x: [g * b.apply("cos", x)],
    "cos": lambda b, g, y, x: [-g * b.apply("sin", x)],
    "tanh": lambda b, g, y, x: [g * (1 - y * y)],
    "sigmoid": lambda b, g, y, x: [g * y * (1 - y)],
    "silu": lambda b, g, y, x: [g * (y + b.apply("sigmoid", x) * (1 - y))],
    "relu": lambda b, g, y, x: [b.apply("select", b.apply("greater", x, _zero(b, x)), g, _zero(b, g))],
    "add": lambda b, g, y, x, z: [g, g],
    "subtract": lambda b, g, y, x, z: [g, -g],
    "multiply": lambda b, g, y, x, z: [g * z, g * x],
    "divide": lambda b, g, y, x, z: [g / z, -g * y / z],
    "select": lambda b, g, y, c, x, z: [
        None,
        b.apply("select", c, g, _zero(b, g)),
        b.apply("select", c, _zero(b, g), g),
    ],
}


def _zero(b: GraphBuilder, like: Tensor) -> Tensor:
    return b.scalar(0, like.dtype)


def _summed_to(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sums over the axes along which a tensor of this shape was broadcast."""
    lead = x.ndim - len(shape)
    axes = [i for i in range(x.ndim) if i < lead or (shape[i - lead] == 1 and x.shape[i] != 1)]
    return (x.sum(axes) if axes else x).reshape(*shape) if x.shape != shape else x


def _elementwise(b: GraphBuilder, row: Row, gradients: Gradients, results: list[Tensor], x: list[Any]) -> Gradients:
    rule = ELEMENTWISE.get(row["attributes"]["function"])
    if rule is None:
        raise _no_gradient(row, f"function '{row['attributes']['function']}'", ELEMENTWISE)
    found = rule(b, gradients[0], results[0], *x)
    return [None if g is None else _summed_to(g, one.shape) for g, one in zip(found, x, strict=True)]


def _contract(b: GraphBuilder, row: Row, gradients: Gradients, results: list[Tensor], x: list[Any]) -> Gradients:
    """Multiplies the gradient by the other operand, transposed to the operand's axes."""
    (g,), attributes = gradients, row["attributes"]
    if any(key in attributes for key in ("a_format", "b_format", "a_tiles", "b_tiles")) or len(x) > 3:
        raise _no_gradient(row, "a product of sparse operands", ())
    assert g is not None
    a, c = x[:2]
    a_batch, b_batch = attributes.get("a_batch", []), attributes.get("b_batch", [])
    a_sum, b_sum = attributes.get("a_contract", []), attributes.get("b_contract", [])
    a_free = [i for i in range(a.ndim) if i not in a_batch and i not in a_sum]
    b_free = [i for i in range(c.ndim) if i not in b_batch and i not in b_sum]
    batch, rows = len(a_batch), len(a_free)
    ours, theirs = list(range(batch, batch + rows)), list(range(batch + rows, batch + rows + len(b_free)))

    def side(places: list[int], other: Tensor, other_batch: list[int], other_free: list[int], order: list[int]) -> Any:
        made = b.op(
            "contract", g, other, a_batch=list(range(batch)), b_batch=other_batch, a_contract=places,
            b_contract=other_free, dtype=g.dtype,
        )  # fmt: skip
        return made.transpose(*[order.index(i) for i in range(len(order))])

    # The result's axes: batch, the free ones of g, then the free ones of the other operand (its summed axes, in order).
    a_order = [*a_batch, *a_free, *[a_sum[b_sum.index(i)] for i in sorted(b_sum)]]
    b_order = [*b_batch, *b_free, *[b_sum[a_sum.index(i)] for i in sorted(a_sum)]]
    found: Gradients = [
        side(theirs, c, b_batch, b_free, a_order).convert(a.dtype),
        side(ours, a, a_batch, a_free, b_order).convert(c.dtype),
    ]
    if len(x) > 2:
        found.append(None if x[2] is None else _summed_to(g, x[2].shape).convert(x[2].dtype))
    return found


def _reduce(b: GraphBuilder, row: Row, gradients: Gradients, results: list[Tensor], x: list[Any]) -> Gradients:
    (g,), (operand,), attributes = gradients, x, row["attributes"]
    combiner, dims = attributes["combiner"], attributes["dims"]
    assert g is not None
    kept = [1 if i in dims else extent for i, extent in enumerate(operand.shape)]
    spread = b.broadcast(g.convert(operand.dtype).reshape(*kept), operand.shape)
    if combiner == "add":
        return [spread]
    if combiner == "mean":
        count = 1
        for i in dims:
            count *= operand.shape[i]
        return [spread / float(max(1, count))]
    if combiner in ("maximum", "minimum"):  # equal extremes share the gradient equally
        most = b.apply("equal", operand, results[0].reshape(*kept)).convert(operand.dtype)
        return [spread * most / most.sum(dims, keep_dims=True)]
    raise _no_gradient(row, f"reduction '{combiner}'", ("add", "mean", "maximum", "minimum"))


def _broadcast(b: GraphBuilder, row: Row, gradients: Gradients, results: list[Tensor], x: list[Any]) -> Gradients:
    (g,), (operand,), dims = gradients, x, row["attributes"]["dims"]
    assert g is not None
    axes = [i for i in range(g.ndim) if i not in dims or operand.shape[dims.index(i)] != g.shape[i]]
    return [(g.sum(axes) if axes else g).reshape(*operand.shape)]


def _transpose(b: GraphBuilder, row: Row, gradients: Gradients, results: list[Tensor], x: list[Any]) -> Gradients:
    (g,), order = gradients, row["attributes"]["permutation"]
    return [g.transpose(*[order.index(i) for i in range(len(order))])]  # type: ignore[union-attr]


def _slice(b: GraphBuilder, row: Row, gradients: Gradients, results: list[Tensor], x: list[Any]) -> Gradients:
    (g,), (operand,), attributes = gradients, x, row["attributes"]
    assert g is not None
    start, stride = attributes["start"], attributes.get("stride") or [1] * g.ndim
    if 0 in g.shape:
        return [b.broadcast(_zero(b, g), operand.shape)]
    ends = [low + (count - 1) * step + 1 for low, count, step in zip(start, g.shape, stride, strict=True)]
    high = [extent - end for extent, end in zip(operand.shape, ends, strict=True)]
    interior = [step - 1 for step in stride]
    return [b.op("pad", g, _zero(b, g), low=list(start), high=high, interior=interior, mode="constant")]


def _concat(b: GraphBuilder, row: Row, gradients: Gradients, results: list[Tensor], x: list[Any]) -> Gradients:
    (g,), dim, found, start = gradients, row["attributes"]["dim"], [], 0
    for operand in x:
        part = (*[slice(None)] * dim, slice(start, start + operand.shape[dim]))
        found.append(g[part])  # type: ignore[index]
        start += operand.shape[dim]
    return list(found)


def _attention(b: GraphBuilder, row: Row, gradients: Gradients, results: list[Tensor], x: list[Any]) -> Gradients:
    found = AttentionGradient(b, x, row["attributes"], row["name"]).run(results[0], results[1], *gradients)
    if len(x) > 3 and found[3] is not None:
        mask, keys = x[3], found[3].shape[3]
        behind = max(0, mask.shape[-1] - keys) if mask.ndim else 0  # number of keys after attribute kv_len
        dmask = _summed_to(found[3], (*mask.shape[:-1], keys) if behind else mask.shape)
        if behind:
            high = [0] * (mask.ndim - 1) + [behind]
            dmask = b.op("pad", dmask, _zero(b, dmask), low=[0] * mask.ndim, high=high, mode="constant")
        found[3] = dmask.convert(mask.dtype)
    return [*found[: len(x)], *[None] * (len(x) - 4)]


#: kind -> gradients by its operands, from (builder, row, gradients by its results, results, operands)
KINDS: dict[str, Callable[[GraphBuilder, Row, Gradients, list[Tensor], list[Any]], Gradients]] = {
    "attention": _attention,
    "broadcast": _broadcast,
    "concat": _concat,
    "contract": _contract,
    "convert": lambda b, row, g, y, x: [g[0].convert(x[0].dtype)],  # type: ignore[union-attr]
    "copy": lambda b, row, g, y, x: [g[0]],
    "elementwise": _elementwise,
    "reduce": _reduce,
    "reshape": lambda b, row, g, y, x: [g[0].reshape(*x[0].shape)],  # type: ignore[union-attr]
    "slice": _slice,
    "transpose": _transpose,
}


def _no_gradient(row: Row, what: str, allowed: Any) -> Exception:
    return user_error(
        "an operation without gradient", place=f"{row['kind']} '{row['name']}'", value=what,
        allowed=", ".join(sorted(allowed)),
    )  # fmt: skip


class _Reverse:
    """Copies a graph and differentiates it from its last operation to its first."""

    def __init__(self, graph: Graph, of: str, by: Sequence[str]) -> None:
        plain = graph.copy()
        plain.inline_calls()
        composite = [str(row["name"]) for row in _core.kinds() if row["composite"] and row["name"] != "attention"]
        plain.expand(composite)
        self.rows, self.inputs = plain.operations(), plain.inputs
        self.of, self.by = of, list(by)
        outputs = [row["name"] for row in plain.outputs]
        if of not in outputs:
            raise _unknown("of", of, outputs)
        names = [row["name"] for row in self.inputs if row["dtype"].startswith(("f", "bf"))]
        for name in self.by:
            if name not in names and name in graph.weights():
                raise _a_weight(name, names)
            if name not in names:
                raise _unknown("by", name, names)
        plain.name = f"{graph.name}.gradient"
        self.graph = plain
        whole = GraphBuilder(plain.name)
        whole.graph = plain
        self.b = whole.function("gradient")
        self.values: dict[str, Tensor] = {}
        self.made: list[list[Tensor]] = []

    def run(self) -> Graph:
        for row in self.inputs:
            self.values[row["name"]] = self.b.input(row["name"], row["shape"], row["dtype"])
        wanted = set(self.by)
        reached = [self._forward(row, wanted) for row in self.rows]
        if self.of not in wanted:
            raise user_error("the output depends on none of the inputs to differentiate by", value=shown(self.of),
                             place="of")  # fmt: skip
        y = self.values[self.of]
        seed = self.b.input(f"d.{self.of}", y.shape, y.dtype)
        gradients: dict[str, Tensor] = {self.of: seed}
        for row, results, on_way in zip(reversed(self.rows), reversed(self.made), reversed(reached), strict=True):
            if on_way and any(result["name"] in gradients for result in row["results"]):
                self._backward(row, results, gradients, wanted)
        self.b.output(y, self.of)
        for name in self.by:
            found = gradients.get(name)
            own = self.values[name]
            self.b.output(self.b.broadcast(_zero(self.b, own), own.shape) if found is None else found, f"d.{name}")
        self.b.build()
        self.graph.remove_dead_code()
        return self.graph

    def _forward(self, row: Row, wanted: set[str]) -> bool:
        """Writes an operation; returns whether it depends on an input to differentiate by."""
        operands = [None if x is None or not x["name"] else x["name"] for x in row["operands"]]
        on_way = any(name in wanted for name in operands if name is not None)
        if row["functions"]:
            raise _no_gradient(row, "an operation that holds functions", KINDS)
        results = max(len(row["results"]), 2 if on_way and row["kind"] == "attention" else 1)
        found = self.b.op(
            row["kind"], *[None if name is None else self.values[name] for name in operands],
            name=row["name"], results=results, **row["attributes"],
        )  # fmt: skip
        made = list(found) if isinstance(found, tuple) else [found]
        self.made.append(made)
        for result, tensor in zip(row["results"], made, strict=False):  # an attention may have one more result now
            self.values[result["name"]] = tensor
            if on_way and result["dtype"][0] in "fb" and result["dtype"] != "bool":
                wanted.add(result["name"])
        return on_way

    def _backward(self, row: Row, results: list[Tensor], gradients: dict[str, Tensor], wanted: set[str]) -> None:
        rule = KINDS.get(row["kind"])
        if rule is None:
            raise _no_gradient(row, f"kind '{row['kind']}'", KINDS)
        given: Gradients = [gradients.get(result["name"]) for result in row["results"]]
        given += [None] * (len(results) - len(given))
        operands = [None if x is None or not x["name"] else x["name"] for x in row["operands"]]
        tensors = [None if name is None else self.values[name] for name in operands]
        for name, found in zip(operands, rule(self.b, row, given, results, tensors), strict=True):
            if name in wanted and found is not None:
                gradients[name] = gradients[name] + found if name in gradients else found


def _a_weight(name: str, inputs: list[str]) -> Exception:
    return user_error(
        "gradients are by inputs, not by weights",
        place="by",
        value=shown(name),
        allowed=", ".join(inputs),
        suggestion="Build the graph with an input (GraphBuilder.input) in its place, and pass the values",
    )


def _unknown(argument: str, name: str, known: list[str]) -> Exception:
    return unknown("tensor", name, known, place=argument)


@checked()
def gradient(graph: Graph, of: str, by: str | Sequence[str]) -> Graph:
    """Differentiates a graph in reverse mode. Attention stores its operands, its result and its log-sum-exp,
    and recomputes its weights. Equal extremes of a reduction share their gradient; the gradient of relu is 0 at 0.

    Args:
        graph: left unchanged.
        of: name of an output.
        by: name of an input of real numbers, or several.

    Returns:
        A graph with the same inputs and `d.<of>`, the gradient by that output (of its shape and dtype). It returns the
        output and `d.<name>` for each input to differentiate by.

    Raises:
        UserError: for an unknown name, an output that depends on none of the inputs, or an operation without gradient.
    """
    if isinstance(by, str):
        by = [by]
    return _Reverse(graph, of, by).run()
