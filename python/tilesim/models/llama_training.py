"""A training step of a Llama-like decoder as one sharded graph: forward pass, backward pass, update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import unknown
from ..graph import Graph, GraphBuilder, Tensor
from ..graph.gradient import gradient
from .layered import Layered

__all__ = ["LLAMA3", "llama3", "llama_training_step", "written"]

#: layers, hidden, ffn, heads of the public modules behind the measured steps of HESPAS (arXiv 2604.12090); head size
#: 128, vocabulary 128,256, 4,096 tokens, one sequence per device, no key sharing
LLAMA3 = {
    "llama3-100m": (7, 576, 2016, 9),
    "llama3-200m": (10, 832, 2912, 13),
    "llama3-500m": (16, 1280, 4480, 20),
    "llama3-1b": (22, 1792, 6272, 28),
    "llama3-2b": (28, 2240, 7840, 35),
    "llama3-3b": (32, 2624, 9184, 41),
}

#: weight of a layer -> names of its extents
_WEIGHTS = {
    "q": ("hidden", "attended"), "k": ("hidden", "attended"), "v": ("hidden", "attended"), "o": ("attended", "hidden"),
    "gate": ("hidden", "ffn"), "up": ("hidden", "ffn"), "down": ("ffn", "hidden"),
    "norm1": ("hidden",), "norm2": ("hidden",),
}  # fmt: skip


def llama3(name: str, devices: int) -> Graph:
    """A training step of one of `LLAMA3` with one sequence per device."""
    if name not in LLAMA3:
        raise unknown("model", name, LLAMA3, place="model")
    layers, hidden, ffn, heads = LLAMA3[name]
    return llama_training_step(
        Layered(layers, hidden, heads, 128256, 4096, devices, ffn, True, heads, 128, tied=False, attention="unfused",
                name=name), devices,
    )  # fmt: skip


def llama_training_step(shape: Layered, devices: int = 1) -> Graph:
    """The step of a model without key sharing, as JAX runs it: the backward pass reuses the products of weights and
    recomputes everything between them (including attention, which stores its scores); the embedding is a product with
    one-hot rows; logits are f32; AdamW keeps both moments in the dtype of the parameters.
    """
    return _LlamaStep(shape, devices).build()


class _LlamaStep:
    def __init__(self, shape: Layered, devices: int) -> None:
        self.shape, self.devices = shape, devices
        self.b = GraphBuilder(shape.name, dtype=shape.dtype)
        self.size = {"hidden": shape.hidden, "attended": shape.heads * shape.head_size, "ffn": shape.ffn}
        self.gradients: dict[str, Tensor] = {}
        self.weights: dict[str, Tensor] = {}
        self.products = 0
        self.names: list[str] = []  # names of the inputs
        self.outputs: list[str] = []  # inputs that outputs after the loss overwrite
        self.divided: dict[str, str] = {}
        self.pieces: dict[str, tuple[Graph, Graph]] = {}

    def build(self) -> Graph:
        b, shape = self.b, self.shape
        tokens, targets = (self.divide(b.input(name, (shape.global_batch, shape.sequence), "i32"), name)
                           for name in ("tokens", "targets"))  # fmt: skip
        table, head = self.weight("embedding", (shape.vocab, shape.hidden)), None
        one_hot = self.one_hot(tokens)
        x = self.product(one_hot, table)
        kept = []
        for layer in range(shape.layers):
            x, saved = self.forward(x, f"layer{layer}")
            kept.append(saved)
        scale, head = self.weight("norm", (shape.hidden,)), self.weight("head", (shape.hidden, shape.vocab))
        (last,) = self.run("norm", {"x": x, "scale": scale}, ["y"])
        dlogits, loss = self.loss(self.product(last, head), targets)
        self.gradients["head"] = self.by_weight(last, dlogits)
        back = self.back("norm", {"x": x, "scale": scale}, self.by_operand(dlogits, head), ["x", "scale"])
        self.gradients["norm"], grad = back["scale"], back["x"]
        for layer in reversed(range(shape.layers)):
            grad = self.backward(grad, f"layer{layer}", kept[layer])
        self.gradients["embedding"] = self.by_weight(one_hot, grad)
        b.output(loss, "loss")
        for name, weight in self.weights.items():
            self.update(name, weight, self.gradients[name])
        for number, name in enumerate(self.outputs, 1):
            b.alias(number, self.names.index(name))
        if self.devices == 1:
            return b.build()
        return b.build(shardings=self.divided, mesh={"d": self.devices})

    def divide(self, x: Tensor, name: str) -> Tensor:
        """Annotates an input or output as sharded along its first axis."""
        self.divided[name] = '[{"d"}' + ", {}" * (x.ndim - 1) + "]"
        if not name.startswith("new."):
            self.names.append(name)
        return x

    def weight(self, name: str, extents: tuple[int, ...]) -> Tensor:
        self.weights[name] = self.divide(self.b.input(name, extents), name)
        return self.weights[name]

    def one_hot(self, tokens: Tensor) -> Tensor:
        b, vocab = self.b, self.shape.vocab
        wide = (*tokens.shape, vocab)
        numbers = b.op("iota", shape=list(wide), dim=2, dtype="i32")
        repeated = b.broadcast(tokens.reshape(*tokens.shape, 1), wide)
        return b.apply("equal", repeated, numbers).convert(self.shape.dtype)

    # pieces between products of weights: computed in the forward pass, and again with gradients in the backward pass

    def piece(self, name: str, inputs: Mapping[str, Tensor]) -> tuple[Graph, Graph]:
        if name not in self.pieces:
            b = GraphBuilder(name, dtype=self.shape.dtype)
            x = {key: b.input(key, value.shape, value.dtype) for key, value in inputs.items()}
            made: dict[str, Tensor] = getattr(self, f"_{name}")(b, **x)
            for key, value in made.items():
                b.output(value, key)
            plain = b.build()
            floats = [key for key, value in inputs.items() if value.dtype != "i32"]
            self.pieces[name] = plain, gradient(plain, "y", floats)
        return self.pieces[name]

    def run(self, name: str, inputs: Mapping[str, Tensor], outputs: list[str]) -> list[Tensor]:
        found = written(self.b, self.piece(name, inputs)[0], inputs)
        return [found[key] for key in outputs]

    def back(self, name: str, inputs: Mapping[str, Tensor], grad: Tensor, wanted: list[str]) -> dict[str, Tensor]:
        found = written(self.b, self.piece(name, inputs)[1], {**inputs, "d.y": grad})
        return {key: found[f"d.{key}"] for key in wanted}

    def _norm(self, b: GraphBuilder, x: Tensor, scale: Tensor) -> dict[str, Tensor]:
        wide = x.convert("f32")
        mean = (wide * wide).mean(-1, keep_dims=True)
        return {"y": (wide * b.apply("rsqrt", mean + 1e-5)).convert(x.dtype) * scale}

    def _attention(self, b: GraphBuilder, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
        """Computes attention that stores the scores of all heads; mask and softmax are in f32."""
        batch, length, _ = q.shape
        heads, size = self.shape.heads, self.shape.head_size

        def split(x: Tensor) -> Tensor:
            return x.reshape(batch, length, heads, size).transpose(0, 2, 1, 3)

        def turned(x: Tensor) -> Tensor:
            half = x.shape[-1] // 2
            left, right = x[..., :half], x[..., half:]
            return x * cos + b.concat([-right, left], 3) * sin

        where = b.op("iota", shape=[length, size], dim=0, dtype="f32")
        each = b.op("iota", shape=[length, size], dim=1, dtype="f32")
        angle = where * b.apply("exp", each * (-18.4 / size))  # the frequencies have a base of 10^8 over both halves
        cos, sin = (b.apply(name, angle).convert(q.dtype) for name in ("cos", "sin"))
        scores = turned(split(q)) @ turned(split(k)).transpose(0, 1, 3, 2)
        row, column = (b.op("iota", shape=[length, length], dim=dim, dtype="i32") for dim in (0, 1))
        hidden = b.apply("greater", column, row)
        masked = b.apply("select", hidden, b.scalar(-1e9, "f32"), scores.convert("f32") * size**-0.5)
        top = masked.max(-1, keep_dims=True)
        part = b.apply("exp", masked - top)
        share = (part / part.sum(-1, keep_dims=True)).convert(q.dtype)
        return {"y": (share @ split(v)).transpose(0, 2, 1, 3).reshape(*q.shape)}

    def _gated(self, b: GraphBuilder, gate: Tensor, up: Tensor) -> dict[str, Tensor]:
        return {"y": b.apply("silu", gate) * up}

    def forward(self, x: Tensor, name: str) -> tuple[Tensor, dict[str, Tensor]]:
        w = {key: self.weight(f"{name}.{key}", tuple(self.size[one] for one in extents))
             for key, extents in _WEIGHTS.items()}  # fmt: skip
        (h,) = self.run("norm", {"x": x, "scale": w["norm1"]}, ["y"])
        saved = {"x": x, **{key: self.product(h, w[key]) for key in "qkv"}}
        (a,) = self.run("attention", {key: saved[key] for key in "qkv"}, ["y"])
        saved["middle"] = x + self.product(a, w["o"])
        (h,) = self.run("norm", {"x": saved["middle"], "scale": w["norm2"]}, ["y"])
        saved |= {key: self.product(h, w[key]) for key in ("gate", "up")}
        (m,) = self.run("gated", {key: saved[key] for key in ("gate", "up")}, ["y"])
        return saved["middle"] + self.product(m, w["down"]), saved

    def backward(self, grad: Tensor, name: str, saved: dict[str, Tensor]) -> Tensor:
        w = {key: self.weights[f"{name}.{key}"] for key in _WEIGHTS}

        def through(key: str, operand: Tensor, of: Tensor) -> Tensor:
            self.gradients[f"{name}.{key}"] = self.by_weight(operand, of)
            return self.by_operand(of, w[key])

        gated = {key: saved[key] for key in ("gate", "up")}
        (m,) = self.run("gated", gated, ["y"])
        by = self.back("gated", gated, through("down", m, grad), ["gate", "up"])
        norm = {"x": saved["middle"], "scale": w["norm2"]}
        (h,) = self.run("norm", norm, ["y"])
        by = self.back("norm", norm, through("gate", h, by["gate"]) + through("up", h, by["up"]), ["x", "scale"])
        self.gradients[f"{name}.norm2"], grad = by["scale"], grad + by["x"]
        attention = {key: saved[key] for key in "qkv"}
        (a,) = self.run("attention", attention, ["y"])
        by = self.back("attention", attention, through("o", a, grad), ["q", "k", "v"])
        norm = {"x": saved["x"], "scale": w["norm1"]}
        (h,) = self.run("norm", norm, ["y"])
        of = through("q", h, by["q"]) + through("k", h, by["k"]) + through("v", h, by["v"])
        by = self.back("norm", norm, of, ["x", "scale"])
        self.gradients[f"{name}.norm1"] = by["scale"]
        return grad + by["x"]

    def by_weight(self, x: Tensor, grad: Tensor) -> Tensor:
        return self.b.op("contract", x, grad, a_batch=[], b_batch=[], a_contract=[0, 1], b_contract=[0, 1])

    def by_operand(self, grad: Tensor, weight: Tensor) -> Tensor:
        return self.product(grad, weight, 1)

    def product(self, x: Tensor, weight: Tensor, axis: int = 0) -> Tensor:
        """Multiplies activations by a weight: the batch stays sharded, and the weight is gathered."""
        self.products += 1
        name = f"product{self.products}"
        self.divided[name] = '[{"d"}, {}, {}]'
        return self.b.op("contract", x, weight, a_batch=[], b_batch=[], a_contract=[2], b_contract=[axis], name=name)

    def loss(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Computes cross entropy of f32 logits, the mean over all tokens, and its gradient."""
        b, wide = self.b, logits.convert("f32")
        top = wide.max(-1, keep_dims=True)
        part = b.apply("exp", wide - top)
        total = part.sum(-1, keep_dims=True)
        chosen = self.one_hot(targets).convert("f32")
        tokens = float(targets.shape[0] * targets.shape[1])
        each = b.apply("log", total) + top - (wide * chosen).sum(-1, keep_dims=True)
        return ((part / total - chosen) / tokens).convert(logits.dtype), each.sum([0, 1, 2]) / tokens

    def update(self, name: str, weight: Tensor, grad: Tensor) -> None:
        b = self.b
        first, second = (self.divide(b.input(f"{name}.{key}", weight.shape), f"{name}.{key}") for key in ("m", "v"))
        m, v = first * 0.9 + grad * 0.1, second * 0.95 + grad * grad * 0.05
        new = weight - (m / (b.apply("sqrt", v) + 1e-8) + weight * 0.1) * 3e-5
        for key, value in (("", new), (".m", m), (".v", v)):
            b.output(value, f"new.{name}{key}")
            self.outputs.append(f"{name}{key}")
            self.divide(value, f"new.{name}{key}")


def written(b: GraphBuilder, graph: Graph, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Writes a graph's operations with tensors of another builder."""
    values: dict[str, Any] = dict(inputs)
    for row in graph.operations():
        if row["kind"] == "constant":
            name = row["attributes"]["reference"]
            values[row["name"]] = b.scalar(float(graph.core.weight(name).item()), row["results"][0]["dtype"])
            continue
        operands = [None if one is None or not one["name"] else values[one["name"]] for one in row["operands"]]
        found = b.op(row["kind"], *operands, results=max(1, len(row["results"])), **row["attributes"])
        made = list(found) if isinstance(found, tuple) else [found]
        values.update({one["name"]: tensor for one, tensor in zip(row["results"], made, strict=True)})
    return {row["name"]: values[row["name"]] for row in graph.outputs}
