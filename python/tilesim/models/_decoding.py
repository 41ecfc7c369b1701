"""Parts that language models share: phases, caches, one function per layer type, rotary positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..base.errors import nearest, user_error
from ..graph import Graph, GraphBuilder, Tensor
from ._layers import Weight, create, declare


@dataclass(frozen=True)
class ModelRun:
    """The tokens that a model reads in one run, and the length of its caches."""

    batch: int
    context: int
    decode: bool

    @property
    def tokens(self) -> int:
        """Number of tokens per sequence that the layers process."""
        return 1 if self.decode else self.context

    def cached(self, window: int = 0) -> int:
        """Number of tokens in a cache, with the new one's slot; 0 in prefill."""
        if not self.decode:
            return 0
        return min(self.context, window) if window else self.context


def check_run(model: str, limit: int, batch: int, context: int, phase: str) -> ModelRun:
    place = f"model '{model}'"
    if phase not in ("prefill", "decode"):
        raise user_error("unknown phase", place=place, value=f"'{phase}'", allowed="prefill, decode",
                         suggestion=nearest(phase, ("prefill", "decode")))  # fmt: skip
    if not 1 <= context <= limit:
        raise user_error("the context does not fit the model", place=place, value=str(context),
                         allowed=f"1 to {limit} tokens")  # fmt: skip
    return ModelRun(batch, context, phase == "decode")


@dataclass(frozen=True)
class Yarn:
    """Stretches rotary positions (Peng et al., ICLR 2024): slow frequencies are divided by `factor`."""

    factor: float
    original: int
    fast: float = 32.0
    slow: float = 1.0


def _frequencies(width: int, base: float, yarn: Yarn | None) -> np.ndarray:
    exponents = np.arange(0, width, 2, dtype=np.float32) / np.float32(width)
    plain = (np.float32(1.0) / np.float32(base) ** exponents).astype(np.float32)
    if yarn is None:
        return plain

    def turns(count: float) -> float:
        """Returns the dimension that rotates by this many turns over the original context."""
        return width * math.log(yarn.original / (count * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(turns(yarn.fast)), 0), min(math.ceil(turns(yarn.slow)), width - 1)
    ramp = np.clip((np.arange(width // 2, dtype=np.float32) - low) / max(high - low, 0.001), 0, 1)
    result: np.ndarray = (plain / np.float32(yarn.factor) * ramp + plain * (1 - ramp)).astype(np.float32)
    return result


def rotary_tables(positions: range, width: int, base: float, yarn: Yarn | None = None) -> dict[str, np.ndarray]:
    """The cosine and sine of position · frequency, each frequency twice: [positions, width] (Su et al., 2021)."""
    angles = np.asarray(positions, np.float32)[:, None] * _frequencies(width, base, yarn)
    angles = np.concatenate([angles, angles], axis=1)
    return {"rotary.cos": np.cos(angles), "rotary.sin": np.sin(angles)}


def pairs_to_halves(x: Tensor) -> Tensor:
    """Reorders [x0, x1, x2, x3, ...] to [x0, x2, ..., x1, x3, ...] along the last axis of [B, H, S, D]."""
    *lead, width = x.shape
    return x.reshape(*lead, width // 2, 2).transpose(0, 1, 2, 4, 3).reshape(*lead, width)


class Layer:
    """A function of the graph: (x, tables..., caches..., weights...) -> (y, caches...).

    Subclasses list the weights and caches and build the body.
    """

    def __init__(
        self,
        parent: GraphBuilder,
        name: str,
        run: ModelRun,
        width: int,
        tables: Mapping[str, tuple[int, ...]],
        caches: Mapping[str, tuple[int, ...]],
        weights: Sequence[Weight],
    ) -> None:
        self.b, self.run, self.weights = parent.function(name), run, list(weights)
        self.cache_shapes = dict(caches)
        x = self.b.input("x", (run.batch, run.tokens, width))
        self.tables = {key: self.b.input(key, shape) for key, shape in tables.items()}
        self.past = {key: self.b.input(key, shape) for key, shape in caches.items()} if run.decode else {}
        self.w = declare(self.b, self.weights)
        y, kept = self.body(x)
        self.b.output(y, "y")
        for key, tensor in kept.items():
            self.b.output(tensor, f"new.{key}")

    def body(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The layer's result, and the caches after it."""
        raise NotImplementedError

    def rotate(self, x: Tensor) -> Tensor:
        """Applies rotary positions to the halves of [B, H, S, D]."""
        half = x.shape[-1] // 2
        turned = self.b.concat([-x[..., half:], x[..., :half]], axis=3)
        return x * self.tables["rotary.cos"] + turned * self.tables["rotary.sin"]

    def norm(self, x: Tensor, name: str, epsilon: float) -> Tensor:
        y: Tensor = self.b.op(
            "normalize", x, self.w[f"{name}.weight"], mode="rms", dims=[x.ndim - 1], epsilon=epsilon, name=name
        )
        return y

    def linear(self, x: Tensor, name: str) -> Tensor:
        return self.b.project(x, self.w[f"{name}.weight"], self.w.get(f"{name}.bias"), name=name)

    def gated(self, x: Tensor, name: str) -> Tensor:
        """Computes down(silu(gate(x)) · up(x))."""
        gate = self.b.apply("silu", self.linear(x, f"{name}.gate_proj"), name=f"{name}.act_fn")
        hidden = self.b.apply("multiply", gate, self.linear(x, f"{name}.up_proj"), name=f"{name}.gated")
        return self.linear(hidden, f"{name}.down_proj")

    def store(self, key: str, new: Tensor) -> Tensor:
        """Writes the new token [B, H, 1, D] into the last slot of a cache; in prefill the new tokens are the cache."""
        if not self.past:
            return new
        zero, slot = self.b.scalar(0, "i32"), self.b.scalar(self.past[key].shape[2] - 1, "i32")
        kept: Tensor = self.b.op("dynamic_update", self.past[key], new, zero, zero, slot, zero, name=f"cache.{key}")
        return kept


def linear_weight(name: str, inputs: int, outputs: int, gain: float = 1.0, bias: bool = False) -> list[Weight]:
    weight = Weight(f"{name}.weight", (outputs, inputs), gain * math.sqrt(3 / inputs))
    return [weight, Weight(f"{name}.bias", (outputs,))] if bias else [weight]


def gated_weights(name: str, width: int, hidden: int, gain: float) -> list[Weight]:
    return [
        *linear_weight(f"{name}.gate_proj", width, hidden),
        *linear_weight(f"{name}.up_proj", width, hidden),
        *linear_weight(f"{name}.down_proj", hidden, width, gain),
    ]


def attention_weights(width: int, queries: int, keys: int, gain: float, bias: bool = False) -> list[Weight]:
    """Weights of both norms of a layer and of its attention's projections."""
    return [
        Weight("input_layernorm.weight", (width,), 0.1, 1.0),
        *linear_weight("self_attn.q_proj", width, queries, bias=bias),
        *linear_weight("self_attn.k_proj", width, keys, bias=bias),
        *linear_weight("self_attn.v_proj", width, keys, bias=bias),
        *linear_weight("self_attn.o_proj", queries, width, gain),
        Weight("post_attention_layernorm.weight", (width,), 0.1, 1.0),
    ]


@dataclass(frozen=True)
class Head:
    """The parts around the layers: embedding, last norm and output projection."""

    name: str
    vocabulary: int
    width: int
    epsilon: float
    tied: bool = False
    embedding: str = "model.embed_tokens"
    layers: str = "model.layers"
    norm: str = "model.norm"


def assemble(
    head: Head,
    run: ModelRun,
    dtype: str,
    types: Sequence[str],
    make: Callable[[GraphBuilder, str], Layer],
    tables: Mapping[str, np.ndarray],
) -> Graph:
    """Embedding, layers (one function per type, in the order of `types`), norm and output projection.

    Inputs input_ids and past.<layer>.<cache>, outputs logits and cache.<layer>.<cache>; see `decoder.decoder`.
    """
    b = GraphBuilder(head.name, dtype=dtype)
    ids = b.input("input_ids", (run.batch, run.tokens), "i32")
    made = {kind: make(b, kind) for kind in dict.fromkeys(types)}
    caches = [
        [b.input(f"past.{i}.{key}", shape) for key, shape in made[kind].cache_shapes.items()] if run.decode else []
        for i, kind in enumerate(types)
    ]
    table = b.weight(f"{head.embedding}.weight", (head.vocabulary, head.width), scale=0.035)
    x: Tensor = b.op("embedding", table, ids, name=head.embedding)
    shared = {key: b.weight(key, data=values, trainable=False).convert(b.dtype) for key, values in tables.items()}
    kept: list[tuple[str, Tensor]] = []
    for i, kind in enumerate(types):
        layer, prefix = made[kind], f"{head.layers}.{i}"
        used = [shared[key] for key in layer.tables]
        found = b.call(layer.b, x, *used, *caches[i], *create(b, prefix, layer.weights), name=prefix)
        x = found[0]
        kept += zip((f"cache.{i}.{key}" for key in layer.cache_shapes), found[1:], strict=True)
    scale = b.weight(f"{head.norm}.weight", (head.width,), scale=0.1, offset=1.0)
    x = b.op("normalize", x, scale, mode="rms", dims=[2], epsilon=head.epsilon, name=head.norm)
    if not head.tied:
        table = b.weight("lm_head.weight", (head.vocabulary, head.width), scale=math.sqrt(3 / head.width))
    b.output(b.project(x, table, name="lm_head"), "logits")
    for i, (name, tensor) in enumerate(kept):
        b.output(tensor, name)
        if run.decode:
            b.alias(1 + i, 1 + i)
    return b.build()
