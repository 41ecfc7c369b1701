"""Priced plans on disk: an interrupted search goes on from there."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.store import Store
from ...models.layered import Layered
from ..fabric import Fabric
from ..frameworks import Framework, names
from ..plan import RECOMPUTE, SCHEDULES, SHARDS

__all__ = ["priced"]

Array = NDArray[np.float64]
Priced = tuple[Array, Array]


def _facts(workload: Layered, fabric: Fabric, framework: str | None) -> dict[str, Any]:
    """What prices depend on, beside the plans and the version."""
    used = [framework] if framework else names()
    links = {key: value for key, value in vars(fabric).items() if key not in ("device", "library", "devices", "name")}
    return {
        "workload": workload.json(),
        "device": repr(fabric.device),
        "links": {key: list(value) if isinstance(value, tuple) else value for key, value in links.items()},
        "library": repr(fabric.library),
        "frameworks": {name: asdict(Framework.load(name))["constants"] for name in used},
        "codes": [list(SCHEDULES), list(SHARDS), list(RECOMPUTE)],
    }


def _key(facts: str, rows: Array) -> str:
    text = hashlib.sha256(facts.encode() + np.ascontiguousarray(rows).tobytes()).hexdigest()
    return Store.key(kind="cluster_search", plans=text, count=len(rows))


def _packed(found: Priced) -> str:
    return base64.b64encode(np.stack(found).astype("<f8").tobytes()).decode("ascii")


def _unpacked(text: str, count: int) -> Priced:
    table = np.frombuffer(base64.b64decode(text), dtype="<f8").reshape(2, count)
    return table[0].copy(), table[1].copy()


def _fits(value: Any) -> bool:
    return isinstance(value, str) and len(value) % 4 == 0


def priced(
    store: Store,
    asked: tuple[Layered, Fabric, str | None],
    parts: Sequence[Array],
    run: Callable[[list[Array]], Iterable[Priced]],
) -> list[Priced]:
    """Seconds and bytes of parts of a search: those that the store has, and others, which it gets one by one.

    Args:
        store: of an earlier search too.
        asked: workload, links, name of the framework.
        parts: plans.
        run: prices parts, in their order.

    Returns:
        Per part seconds and bytes of its plans.
    """
    facts = repr(_facts(*asked))
    keys = [_key(facts, rows) for rows in parts]
    known = store.get(keys, _fits)
    sizes = dict(zip(keys, map(len, parts), strict=True))
    found = {key: _unpacked(text, sizes[key]) for key, text in known.items()}
    missing = [number for number, key in enumerate(keys) if key not in found]
    for number, one in zip(missing, run([parts[number] for number in missing]), strict=True):
        store.put({keys[number]: _packed(one)})
        found[keys[number]] = one
    return [found[key] for key in keys]
