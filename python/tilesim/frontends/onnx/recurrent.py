"""Recurrent operators of ONNX as counted loops of their cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import Unsupported
from ...graph.builder import GraphBuilder
from ...graph.tensor import Tensor
from ..recurrent import Cell, over_steps, parts, projected
from .elementwise import activation
from .scope import OnnxNode, OnnxScope, Value, handles

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


class Activation:
    """An activation by name, with its parameters."""

    def __init__(
        self, scope: OnnxScope, name: str, alpha: float | None, beta: float | None, clip: float | None
    ) -> None:
        """Stores name and parameters."""
        self.scope, self.name, self.alpha, self.beta, self.clip = scope, name.lower(), alpha, beta, clip

    def __call__(self, x: Tensor) -> Tensor:
        """The value of the activation at x."""
        scope = self.scope
        if self.clip is not None:
            x = scope.apply("clamp", scope.like(-self.clip, x), x, scope.like(self.clip, x))
        return activation(scope, self.name, x, self.alpha, self.beta)


def activations(scope: OnnxScope, node: OnnxNode, directions: int) -> list[list[Activation]]:
    """Lists the activations of each direction."""
    names = node.get("activations") or DEFAULTS[node.op] * directions
    alphas, betas = list(node.get("activation_alpha", [])), list(node.get("activation_beta", []))
    clip = node.get("clip")
    made = [
        Activation(
            scope,
            name,
            float(alphas[i]) if i < len(alphas) else None,
            float(betas[i]) if i < len(betas) else None,
            float(clip) if clip is not None else None,
        )
        for i, name in enumerate(names)
    ]
    count = len(made) // directions
    return [made[i * count : (i + 1) * count] for i in range(directions)]


@handles("LSTM", "GRU", "RNN")
def recurrent(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """A recurrent layer in one or two directions; sequences have equal or individual lengths."""
    x, w, r = (scope.get(node, i) for i in range(3))
    swapped = [1, 0, 2] if node.integer("layout") else [0, 1, 2]
    x = scope.transpose(x, swapped)
    steps, batch, _ = x.shape
    if steps < 1:
        raise Unsupported("a recurrent operator over a sequence of 0 steps")
    directions, hidden = w.shape[0], r.shape[2]
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[
        node.text("direction", "forward")
    ]
    functions = activations(scope, node, directions)
    states = [scope.get(node, i) for i in ((5, 6) if node.op == "LSTM" else (5,))]
    states = [None if state is None else scope.transpose(state, swapped) for state in states]
    zero = scope.broadcast(scope.like(0, x), [batch, hidden])
    found = []
    for i, turned in enumerate(backwards):
        before = [zero if state is None else pick(scope, state, i) for state in states]
        bias, holes = pick(scope, scope.get(node, 3), i), pick(scope, scope.get(node, 7), i)
        half = GATES[node.op] * hidden
        outer, back = (None if bias is None else scope.along(bias, 0, at, at + half) for at in (0, half))
        # one product computes the input part of all gates for all steps
        given = scope.op("contract", x, pick(scope, w, i), outer, a_contract=[2], b_contract=[1])
        fixed = [one for one in (pick(scope, r, i), back, holes) if one is not None]
        cell = CELLS[node.op](scope, node, functions[i], bias is not None)
        found.append(
            over_steps(scope.builder, given, before, fixed, cell, turned, scope.get(node, 4), node.path or node.op)
        )
    y = scope.concat([scope.reshape(results, [steps, 1, batch, hidden]) for results, _ in found], 1)
    lasts = [
        scope.concat([scope.reshape(after[k], [1, batch, hidden]) for _, after in found], 0) for k in range(len(states))
    ]
    if node.integer("layout"):
        y, lasts = scope.transpose(y, [2, 0, 1, 3]), [scope.transpose(last, swapped) for last in lasts]
    return [y, *lasts][: max(1, len(node.outputs))]


def pick(scope: OnnxScope, tensor: Tensor | None, index: int) -> Any:
    """The part of a weight for one direction."""
    return None if tensor is None else scope.reshape(scope.along(tensor, 0, index, index + 1), tensor.shape[1:])


def inside(scope: OnnxScope, b: GraphBuilder, act: list[Activation]) -> list[Activation]:
    """The activations for use inside the function of a step."""
    inner = OnnxScope(scope.model, b)
    return [Activation(inner, one.name, one.alpha, one.beta, one.clip) for one in act]


def rnn_cell(scope: OnnxScope, node: OnnxNode, act: list[Activation], biased: bool) -> Cell:
    """The cell H = f(X W + H R + b)."""

    def cell(b: GraphBuilder, row: Tensor, states: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        return [inside(scope, b, act)[0](row + projected(b, states[0], *fixed))]

    return cell


def gru_cell(scope: OnnxScope, node: OnnxNode, act: list[Activation], biased: bool) -> Cell:
    """The GRU cell, whose gates are in the order update, reset, hidden."""
    late = node.integer("linear_before_reset")

    def cell(b: GraphBuilder, row: Tensor, states: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        f, g = inside(scope, b, act)
        (h,), hidden = states, states[0].shape[1]
        outer = parts(row, 3)
        # a hidden gate that reads the state after the reset needs a separate matrix product
        cut = 3 * hidden if late else 2 * hidden
        inner = parts(projected(b, h, *(one[:cut] for one in fixed)), cut // hidden)
        update, reset = f(outer[0] + inner[0]), f(outer[1] + inner[1])
        last = reset * inner[2] if late else projected(b, reset * h, *(one[cut:] for one in fixed))
        new = g(outer[2] + last)
        return [(1.0 - update) * new + update * h]

    return cell


def lstm_cell(scope: OnnxScope, node: OnnxNode, act: list[Activation], biased: bool) -> Cell:
    """The LSTM cell: gates in the order input, output, forget, cell; peepholes input, output, forget."""
    coupled = node.integer("input_forget")

    def cell(b: GraphBuilder, row: Tensor, states: list[Tensor], fixed: list[Tensor]) -> list[Tensor]:
        f, g, last = inside(scope, b, act)
        h, c = states
        holes = parts(fixed[-1], 3) if len(fixed) > 1 + biased else None
        sums = parts(row + projected(b, h, *fixed[: 1 + biased]), 4)

        def peek(i: int, state: Tensor) -> Tensor:
            return sums[i] + holes[i] * state if holes else sums[i]

        i = f(peek(0, c))
        new = (1.0 - i if coupled else f(peek(2, c))) * c + i * g(sums[3])
        return [f(peek(1, new)) * last(new), new]

    return cell


CELLS = {"LSTM": lstm_cell, "GRU": gru_cell, "RNN": rnn_cell}
