"""Recurrent operators of ONNX, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._core import Unsupported
from ...graph.tensor import Tensor
from .scope import Node, OnnxScope, Value, handles

STEPS = 1024  # of a sequence
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


class Activation:
    """Activations of a node by name, with their numbers."""

    def __init__(
        self, scope: OnnxScope, name: str, alpha: float | None, beta: float | None, clip: float | None
    ) -> None:
        """Holds one activation.

        Args:
            scope: where it is built.
            name: as in the node.
            alpha: its first number.
            beta: its second.
            clip: bound of its operand.
        """
        self.scope, self.name, self.alpha, self.beta, self.clip = scope, name.lower(), alpha, beta, clip

    def __call__(self, x: Tensor) -> Tensor:
        """The value of the activation at x."""
        scope = self.scope
        if self.clip is not None:
            x = scope.apply("clamp", scope.like(-self.clip, x), x, scope.like(self.clip, x))
        if self.name in ("sigmoid", "tanh", "relu", "softplus"):
            return scope.apply(self.name, x)
        zero = scope.like(0, x)
        if self.name == "leakyrelu":
            slope = x * (0.01 if self.alpha is None else self.alpha)
            return scope.apply("select", scope.apply("less", x, zero), slope, x)
        if self.name == "thresholdedrelu":
            limit = scope.like(1.0 if self.alpha is None else self.alpha, x)
            return scope.apply("select", scope.apply("greater", x, limit), x, zero)
        if self.name == "hardsigmoid":
            y = x * (0.2 if self.alpha is None else self.alpha) + (0.5 if self.beta is None else self.beta)
            return scope.apply("clamp", zero, y, scope.like(1, x))
        if self.name == "elu":
            low = scope.apply("expm1", x) * (1.0 if self.alpha is None else self.alpha)
            return scope.apply("select", scope.apply("less", x, zero), low, x)
        if self.name == "affine":
            return x * (1.0 if self.alpha is None else self.alpha) + (0.0 if self.beta is None else self.beta)
        if self.name == "scaledtanh":
            return scope.apply("tanh", x * (1.0 if self.beta is None else self.beta)) * (self.alpha or 1.0)
        if self.name == "softsign":
            return x / (scope.apply("abs", x) + 1.0)
        raise Unsupported(f"activation '{self.name}' of a recurrent operator")


def activations(scope: OnnxScope, node: Node, directions: int) -> list[list[Activation]]:
    """Activations per direction."""
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
def recurrent(scope: OnnxScope, node: Node) -> Sequence[Value]:
    """One, or two directions; sequences of one length, or of lengths of their own."""
    x, w, r = (scope.get(node, i) for i in range(3))
    if node.integer("layout"):
        x = scope.transpose(x, [1, 0, 2])
    steps, batch, _ = x.shape
    if not 0 < steps <= STEPS:
        raise Unsupported(f"a sequence of {steps} steps: 1 to {STEPS}")
    directions, hidden = w.shape[0], r.shape[2]
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[
        node.text("direction", "forward")
    ]
    functions = activations(scope, node, directions)
    outputs, lasts, cells = [], [], []
    for i, turned in enumerate(backwards):
        found = direction(scope, node, x, i, turned, functions[i], (batch, hidden))
        outputs.append(found[0])
        lasts.append(found[1])
        cells.append(found[2])
    y = scope.concat([scope.reshape(out, [steps, 1, batch, hidden]) for out in outputs], 1)
    results: list[Tensor] = [y]
    results += [
        scope.concat([scope.reshape(part, [1, batch, hidden]) for part in group], 0)
        for group in (lasts, cells)
        if group[0] is not None
    ]
    if node.integer("layout"):
        results = [scope.transpose(results[0], [2, 0, 1, 3]), *(scope.transpose(x, [1, 0, 2]) for x in results[1:])]
    return results[: max(1, len(node.outputs))]


def pick(scope: OnnxScope, tensor: Tensor | None, index: int) -> Tensor | None:
    """One direction of a weight."""
    if tensor is None:
        return None
    part = scope.along(tensor, 0, index, index + 1)
    return scope.reshape(part, tensor.shape[1:])


def direction(
    scope: OnnxScope, node: Node, x: Tensor, index: int, turned: bool, act: list[Activation], size: tuple[int, int]
) -> tuple[Tensor, Tensor, Any]:
    """All steps of one direction: outputs per step, last hidden state, last cell."""
    batch, hidden = size
    steps, gates = x.shape[0], GATES[node.op]
    w, r, b = (pick(scope, scope.get(node, i), index) for i in (1, 2, 3))
    lengths = scope.get(node, 4)
    zero = scope.broadcast(scope.like(0, x), [batch, hidden])
    initial = scope.get(node, 5)
    if initial is not None and node.integer("layout"):
        initial = scope.transpose(initial, [1, 0, 2])
    h = pick(scope, initial, index)
    h = zero if h is None else h
    c: Any = None
    peephole = None
    if node.op == "LSTM":
        cell = scope.get(node, 6)
        if cell is not None and node.integer("layout"):
            cell = scope.transpose(cell, [1, 0, 2])
        c = pick(scope, cell, index)
        c = zero if c is None else c
        peephole = pick(scope, scope.get(node, 7), index)
    bias = [scope.along(b, 0, i * hidden, (i + 1) * hidden) for i in range(2 * gates)] if b is not None else None
    # the part of all gates that no step waits for is one product
    ahead = scope.op("contract", x, w, a_contract=[2], b_contract=[1])
    cell_step: Callable[..., Any] = {"LSTM": lstm_step, "GRU": gru_step, "RNN": rnn_step}[node.op]
    outputs: dict[int, Tensor] = {}
    for step in range(steps):
        at = steps - 1 - step if turned else step
        now = scope.reshape(scope.along(ahead, 0, at, at + 1), [batch, gates * hidden])
        parts = [scope.along(now, 1, i * hidden, (i + 1) * hidden) for i in range(gates)]
        new_h, new_c = cell_step(scope, node, parts, h, c, r, bias, peephole, act)
        if lengths is not None:
            wide = scope.reshape(lengths, [batch, 1])
            inside = scope.apply("greater", wide, scope.scalar(at, wide.dtype))
            outputs[at] = scope.apply("select", inside, new_h, zero)
            new_h = scope.apply("select", inside, new_h, h)
            new_c = scope.apply("select", inside, new_c, c) if c is not None else None
        else:
            outputs[at] = new_h
        h, c = new_h, new_c
    whole = scope.concat([scope.reshape(outputs[at], [1, batch, hidden]) for at in range(steps)], 0)
    return whole, h, c


def back(scope: OnnxScope, h: Tensor, r: Tensor, gate: int, hidden: int) -> Tensor:
    """h times the recurrence weights of one gate."""
    part = scope.along(r, 0, gate * hidden, (gate + 1) * hidden)
    result: Tensor = scope.op("contract", h, part, a_contract=[1], b_contract=[1])
    return result


def gate_sum(scope: OnnxScope, ahead: Tensor, behind: Tensor, bias: Any, gate: int, gates: int) -> Tensor:
    """What a gate's activation gets."""
    total = scope.apply("add", ahead, behind)
    if bias is not None:
        total = scope.apply("add", total, scope.apply("add", bias[gate], bias[gates + gate]))
    return total


def rnn_step(
    scope: OnnxScope, node: Node, parts: list[Tensor], h: Tensor, c: Any, r: Any, bias: Any, p: Any, act: Any
) -> Any:
    """H = f(X W + H R + b)."""
    return act[0](gate_sum(scope, parts[0], back(scope, h, r, 0, h.shape[1]), bias, 0, 1)), None


def gru_step(
    scope: OnnxScope, node: Node, parts: list[Tensor], h: Tensor, c: Any, r: Any, bias: Any, p: Any, act: Any
) -> Any:
    """Gates update, reset, hidden."""
    hidden = h.shape[1]
    z = act[0](gate_sum(scope, parts[0], back(scope, h, r, 0, hidden), bias, 0, 3))
    reset = act[0](gate_sum(scope, parts[1], back(scope, h, r, 1, hidden), bias, 1, 3))
    if node.integer("linear_before_reset"):
        inner = back(scope, h, r, 2, hidden)
        inner = scope.apply("add", inner, bias[5]) if bias is not None else inner
        total = scope.apply("add", parts[2], scope.apply("multiply", reset, inner))
    else:
        total = scope.apply("add", parts[2], back(scope, scope.apply("multiply", reset, h), r, 2, hidden))
        total = scope.apply("add", total, bias[5]) if bias is not None else total
    total = scope.apply("add", total, bias[2]) if bias is not None else total
    new = act[1](total)
    keep = scope.apply("multiply", z, h)
    one = scope.like(1, z)
    return scope.apply("add", scope.apply("multiply", scope.apply("subtract", one, z), new), keep), None


def lstm_step(
    scope: OnnxScope, node: Node, parts: list[Tensor], h: Tensor, c: Any, r: Any, bias: Any, p: Any, act: Any
) -> Any:
    """Gates input, output, forget, cell; peepholes input, output, forget."""
    hidden = h.shape[1]
    sums = [gate_sum(scope, parts[i], back(scope, h, r, i, hidden), bias, i, 4) for i in range(4)]
    holes = [scope.along(p, 0, i * hidden, (i + 1) * hidden) for i in range(3)] if p is not None else None

    def peek(i: int, cell: Tensor) -> Tensor:
        return scope.apply("add", sums[i], scope.apply("multiply", holes[i], cell)) if holes is not None else sums[i]

    i = act[0](peek(0, c))
    forget = scope.apply("subtract", scope.like(1, i), i) if node.integer("input_forget") else act[0](peek(2, c))
    new = scope.apply("add", scope.apply("multiply", forget, c), scope.apply("multiply", i, act[1](sums[3])))
    o = act[0](peek(1, new))
    return scope.apply("multiply", o, act[2](new)), new
