"""Finds differences of results: program, machine and its settings, options, versions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..base.figures import short

if TYPE_CHECKING:
    from .result import Result

__all__ = ["differing", "summaries"]

_HIDDEN = ("schema", "version", "name", "description", "sources", "source")
_NAMES = {"engine": "simulated", "closed form": "estimated"}


def _flat(value: Any, path: str = "") -> dict[str, str]:
    """Maps the paths of settings to their values as text."""
    if isinstance(value, dict) and value:
        found: dict[str, str] = {}
        for key, inner in value.items():
            if path or key not in _HIDDEN:
                found |= _flat(inner, f"{path}.{key}" if path else str(key))
        return found
    return {path: value if isinstance(value, str) else json.dumps(value)}


def _facts(result: Result) -> dict[str, str]:
    """Returns program, machine, options and versions of a result by name."""
    data = result.data
    facts = {"program": data["program"], "machine": data["machine"]}
    facts["how"] = _NAMES.get(str(data.get("source")), str(data.get("source", "")))
    facts["lowering"] = result.lowering
    facts["setting"] = str(data.get("setting", ""))
    facts |= {f"fidelity of {key}": str(value) for key, value in data.get("fidelity", {}).items()}
    facts |= {str(key): str(value) for key, value in data.get("options", {}).items()}
    facts |= {f"version of {key}": str(value) for key, value in data.get("versions", {}).items()}
    return facts


def _differing_facts(facts: Sequence[dict[str, str]]) -> list[tuple[str, list[str]]]:
    """Returns the facts that differ, with their value in each result."""
    names = dict.fromkeys(name for one in facts for name in one)
    rows = [(name, [one.get(name, "") for one in facts]) for name in names]
    return [(name, own) for name, own in rows if len(set(own)) > 1]


def differing(results: Sequence[Result]) -> list[tuple[str, list[str]]]:
    """Lists all differences other than times."""
    settings = [_flat(result.data.get("configuration", {})) for result in results]
    common = set.intersection(*(set(one) for one in settings))  # devices and machines have no settings in common
    shared = [{path: value for path, value in one.items() if path in common} for one in settings]
    return _differing_facts([_facts(result) for result in results]) + _differing_facts(shared)


def summaries(results: Sequence[Result]) -> list[str]:
    """Describes results by their differences."""
    facts = _differing_facts([_facts(result) for result in results])
    chosen = [(name, own) for name, own in facts if not name.startswith(("fidelity", "version"))] or facts
    if not chosen:
        chosen = _differing_facts([_flat(result.data.get("configuration", {})) for result in results])[:2]
        return [", ".join(f"{name} {own[i]}" for name, own in chosen) for i in range(len(results))]
    said = [[own[i] if name in ("program", "machine", "how", "lowering", "setting") else f"{name} {own[i] or 'default'}"
             for name, own in chosen] for i in range(len(results))]  # fmt: skip
    return [short(", ".join(part for part in parts if part), 60) for parts in said]
