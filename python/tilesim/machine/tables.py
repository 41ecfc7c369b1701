"""A machine's settings as rows, the differences between two machines, and the name of a variant."""

from __future__ import annotations

import json
from collections.abc import Set
from functools import lru_cache
from typing import Any

from .. import _core
from ..base.figures import exact_size, short
from ..base.paths import configs_dir
from ..base.table import Table
from .settings import SHORT, all_settings, find_setting, shown_value

__all__ = ["changed_sources", "differences", "flat", "label", "rows"]

REPLACED = "replaced by the user"  # the source that the core gives to changes by `replace`
_NAMED_CHANGES = 3  # most changes in a variant's name
_HEAD = ("schema", "version", "name", "description", "sources")


def flat(entries: dict[str, Any]) -> dict[str, Any]:
    """The settings of a machine's JSON form by path."""
    known, found = all_settings(), {}

    def walk(value: Any, path: str, name: str) -> None:
        if path in known or not isinstance(value, dict):
            found[name] = value
            return
        for key, one in value.items():
            walk(one, f"{path}.{key}" if path else key, f"{name}.{key}" if name else key)

    walk({key: one for key, one in entries.items() if key not in (*_HEAD, "cores")}, "", "")
    for sort in entries.get("cores", []):
        found[f"cores.{sort['sort']}.count"] = sort["count"]
        for key, one in sort.get("core", {}).items():
            walk(one, f"core.{key}", f"cores.{sort['sort']}.core.{key}")
    return found


@lru_cache(maxsize=64)
def _preset(name: str) -> dict[str, Any] | None:
    """The settings of a shipped machine, or None for other names."""
    if name not in _names():
        return None
    return flat(json.loads(_core.Machine.read_file(str(configs_dir() / "machines" / f"{name}.json")).to_json()))


@lru_cache(maxsize=64)
def _preset_sources(name: str) -> dict[str, str]:
    text = _core.Machine.read_file(str(configs_dir() / "machines" / f"{name}.json")).to_json()
    return dict(json.loads(text).get("sources", {}))


def changed_sources(entries: dict[str, Any]) -> dict[str, str]:
    """Replaces a preset's source where a file has another value than the preset."""
    own, sources = flat(entries), dict(entries.get("sources", {}))
    if not sources:
        return {}
    alike = {name: sum(sources.get(a) == b for a, b in _preset_sources(name).items()) for name in sorted(_names())}
    order = sorted(alike, key=lambda name: -alike[name])
    found: dict[str, str] = {}
    for path, source in sources.items():
        having = [name for name in order if _preset_sources(name).get(path) == source]
        bases = {name: (_preset(name) or {}).get(path) for name in having}
        counted = path == "core.count" and entries.get("cores")  # the number of cores is the sum over their types
        if not having or path not in own or own[path] in bases.values() or counted:
            continue
        value = _value_text(path, bases[having[0]])
        told = f"{value} ({source})" if not source.startswith(value) else source
        found[path] = f"set in this file; {having[0]} has {told}"
    return found


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(path.stem for path in (configs_dir() / "machines").glob("*.json"))


def _is_lowering_setting(path: str, own: dict[str, Any], base: dict[str, Any]) -> bool:
    """Whether a setting belongs to the lowering profile, which does not make another machine."""
    if any(one.startswith("lowering.") for one in own):
        return False
    return path.startswith("lowering.") or (path == "core.kernel_barrier" and base.get(path) is True)


@lru_cache(maxsize=256)
def label(text: str) -> str:
    """The name of a variant."""
    entries = json.loads(text)
    own, base = flat(entries), _preset(entries["name"])
    if base is None:
        paths = [path for path, source in entries["sources"].items() if source == REPLACED and path in own]
    else:
        paths = [path for path in dict.fromkeys([*own, *base]) if own.get(path) != base.get(path)]
        paths = [path for path in paths if not path.endswith(".reason") and not _is_lowering_setting(path, own, base)]
    names = {full: brief for brief, full in SHORT.items()}
    said = [f"{names.get(path, path)} {short(_value_text(path, own.get(path)), 40)}" for path in paths[:_NAMED_CHANGES]]
    more = [f"and {len(paths) - _NAMED_CHANGES} more"] if len(paths) > _NAMED_CHANGES else []
    return ", ".join([entries["name"], *said, *more])


def _value_text(path: str, value: Any) -> str:
    """Formats a setting's value for a name: sizes have the user's units."""
    setting = find_setting(path)
    number = setting.number(value) if setting.unit == "size (B)" and isinstance(value, str) else None
    return exact_size(number) if number else shown_value(value)


def rows(entries: dict[str, Any], given: Set[str] | None) -> Table:
    """Lists every setting of a machine."""
    sources, found = entries["sources"], []
    for path, value in flat(entries).items():
        default, sort = find_setting(path).default, path.startswith("cores.")
        stated = path in given if given is not None else path in sources or value != default or sort
        origin = "replaced" if sources.get(path) == REPLACED else "file" if stated else "default"
        source = "" if origin == "replaced" else sources.get(path, "")
        found.append({"setting": path, "value": value, "from": origin, "source": source})
    return Table(found)


def differences(a: dict[str, Any], b: dict[str, Any]) -> Table:
    """Lists the settings in which two machines differ."""
    one, two, found = flat(a), flat(b), []
    order = [path for path in all_settings() if path in one or path in two]
    for path in dict.fromkeys([*order, *one, *two]):
        x, y = one.get(path), two.get(path)
        if x == y or path.endswith(".reason"):  # a reason is not a setting
            continue
        setting = find_setting(path)
        p, q = (None if value is None else setting.number(value) for value in (x, y))
        ratio = q / p if p and q is not None else None
        found.append({"setting": path, "a": x, "b": y, "ratio": ratio})
    return Table(found)
