"""Mamba (Gu, Dao, 2023): layers with a state instead of attention.

Prefill runs a loop over tokens (kind while), as the published kernel does on chip. Decode makes one step from the state
and the last inputs of the convolution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..graph import Graph, GraphBuilder, Tensor
from ._decoding import Head, Layer, ModelRun, assemble, check_run
from ._layers import Weight
from ._network import network

__all__ = ["MambaConfig", "mamba", "mamba_2_8b"]


@dataclass(frozen=True)
class MambaConfig:
    """Sizes. `inner`: channels of a layer; `rank`: rank of the projection to time steps."""

    name: str
    vocabulary: int
    width: int
    layers: int
    inner: int
    rank: int
    state: int = 16
    kernel: int = 4
    epsilon: float = 1e-5
    limit: int = 1 << 20


MAMBA_2_8B = MambaConfig("mamba-2.8b", 50280, 2560, 64, 5120, 160)


def _step(
    b: GraphBuilder, state: Tensor, u: Tensor, dt: Tensor, keys: Tensor, queries: Tensor, a: Tensor
) -> tuple[Tensor, Tensor]:
    """state ← exp(dt·A)·state + dt·u·B, and C·state: [B, I, N], [B, I] from [B, I], [B, I], [B, N], [B, N], [I, N]."""
    batch, inner, size = state.shape
    steps = dt.reshape(batch, inner, 1)
    entering = (dt * u).reshape(batch, inner, 1) * keys.reshape(batch, 1, size)
    state = b.apply("exp", steps * a) * state + entering
    y: Tensor = b.op("contract", state, queries, a_batch=[0], b_batch=[0], a_contract=[2], b_contract=[1], name="read")
    return state, y


class _Scan:
    """The loop over tokens with state (token, state, u, dt, keys, queries, A, result); u to A are invariant."""

    def __init__(self, parent: GraphBuilder, c: MambaConfig, run: ModelRun) -> None:
        self.run, tokens = run, run.tokens
        wide, narrow = (run.batch, tokens, c.inner), (run.batch, tokens, c.state)
        self.shapes = {
            "token": (), "state": (run.batch, c.inner, c.state), "u": wide, "dt": wide, "keys": narrow,
            "queries": narrow, "a": (c.inner, c.state), "y": wide,
        }  # fmt: skip
        more = parent.function("scan.more")
        state = self._inputs(more)
        more.output(more.apply("less", state["token"], more.scalar(tokens, "i32")), "go_on")
        self._body(parent.function("scan.step"))

    def _inputs(self, b: GraphBuilder) -> dict[str, Tensor]:
        return {key: b.input(key, shape, "i32" if key == "token" else None) for key, shape in self.shapes.items()}

    def _body(self, b: GraphBuilder) -> None:
        s = self._inputs(b)
        zero = b.scalar(0, "i32")

        def at(key: str) -> Tensor:
            batch, _, width = s[key].shape
            row: Tensor = b.op("dynamic_slice", s[key], zero, s["token"], zero, sizes=[batch, 1, width])
            return row.reshape(batch, width)

        state, y = _step(b, s["state"], at("u"), at("dt"), at("keys"), at("queries"), s["a"])
        row = y.reshape(y.shape[0], 1, y.shape[1])
        s["y"] = b.op("dynamic_update", s["y"], row, zero, s["token"], zero)
        s["state"], s["token"] = state, s["token"] + 1
        for key, tensor in s.items():
            b.output(tensor, f"{key}.next")

    def run_in(self, b: GraphBuilder, given: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Runs the loop; returns the last state and the results [B, L, I]."""

        def zeros(key: str) -> Tensor:
            return b.broadcast(b.scalar(0, b.dtype), self.shapes[key])

        given = {"token": b.scalar(0, "i32"), "state": zeros("state"), **given, "y": zeros("y")}
        values = [given[key].value for key in self.shapes]
        functions = ["scan.more", "scan.step"]
        found: list[Any] = b.core.op("while", values, {"trips": self.run.tokens}, "scan", len(values), functions)
        tensors = dict(zip(self.shapes, (Tensor(b, value) for value in found), strict=True))
        return tensors["state"], tensors["y"]


class _MambaLayer(Layer):
    def __init__(self, parent: GraphBuilder, kind: str, c: MambaConfig, run: ModelRun) -> None:
        self.c = c
        self.scan = None if run.decode else _Scan(parent, c, run)
        caches = {"inputs": (run.batch, c.kernel - 1, c.inner), "state": (run.batch, c.inner, c.state)}
        super().__init__(parent, kind, run, c.width, {}, caches, self._weights())

    def _weights(self) -> list[Weight]:
        c, gain = self.c, self.c.layers**-0.5
        return [
            Weight("norm.weight", (c.width,), 0.1, 1.0),
            Weight("mixer.in_proj.weight", (2 * c.inner, c.width), math.sqrt(3 / c.width)),
            Weight("mixer.conv1d.weight", (c.inner, 1, c.kernel), math.sqrt(3 / c.kernel)),
            Weight("mixer.conv1d.bias", (c.inner,)),
            Weight("mixer.x_proj.weight", (c.rank + 2 * c.state, c.inner), math.sqrt(3 / c.inner)),
            Weight("mixer.dt_proj.weight", (c.inner, c.rank), c.rank**-0.5),
            Weight("mixer.dt_proj.bias", (c.inner,), 1.0, -4.5),  # gives time steps of 0.001 to 0.1
            Weight("mixer.A_log", (c.inner, c.state), 1.0, 1.5),
            Weight("mixer.D", (c.inner,), 0.1, 1.0),
            Weight("mixer.out_proj.weight", (c.width, c.inner), gain * math.sqrt(3 / c.inner)),
        ]

    def _convolved(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Convolves each channel over the last tokens; also returns the inputs that the next token needs."""
        c, b = self.c, self.b
        kept = c.kernel - 1
        if self.run.decode:
            u = b.concat([self.past["inputs"], u], axis=1, name="mixer.inputs")
        else:
            u = b.op("pad", u, low=[0, kept, 0], high=[0, 0, 0], name="mixer.inputs")
        y: Tensor = b.op(
            "convolution", u, self.w["mixer.conv1d.weight"], self.w["mixer.conv1d.bias"],
            x_labels="NWC", w_labels="OIW", y_labels="NWC", groups=c.inner, name="mixer.conv1d",
        )  # fmt: skip
        return b.apply("silu", y, name="mixer.act"), u[:, u.shape[1] - kept :]

    def body(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        c, b = self.c, self.b
        both = self.linear(self.norm(x, "norm", c.epsilon), "mixer.in_proj")
        u, inputs = self._convolved(both[..., : c.inner])
        chosen = self.linear(u, "mixer.x_proj")
        dt = b.apply("softplus", self.linear(chosen[..., : c.rank], "mixer.dt_proj"), name="mixer.softplus")
        keys, queries = chosen[..., c.rank : c.rank + c.state], chosen[..., c.rank + c.state :]
        a = -b.apply("exp", self.w["mixer.A_log"])
        if self.scan is None:
            u1, dt1, keys, queries = (t.reshape(t.shape[0], t.shape[2]) for t in (u, dt, keys, queries))
            state, y = _step(b, self.past["state"], u1, dt1, keys, queries, a)
            y = y.reshape(*u.shape)
        else:
            state, y = self.scan.run_in(b, {"u": u, "dt": dt, "keys": keys, "queries": queries, "a": a})
        y = (y + u * self.w["mixer.D"]) * b.apply("silu", both[..., c.inner :], name="mixer.gate")
        return x + self.linear(y, "mixer.out_proj"), {"inputs": inputs, "state": state}


@network
def mamba(
    config: MambaConfig, batch: int = 1, context: int = 2048, phase: str = "prefill", dtype: str = "bf16"
) -> Graph:
    """A Mamba of any size."""
    c, run = config, check_run(config.name, config.limit, batch, context, phase)
    head = Head(
        c.name, c.vocabulary, c.width, c.epsilon, True, "backbone.embeddings", "backbone.layers", "backbone.norm_f"
    )
    return assemble(
        head, run, dtype, ["layer"] * c.layers, lambda builder, kind: _MambaLayer(builder, kind, c, run), {}
    )


@network
def mamba_2_8b(batch: int = 1, context: int = 2048, phase: str = "prefill", dtype: str = "bf16") -> Graph:
    """Mamba 2.8B, 2,768,345,600 parameters; the head shares the token embeddings."""
    return mamba(MAMBA_2_8B, batch, context, phase, dtype)
