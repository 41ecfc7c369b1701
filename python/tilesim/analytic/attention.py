"""Attention kernels: prefill and decode, causal, windowed, grouped; closed form on arrays.

Prefill: a block of QUERY_TILE queries of one head walks over the keys it can see in blocks of KEY_TILE; each costs two
products at a share of the peak rate, or the exponentials, whichever is longer, and every query tile a fixed time.
Decode: the queries that share a key head form one tile; the keys are split over units until all are busy.
Both move
queries, keys, values and outputs at the memory's rate and pay a launch and a time per sequence. See docs/analytic.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..base.arguments import numbers_of
from ..base.errors import Unsupported
from ..graph import user_error
from ..machine.device import Device
from .families import Entry
from .gemm import find_entry
from .profile import Profile
from .schemes import scheme

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
QUERY_TILE, KEY_TILE = 128.0, 128.0


def _info(default: float, low: float, high: float, unit: str) -> dict[str, Any]:
    return {"default": default, "low": low, "high": high, "unit": unit}


CONSTANTS: dict[str, dict[str, Any]] = {
    "launch": _info(1e-5, 1e-7, 1e-3, "s per call, small kernels around it included"),
    "efficiency": _info(0.7, 0.01, 1.0, "share of the peak rate in the products"),
    "exponentials": _info(32.0, 1.0, 1000.0, "query-key pairs per cycle and unit at most"),
    "tile": _info(2e-6, 1e-8, 1e-4, "s per query tile on its unit"),
    "block": _info(2e-7, 1e-9, 1e-5, "s per block of keys at least"),
    "sequence": _info(1e-8, 1e-11, 1e-5, "s per sequence of the batch"),
    "memory_share": _info(0.8, 0.05, 0.97, "share of the memory's peak rate"),
    "cache_share": _info(0.8, 0.01, 8.0, "share of the shared cache's rate"),
    "unit_bytes_per_clock": _info(50.0, 0.5, 1000.0, "bytes one unit loads per cycle"),
    "row": _info(1e-7, 1e-11, 1e-4, "s per token and key head that the cache write costs one unit"),
    "split": _info(2e-6, 1e-8, 1e-4, "s for joining the splits of the keys"),
    "overlap": _info(3.0, 1.0, 12.0, "exponent: 1 terms add, large: the longest hides the others"),
    "wave_smoothing": _info(0.5, 0.0, 1.0, "0: whole waves; 1: the last wave costs its share only"),
}


@dataclass(frozen=True)
class AttentionCases:
    """Shapes of calls, arrays of one shape: queries, keys per sequence, heads, head size, window (0: all)."""

    batch: Array
    queries: Array
    keys: Array
    heads: Array
    key_heads: Array
    depth: Array
    window: Array
    causal: bool = field(default=True, kw_only=True)


def visible_pairs(queries: ArrayLike, keys: ArrayLike, window: ArrayLike = 0, causal: bool = True) -> Array:
    """Query-key pairs that a mask leaves.

    Args:
        queries: per sequence, the last ones of `keys`.
        keys: per sequence.
        window: keys that a query sees at most; 0: all.
        causal: hide keys behind the query.

    Returns:
        Number of pairs per head and sequence, shape of the broadcast arguments.
    """
    q, k, w = numbers_of(queries, keys, window)
    if not causal:
        return q * np.where(w > 0, np.minimum(w, k), k)
    limit = np.where(w > 0, np.minimum(w, k), k)
    first = k - q + 1  # keys that the first query sees, without a window
    ramp = np.clip(limit - first + 1, 0, q)  # queries that see fewer than the limit, and the one that reaches it
    return ramp * (first + first + ramp - 1) / 2 + (q - ramp) * limit


def attention_terms(
    device: Device, cases: AttentionCases, attn: str, cache: str, constants: Mapping[str, float]
) -> dict[str, Array]:
    """Seconds of each term.

    Args:
        device: the device.
        cases: shapes.
        attn: scheme of the arithmetic.
        cache: scheme of keys and values in the cache.
        constants: by name.

    Returns:
        launch, compute, load, memory, split and total, each of the cases' shape.

    Raises:
        Unsupported: for a dtype that the device lacks.
    """
    how = scheme(attn, device)
    rate = device.rate(how.arithmetic)
    if rate.how == "absent":
        raise Unsupported(f"{device.name} cannot run {how.name}: {rate.reason}")
    cache_bytes = scheme(cache, device).weight_bytes
    c = constants
    group = cases.heads / cases.key_heads
    packed = cases.queries * group  # queries that share keys form common tiles
    tiles_of_head = np.ceil(packed / QUERY_TILE)
    tiles = cases.batch * cases.key_heads * tiles_of_head
    walked, longest = _walked(cases, group, tiles_of_head)
    splits = np.where(
        cases.queries * group <= QUERY_TILE,
        np.maximum(np.floor(device.units / np.maximum(tiles, 1)), 1),
        1.0,
    )
    shape = _Tiled(tiles, packed, walked, longest, np.ones_like(tiles))
    whole = _tile_terms(device, cases, rate.flops_per_second, cache_bytes, c, shape)
    parts = _tile_terms(device, cases, rate.flops_per_second, cache_bytes, c, replace(shape, splits=splits))
    return {name: np.where(parts["total"] < whole["total"], parts[name], whole[name]) for name in whole}


@dataclass(frozen=True)
class _Tiled:
    """Query tiles of calls: their number, rows, keys that one walks over (mean and most), splits of the keys."""

    tiles: Array
    packed: Array
    walked: Array
    longest: Array
    splits: Array


def _walked(cases: AttentionCases, group: Array, tiles: Array) -> tuple[Array, Array]:
    """Keys that a tile of queries walks over, mean and most; queries padded to whole tiles as far as there are keys."""
    span = np.minimum(QUERY_TILE / group, cases.queries)  # positions that one tile covers
    reach = np.minimum(cases.keys, np.where(cases.window > 0, cases.window + span, cases.keys))
    if not cases.causal:
        return reach, reach
    hidden = np.maximum(cases.keys - tiles * span, 0)  # keys before the first query, which all of them may see
    ramp = np.clip(np.floor((reach - hidden) / span), 0, tiles)  # tiles that see fewer than the reach
    walked = (ramp * hidden + span * ramp * (ramp + 1) / 2 + (tiles - ramp) * reach) / tiles
    return np.minimum(walked, reach), reach


def _tile_terms(
    device: Device, cases: AttentionCases, flops: float, cache_bytes: float, c: Mapping[str, float], shape: _Tiled
) -> dict[str, Array]:
    """Seconds of each term with so many splits."""
    splits = shape.splits
    depth = np.ceil(cases.depth / 64) * 64
    rows = np.minimum(shape.packed, QUERY_TILE)
    products = 4 * QUERY_TILE * KEY_TILE * depth / (flops / device.units * c["efficiency"])
    exponentials = rows * KEY_TILE / (c["exponentials"] * device.clock_hz)
    block = np.maximum(np.maximum(products, exponentials), c["block"])
    waves = shape.tiles * splits / device.units
    rounds = (1 - c["wave_smoothing"]) * np.ceil(waves) + c["wave_smoothing"] * np.maximum(waves, 1)

    def part(keys: Array) -> Array:  # of a split; none is shorter than a block
        return np.maximum(keys / splits, np.minimum(keys, KEY_TILE))

    def one(keys: Array) -> Array:
        return c["tile"] + block * np.maximum(1.0, part(keys) / KEY_TILE)

    compute = np.maximum(rounds * one(shape.walked), one(shape.longest))  # the longest tile starts first
    per_key = 2 * cases.depth * cache_bytes / (c["unit_bytes_per_clock"] * device.clock_hz)
    load = np.maximum(rounds * part(shape.walked), part(shape.longest)) * per_key
    held = np.where(cases.window > 0, np.minimum(cases.keys, cases.window + cases.queries), cases.keys)
    cached = cases.batch * cases.key_heads * held * cases.depth * 2 * cache_bytes
    fresh = cases.batch * cases.queries * cases.depth * 2 * (2 * cases.heads + 2 * cases.key_heads)
    memory = (cached + fresh) / (device.memory.bytes_per_second * c["memory_share"])
    write = cases.batch * cases.queries * cases.key_heads * c["row"] / device.units
    launch = c["launch"] + cases.batch * c["sequence"] + write
    split = np.where(splits > 1, c["split"], 0.0)
    p = c["overlap"]
    most = np.maximum(np.maximum(compute, load), memory)
    core = most * ((compute / most) ** p + (load / most) ** p + (memory / most) ** p) ** (1 / p)
    return {
        "launch": launch,
        "compute": compute,
        "load": load,
        "memory": memory,
        "split": split,
        "total": launch + core + split,
    }


def constants_of(
    device: Device, phase: str, attn: str, cache: str, engine: str = "", profile: Profile | None = None
) -> Entry:
    """The constants of a phase ("prefill" or "decode") and its dtypes.

    Args:
        device: the device.
        phase: "prefill" or "decode".
        attn: scheme of the arithmetic.
        cache: scheme of keys and values in the cache.
        engine: as in the table.
        profile: fitted constants; none: the family's.

    Returns:
        The entry.

    Raises:
        UserError: for an unknown phase.
    """
    if phase not in ("prefill", "decode"):
        raise user_error("unknown phase", value=f"'{phase}'", allowed="prefill, decode")
    name = f"{scheme(attn, device).name}/{scheme(cache, device).name}"
    entry, _ = find_entry(phase, device, [name, "bf16/bf16", "fp16/fp16"], engine, "", profile)
    standard = {key: float(info["default"]) for key, info in CONSTANTS.items()}
    if device.kind != "gpu":  # no paged cache to write, kernels of one program
        standard.update(row=CONSTANTS["row"]["low"], launch=device.launch_seconds)
    if entry is None:
        return Entry(phase, name, constants=standard, provenance=dict.fromkeys(standard, "default"), device=device.name)
    return Entry(phase, name, engine, "", device.name, {**standard, **entry.constants}, entry.provenance)


def call_terms(
    device: Device, cases: AttentionCases, attn: str, cache: str, engine: str = "", profile: Profile | None = None
) -> dict[str, Array]:
    """Seconds of each term of calls, decode where there is one query, prefill elsewhere.

    One query can be served by the kernel of prefill too: the faster of the two counts.

    Args:
        device: the device.
        cases: shapes.
        attn: scheme of the arithmetic.
        cache: scheme of keys and values in the cache.
        engine: as in the table.
        profile: fitted constants; none: the family's.

    Returns:
        As of `attention_terms`.

    Raises:
        Unsupported: for a dtype that the device lacks.
    """

    def by(phase: str) -> dict[str, Array]:
        entry = constants_of(device, phase, attn, cache, engine, profile)
        return attention_terms(device, cases, attn, cache, entry.constants)

    prefill = by("prefill")
    if not np.any(cases.queries == 1):
        return prefill
    decode = by("decode")
    chosen = (cases.queries == 1) & (decode["total"] < prefill["total"])
    return {name: np.where(chosen, decode[name], prefill[name]) for name in prefill}


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
    """Time of attention calls.

    Args:
        device: a device or its name.
        batch: sequences.
        queries: per sequence; 1 is decode.
        keys: per sequence; none: as many as queries.
        heads: of the queries.
        key_heads: none: as many as heads.
        depth: elements of a head.
        window: keys that a query sees at most; 0: all.
        causal: hide keys behind the query.
        dtype: scheme of the arithmetic.
        cache: scheme of keys and values; none: `dtype`.
        profile: fitted constants; none: the family's.

    Returns:
        Seconds, shape of the broadcast arguments.

    Raises:
        UserError: for an unknown device, scheme or an extent that is not positive.
        Unsupported: for a dtype that the device lacks.
    """
    target = Device.load(device)
    keys = queries if keys is None else keys
    key_heads = heads if key_heads is None else key_heads
    arrays = numbers_of(batch, queries, keys, heads, key_heads, depth, window)
    for array in arrays[:-1]:
        if not np.all(array > 0):
            raise user_error("an extent must be positive", value=str(array[~(array > 0)][:1]))
    cases = AttentionCases(*arrays, causal=causal)
    return call_terms(target, cases, dtype, cache or dtype, profile=Profile.open(profile))["total"]
