"""Closed-form times of attention kernels on arrays of cases: prefill and decode, causal, windowed, grouped.

Prefill: a block of QUERY_TILE queries of one head visits its visible keys in blocks of KEY_TILE. Each block costs two
products at a share of the peak rate, or the exponentials, whichever is longer; each query tile adds a fixed time.
Decode: the queries that share a key head form one tile; the keys are split over units until all are busy.
Both phases move queries, keys, values and outputs at the memory bandwidth and add a launch and a time per sequence
(docs/explanation/closed_form.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from ..base.arguments import numbers_of, one_of
from ..base.errors import Unsupported
from ..graph import user_error
from ..machine.device import Device
from .families import Entry
from .gemm import find_entry
from .profile import Profile
from .schemes import scheme
from .vector import OPERATIONS

__all__ = [
    "CONSTANTS",
    "AttentionCases",
    "attention_seconds",
    "attention_terms",
    "call_terms",
    "constants_of",
    "visible_pairs",
]

Array = NDArray[np.float64]
_EXTENTS = ("batch", "queries", "keys", "heads", "key_heads", "depth", "window")


CONSTANTS: dict[str, dict[str, Any]] = {row["name"]: row for row in _core.attention_constants()}
TERMS: list[str] = list(_core.attention_term_names())


@dataclass(frozen=True)
class AttentionCases:
    """Extents of attention calls, each an array of one common shape; window 0 means all keys."""

    batch: Array
    queries: Array
    keys: Array
    heads: Array
    key_heads: Array
    depth: Array
    window: Array
    causal: bool = field(default=True, kw_only=True)


def visible_pairs(queries: ArrayLike, keys: ArrayLike, window: ArrayLike = 0, causal: bool = True) -> Array:
    """Counts the visible query-key pairs."""
    q, k, w = numbers_of(queries, keys, window)
    if not causal:
        return q * np.where(w > 0, np.minimum(w, k), k)
    limit = np.where(w > 0, np.minimum(w, k), k)
    first = k - q + 1  # visible keys of the first query, without a window
    ramp = np.clip(limit - first + 1, 0, q)  # queries with fewer visible keys than the limit, plus one
    return ramp * (first + first + ramp - 1) / 2 + (q - ramp) * limit


def attention_terms(
    device: Device, cases: AttentionCases, attn: str, cache: str, constants: Mapping[str, float]
) -> dict[str, Array]:
    """Returns the seconds of each term of attention calls by name."""
    return _table(core_of(device, attn, cache, constants), cases)


def core_of(device: Device, attn: str, cache: str, constants: Mapping[str, float]) -> _core.AttentionModel:
    """Builds the core's model of one attention kernel."""
    how = scheme(attn, device)
    rate = device.rate(how.arithmetic)
    if rate.how == "absent":
        raise Unsupported(f"{device.name} cannot run {how.name}: {rate.reason}")
    facts = {
        "padded": float(device.kind not in ("npu", "tpu")),
        "units": float(device.units),
        "clock": device.clock_hz,
        "memory_bytes_per_second": device.memory.bytes_per_second,
        "flops_per_second": rate.flops_per_second,
        "cache_bytes": scheme(cache, device).weight_bytes,
    }
    return _core.AttentionModel(facts, dict(constants))


def _table(
    model: _core.AttentionModel, cases: AttentionCases, decode: _core.AttentionModel | None = None
) -> dict[str, Array]:
    columns = {name: np.ravel(getattr(cases, name)) for name in _EXTENTS}
    table = np.asarray(model.terms(**columns, causal=cases.causal, decode=decode))
    return {name: table[:, i].reshape(np.shape(cases.batch)) for i, name in enumerate(TERMS)}


def constants_of(
    device: Device, phase: str, attn: str, cache: str, engine: str = "", profile: Profile | None = None
) -> Entry:
    """Returns the fitted constants of a phase ("prefill" or "decode") for its dtypes."""
    one_of("unknown phase", "phase", phase, "prefill", "decode")
    name = f"{scheme(attn, device).name}/{scheme(cache, device).name}"
    entry, _ = find_entry(phase, device, [name, "bf16/bf16", "fp16/fp16"], engine, "", profile)
    standard = {key: float(info["default"]) for key, info in CONSTANTS.items()}
    if device.kind != "gpu":  # others have no paged cache, and one program with all kernels
        standard.update(row=CONSTANTS["row"]["low"], launch=device.launch_seconds)
    if device.kind in ("npu", "tpu"):  # one program runs all tiles; vector units compute exponentials
        lanes = device.vector_rate("f32") / max(1.0, device.units * device.clock_hz)
        standard |= {name: CONSTANTS[name]["low"] for name in ("tile", "block", "sequence", "split")}
        standard["exponentials"] = min(max(lanes / OPERATIONS["softmax"][2], 1.0), CONSTANTS["exponentials"]["high"])
        standard["unit_bytes_per_clock"] = CONSTANTS["unit_bytes_per_clock"]["high"]
    if entry is None:
        return Entry(phase, name, constants=standard, provenance=dict.fromkeys(standard, "default"), device=device.name)
    return Entry(phase, name, engine, "", device.name, {**standard, **entry.constants}, entry.provenance)


def call_terms(
    device: Device, cases: AttentionCases, attn: str, cache: str, engine: str = "", profile: Profile | None = None
) -> dict[str, Array]:
    """Returns the seconds of each term of calls: by the decode model for one query, else by the prefill model.

    For one query the faster of both models counts, because the prefill kernel can also run one query.
    """

    prefill, decode = (
        core_of(device, attn, cache, constants_of(device, phase, attn, cache, engine, profile).constants)
        for phase in ("prefill", "decode")
    )
    return _table(prefill, cases, decode)


def attention_seconds(
    device: Device | str,
    *,
    batch: ArrayLike = 1,
    queries: ArrayLike = 1,
    keys: ArrayLike | None = None,
    heads: ArrayLike = 1,
    key_heads: ArrayLike | None = None,
    depth: ArrayLike = 128,
    window: ArrayLike = 0,
    causal: bool = True,
    dtype: str = "bf16",
    cache: str | None = None,
    profile: Profile | str | None = None,
) -> Array:
    """Returns the seconds of attention calls."""
    target = Device.load(device)
    keys = queries if keys is None else keys
    key_heads = heads if key_heads is None else key_heads
    arrays = numbers_of(batch, queries, keys, heads, key_heads, depth, window)
    for array in arrays[:-1]:
        if not np.all(array > 0):
            raise user_error("an extent must be positive", value=str(array[~(array > 0)][:1]))
    cases = AttentionCases(*arrays, causal=causal)
    return call_terms(target, cases, dtype, cache or dtype, profile=Profile.open(profile))["total"]
