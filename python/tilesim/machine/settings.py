"""Reads the declarations of machine settings: unit, range, default, meaning, effect."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from json import loads
from textwrap import wrap
from typing import Any

from .. import _core
from ..base.errors import nearest, user_error
from .effects import EFFECTS

__all__ = ["SHORT", "Setting", "all_settings", "documentation", "find_setting", "section"]

SHORT = {"core.arrays": "core.array.count", "cores": "core.count"}
"""Short names of frequent settings."""

_PARSERS: dict[str, Callable[[str], int]] = {
    "frequency (Hz)": _core.parse_frequency,
    "size (B)": _core.parse_bytes,
    "bandwidth (B/s)": _core.parse_bandwidth,
    "time (s)": _core.parse_duration,
    "energy (J)": _core.parse_energy,
}
_UNITS: dict[str, tuple[tuple[int, str], ...]] = {
    "frequency (Hz)": ((10**9, "GHz"), (10**6, "MHz"), (10**3, "kHz"), (1, "Hz")),
    "size (B)": ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")),
    "bandwidth (B/s)": ((10**9, "GB/s"), (10**6, "MB/s"), (1, "B/s")),
    "time (s)": ((10**3, "ns"), (1, "ps")),
    "energy (J)": ((10**3, "pJ"), (1, "fJ")),
}


@dataclass(frozen=True)
class Setting:
    """The declaration of a machine setting in the core."""

    path: str
    unit: str  # "count", "ratio", "true or false", "value", or a quantity as "size (B)"
    range: str  # the range as text, or ""
    low: float | None  # smallest number in whole or base units (Hz, B, B/s, ps, fJ); None for other values
    high: float | None
    allowed: tuple[str, ...]  # allowed texts
    default: Any  # in the form of a file
    meaning: str
    effect: str

    @property
    def is_number(self) -> bool:
        """Whether the setting's values have an order."""
        return self.low is not None

    def number(self, value: Any) -> float | None:
        """Converts a value to a number in base units."""
        if isinstance(value, bool) or not self.is_number:
            return None
        if self.unit in _PARSERS:
            return float(_PARSERS[self.unit](str(value)))
        return float(value) if isinstance(value, (int, float)) else None

    def text(self, number: float) -> Any:
        """Converts a number to the form of a file."""
        if self.unit == "ratio":
            return float(number)
        whole = round(number)
        for factor, unit in _UNITS.get(self.unit, ()):
            if whole % factor == 0 and (whole or factor == 1 or unit in ("ns", "pJ")):
                return f"{whole // factor} {unit}"
        return whole

    def note(self) -> str:
        """The setting's comment in a file."""
        kind = self.unit if self.unit != "value" else "text" if self.allowed else "text, list or object"
        limits = f"one of {', '.join(self.allowed)}" if self.allowed else self.range
        return (
            f"{self.meaning}. {', '.join(part for part in (kind, limits) if part)}; default {shown_value(self.default)}"
        )


def shown_value(value: Any) -> str:
    """Formats a setting's value on one line."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value or '""'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return ", ".join(f"{key} {shown_value(one)}" for key, one in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return " ".join(shown_value(one) for one in value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _setting(path: str, unit: str, limits: str, default: str, meaning: str) -> Setting:
    low = high = None
    if " to " in limits and unit != "value":
        ends = [_PARSERS[unit](end) if unit in _PARSERS else float(end) for end in limits.split(" to ")]
        low, high = float(ends[0]), float(ends[1])
    allowed = tuple(limits.split(", ")) if limits and low is None else ()
    effect = EFFECTS.get(path, "")
    shown = re.sub(
        r"\d+(\.\d+)?", lambda number: f"{float(number[0]):,g}" if number[1] else f"{int(number[0]):,}", limits
    )
    return Setting(
        path, unit, limits if low is None else shown, low, high, allowed, loads(default.strip("`")), meaning, effect
    )


@lru_cache(maxsize=1)
def all_settings() -> dict[str, Setting]:
    """Maps paths to settings, in the order of their declarations."""
    found = {}
    for line in _core.machine_documentation().splitlines()[2:]:  # the declarations are a table of five columns
        path, unit, limits, default, meaning = (cell.strip() for cell in line.strip().strip("|").split(" | "))
        path = path.strip("` ")
        found[path] = _setting(path, unit, limits, default, meaning)
    return found


def find_setting(path: str) -> Setting:
    """The declaration of one setting."""
    known = all_settings()
    full = SHORT.get(path, path)
    if full.startswith("cores."):
        rest = full.split(".", 2)[2] if full.count(".") > 1 else ""
        full = "core.count" if rest == "count" else rest
    if full not in known:
        raise user_error("unknown setting", value=f"'{path}'", suggestion=nearest(path, (*known, *SHORT)))
    return known[full]


def section(prefix: str = "") -> list[Setting]:
    """Lists the settings below a prefix."""
    known = all_settings()
    full = SHORT.get(prefix, prefix.rstrip("."))
    found = [one for path, one in known.items() if not full or path == full or path.startswith(full + ".")]
    if not found:
        parts = [path.split(".") for path in known]
        names = dict.fromkeys(".".join(words[:count]) for words in parts for count in range(1, len(words) + 1))
        tops = ", ".join(dict.fromkeys(words[0] for words in parts))
        raise user_error(
            "unknown setting", value=f"'{prefix}'", allowed=f"a path, or a section: {tops}",
            suggestion=nearest(prefix, names),
        )  # fmt: skip
    return found


def documentation() -> str:
    """Writes the lists of docs/reference/settings.md, with a heading for each section of a machine file."""
    sections: dict[str, list[str]] = {}
    for path, one in all_settings().items():
        parts = path.split(".")
        limits = f"one of {', '.join(one.allowed)}" if one.allowed else one.range
        default = "Default empty" if one.default == "" else f"Default {shown_value(one.default)}"
        if (least := one.number(one.default)) is not None and one.low is not None and least < one.low:
            default = "Required"
        text = f"- `{path}`: {one.meaning}. {default}{f'; {limits}' if limits else ''}."
        sections.setdefault(".".join(parts[: min(2, len(parts) - 1)]), []).extend(
            wrap(text, 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        )
    return "\n".join(f"### `{name}`\n\n" + "\n".join(lines) + "\n" for name, lines in sections.items())
