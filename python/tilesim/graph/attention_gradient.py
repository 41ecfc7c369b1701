"""Builds the gradient of attention from operands, result and log-sum-exp; recomputes the weights."""

from __future__ import annotations

import math
from typing import Any

from ..base.errors import user_error
from .builder import GraphBuilder
from .tensor import Tensor

HIDDEN = -math.inf


def _wide(dtype: str) -> str:
    return "f64" if dtype == "f64" else "f32"


def _product(b: GraphBuilder, x: Tensor, y: Tensor, x_axis: int, y_axis: int, dtype: str) -> Tensor:
    """Multiplies matrices for each key head."""
    result: Tensor = b.op(
        "contract", x, y, a_batch=[0, 1], b_batch=[0, 1], a_contract=[x_axis], b_contract=[y_axis], dtype=dtype
    )
    return result


class AttentionGradient:
    """The gradient of one attention: weights p = exp(s - lse), ds = p (do vᵀ - D) with D = rowsum(do o)."""

    def __init__(self, b: GraphBuilder, operands: list[Tensor | None], attributes: dict[str, Any], place: str) -> None:
        """Raises an error for attention over a page table, whose gradient is unsupported."""
        self.b, self.attributes = b, attributes
        absent: list[Tensor | None] = [None] * (6 - len(operands))
        q, k, v, self.mask, self.lengths, pages = operands + absent
        if pages is not None:
            raise user_error(
                "attention over a page table has no gradient", place=place, suggestion="Gather k and v first"
            )
        assert q is not None and k is not None and v is not None
        self.whole = k.shape[2]
        self.keys = min(self.whole, attributes.get("kv_len", self.whole)) if self.lengths is None else self.whole
        self.q, self.k, self.v = q, k[:, :, : self.keys], v[:, :, : self.keys]
        self.batch, self.heads, self.queries, depth = q.shape
        self.groups = k.shape[1]
        self.dtype, self.scale = _wide(q.dtype), attributes.get("scale", 1 / math.sqrt(depth))
        if self.lengths is not None:
            self.lengths = self.lengths.convert("i32").reshape(self.batch, 1, 1, 1)
            self.k, self.v = (self._filled(x) for x in (self.k, self.v))

    def _number(self, value: float, dtype: str = "") -> Tensor:
        return self.b.scalar(value, dtype or self.dtype)

    def _filled(self, x: Tensor) -> Tensor:
        """Sets batch rows without keys to zero, because their memory is undefined."""
        row = self.b.op("iota", shape=[self.keys, 1], dim=0, dtype="i32")
        there = self.b.apply("less", row, self.lengths)  # type: ignore[arg-type]
        return self.b.apply("select", there, x, self._number(0, x.dtype))

    def _grouped(self, x: Tensor) -> Tensor:
        """Merges the query heads of a key head into the rows of one matrix."""
        return x.reshape(self.batch, self.groups, self.heads // self.groups * self.queries, x.shape[3])

    def _visible(self) -> Tensor | None:
        """Returns the key mask from causality, window, lengths and a bool mask; None if all keys are visible."""
        b, attributes = self.b, self.attributes
        causal, window = attributes.get("causal", False), attributes.get("window", 0)
        key = b.op("iota", shape=[1, self.keys], dim=1, dtype="i32")
        query = b.op("iota", shape=[self.queries, 1], dim=0, dtype="i32")
        seen = []
        if "causal_offset" in attributes:
            query = query + int(attributes["causal_offset"])
        elif self.lengths is not None and (causal or window):
            query = query + self.lengths - self.queries
        else:
            query = query + (self.keys - self.queries)
        if causal:
            seen.append(b.apply("less_equal", key, query))
        if window:
            seen.append(b.apply("greater", key, query - int(window)))
        if self.lengths is not None:
            seen.append(b.apply("less", key, self.lengths))
        if self.mask is not None and self.mask.dtype == "bool":
            seen.append(self._visible_mask(self.mask))
        result = None
        for one in seen:
            result = one if result is None else b.apply("logical_and", result, one)
        return result

    def _visible_mask(self, mask: Tensor) -> Tensor:
        """Returns the part of a mask for existing keys."""
        long = mask.ndim > 0 and mask.shape[-1] > self.keys
        return mask[(..., slice(0, self.keys))] if long else mask

    def _weights(self, lse: Tensor) -> tuple[Tensor, Tensor | None]:
        """Recomputes the weights p [B, H, S, T], and the slope of the soft cap."""
        b = self.b
        scores = _product(b, self._grouped(self.q), self.k, 3, 3, self.dtype)
        scores = scores.reshape(self.batch, self.heads, self.queries, self.keys) * self.scale
        slope = None
        if cap := self.attributes.get("soft_cap", 0):
            turned = b.apply("tanh", scores / float(cap))
            scores, slope = turned * float(cap), 1 - turned * turned
        if self.mask is not None and self.mask.dtype != "bool":
            scores = scores + self._visible_mask(self.mask).convert(self.dtype)
        if (seen := self._visible()) is not None:
            scores = b.apply("select", seen, scores, self._number(HIDDEN))
        lse = lse.reshape(self.batch, self.heads, self.queries, 1)
        p = b.apply("exp", scores - lse)
        if self.attributes.get("masked_row", "zero") == "zero":  # a row without visible keys computes -inf - -inf
            p = b.apply("select", b.apply("equal", lse, self._number(HIDDEN)), self._number(0), p)
        return p, slope

    def run(self, o: Tensor, lse: Tensor, do: Tensor | None, dlse: Tensor | None) -> list[Tensor | None]:
        """Returns the gradient of each operand of the attention."""
        b, rows = self.b, (self.batch, self.heads, self.queries)
        p, slope = self._weights(lse)
        full = (*rows, self.keys)
        ds: Tensor | None = None
        dv: Tensor | None = None
        if do is not None:
            wide = do.convert(self.dtype)
            dp = _product(b, self._grouped(wide), self.v.convert(self.dtype), 3, 3, self.dtype).reshape(*full)
            delta = (wide * o.convert(self.dtype)).sum(3, keep_dims=True)
            ds = dp - delta
            dv = self._padded(_product(b, self._grouped(p), self._grouped(wide), 2, 2, self.dtype), self.v.dtype)
        if dlse is not None:
            more = dlse.convert(self.dtype).reshape(*rows, 1)
            ds = b.broadcast(more, full) if ds is None else ds + more
        assert ds is not None
        ds = p * ds
        dmask = None
        if self.mask is not None and self.mask.dtype != "bool":
            dmask = ds
        if slope is not None:
            ds = ds * slope
        ds = self._grouped(ds * self.scale)
        dq = _product(b, ds, self.k.convert(self.dtype), 3, 2, self.dtype).reshape(*self.q.shape).convert(self.q.dtype)
        dk = self._padded(_product(b, ds, self._grouped(self.q.convert(self.dtype)), 2, 2, self.dtype), self.k.dtype)
        return [dq, dk, dv, dmask]

    def _padded(self, x: Tensor, dtype: str) -> Tensor:
        """Pads with zeros for the keys after attribute kv_len."""
        x = x.convert(dtype)
        if self.keys == self.whole:
            return x
        high = [0, 0, self.whole - self.keys, 0]
        result: Tensor = self.b.op("pad", x, self._number(0, dtype), low=[0] * 4, high=high, mode="constant")
        return result
