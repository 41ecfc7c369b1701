"""Stores evaluated plans on disk, from which an interrupted search resumes."""

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
from ..plan import CONTEXTS, OFFLOAD, RECOMPUTE, SCHEDULES, SHARDS

__all__ = ["priced"]

Array = NDArray[np.float64]
Part = tuple[bool, Array]  # whether the schedules are simulated, and the plans


def _facts(workload: Layered, fabric: Fabric, framework: str | None) -> dict[str, Any]:
    """Returns the data that determine times, in addition to plans and version."""
    used = [framework] if framework else names()
    links = {
        key: value
        for key, value in vars(fabric).items()
        if key not in ("device", "library", "prices", "devices", "name")
    }
    return {
        "workload": workload.to_dict(),
        "device": repr(fabric.device),
        "links": {key: list(value) if isinstance(value, tuple) else value for key, value in links.items()},
        "library": repr(fabric.library),
        "frameworks": {name: asdict(Framework.load(name))["constants"] for name in used},
        "codes": [list(SCHEDULES), list(SHARDS), list(RECOMPUTE), list(OFFLOAD), list(CONTEXTS)],
    }


def _key(facts: str, part: Part) -> str:
    carry, rows = part
    text = hashlib.sha256(facts.encode() + np.ascontiguousarray(rows).tobytes()).hexdigest()
    return Store.key(kind="cluster_search", plans=text, count=len(rows), carry=carry)


def _packed(found: Array) -> str:
    return base64.b64encode(found.astype("<f8").tobytes()).decode("ascii")


def _unpacked(text: str, count: int) -> Array:
    return np.frombuffer(base64.b64decode(text), dtype="<f8", count=count).copy()


def _fits(value: Any) -> bool:
    return isinstance(value, str) and len(value) % 4 == 0


def priced(
    store: Store,
    asked: tuple[Layered, Fabric, str | None],
    parts: Sequence[Part],
    run: Callable[[list[Part]], Iterable[Array]],
) -> list[Array]:
    """Returns the seconds of a search's parts, read from the store or evaluated and stored."""
    facts = repr(_facts(*asked))
    keys = [_key(facts, part) for part in parts]
    known = store.get(keys, _fits)
    sizes = {key: len(rows) for key, (_, rows) in zip(keys, parts, strict=True)}
    found = {key: _unpacked(text, sizes[key]) for key, text in known.items()}
    missing = [number for number, key in enumerate(keys) if key not in found]
    for number, one in zip(missing, run([parts[number] for number in missing]), strict=True):
        store.put({keys[number]: _packed(one)})
        found[keys[number]] = one
    return [found[key] for key in keys]
