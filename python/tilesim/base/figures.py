"""Formats numbers and names in the same way for terminal, page and notebook."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = [
    "amount_of",
    "count",
    "digits",
    "duration",
    "energy",
    "exact_size",
    "part_of",
    "percent",
    "rate",
    "ratio",
    "short",
    "signed",
    "size",
    "units",
]

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_JOULES = ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"), (1e-9, "nJ"), (1e-12, "pJ"))
_BINARY = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_WORDS = ((1e9, 1e9, "billion "), (1e6, 1e6, "million "), (1e4, 1e3, "thousand "), (1.0, 1.0, ""))  # from, scale, name
_LARGE = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def units() -> dict[str, list[tuple[float, str]]]:
    """The scales with their names, largest first; a page's script uses them too."""
    return {"duration": list(_SECONDS), "size": list(_SIZES), "rate": list(_LARGE)}


def _three(value: float) -> str:
    """Formats three significant digits, or all digits of the integer part."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "–"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(float(f"{value:.2e}")))))
    return _minus(f"{value:,.{digits}f}")


def _minus(text: str) -> str:
    """Writes a number with a typographic minus; zero has no sign."""
    return text.replace("-", "−") if text.strip("-0.,") else text.removeprefix("-")


def digits(value: float) -> str:
    """Formats a number without a unit: 24.8, 0.0713, 1,533."""
    return _three(value)


def count(value: float) -> str:
    """Formats a count: 371,256."""
    return _minus(f"{value:,.0f}") if math.isfinite(value) else _three(value)


def percent(share: float) -> str:
    """Formats a share: 24.8 %."""
    return _minus(f"{100 * share:,.1f}") + " %" if math.isfinite(share) else "–"


def duration(seconds: float) -> str:
    """Formats a time: 11.4 s, 371 µs."""
    for scale, unit in _SECONDS:
        if abs(seconds) >= 0.9995 * scale or unit == "ns":
            return f"{_three(seconds / scale)} {unit}" if seconds else "0 s"
    raise AssertionError


def energy(joules: float) -> str:
    """Formats an energy: 1.23 mJ, 45.0 µJ."""
    for scale, unit in _JOULES:
        if abs(joules) >= scale * 0.9995:
            return f"{_three(joules / scale)} {unit}"
    return f"{_three(joules / 1e-12)} pJ" if joules else "0 J"


def size(number: float) -> str:
    """Formats bytes: 24.8 MB (1 MB is 10⁶ bytes)."""
    for scale, unit in _SIZES:
        if abs(number) >= 0.9995 * scale:
            return f"{_three(number / scale)} {unit}"
    return f"{count(number)} B"


def exact_size(number: float) -> str:
    """Formats an exact number of bytes: 32 MB, 256 KiB, 1.5 MB."""
    if number != int(number) or number <= 0:
        return size(number)
    texts = []
    for family in (_SIZES, _BINARY):
        scale, unit = next((one for one in family if number >= one[0]), (1, ""))
        if unit:
            texts.append(f"{number / scale:.15g} {unit}")
    return min([*texts, f"{int(number):,} B"], key=len)


def rate(value: float, unit: str) -> str:
    """Formats a rate with its SI prefix: 14.2 TFLOP/s."""
    for scale, prefix in _LARGE:
        if abs(value) >= 0.9995 * scale:
            return f"{_three(value / scale)} {prefix}{unit}"
    return f"{_three(value)} {unit}"


def signed(change: float, text: Callable[[float], str]) -> str:
    """Formats a difference with its sign: +120, −3.41 ms, 0."""
    if not change:
        return "0"
    return f"{'+' if change > 0 else '−' if change < 0 else ''}{text(abs(change))}"


def ratio(value: float) -> str:
    """Formats a ratio: 1.30 ×."""
    return _minus(f"{value:,.2f}") + " ×" if math.isfinite(value) else "–"


def short(name: str, width: int, end: float = 0.5) -> str:
    """Shortens a name in the middle."""
    if len(name) <= width:
        return name
    right = min(width - 1, max(0, math.ceil((width - 1) * end)))
    left = width - 1 - right
    return f"{name[:left]}…{name[len(name) - right :]}" if width > 1 else "…"


def part_of(part: float, total: float, unit: str) -> str:
    """Formats a part of a total in one unit: 120 of 162 thousand cycles, 1.20 of 3.41 ms."""
    if unit == "s":
        scale, name = next((one for one in _SECONDS if abs(total) >= 0.9995 * one[0]), _SECONDS[-1])
        return f"{_three(part / scale)} of {_three(total / scale)} {name}"
    scale, name = _word(total)
    if scale == 1e3 and abs(part) < scale:  # such as 896 of 14,080
        scale, name = 1.0, ""
    text = count if scale == 1 else _three
    return f"{text(part / scale)} of {text(total / scale)} {name}{unit}"


def _word(value: float) -> tuple[float, str]:
    """The scale of a count and its word, from ten thousand on."""
    return next(((scale, name) for least, scale, name in _WORDS if abs(value) >= 0.9995 * least), (1.0, ""))


def amount_of(value: float, unit: str) -> str:
    """Formats cycles or seconds with the unit: 162 thousand cycles, 3.41 ms."""
    if unit == "s":
        return duration(value)
    scale, name = _word(value)
    one = unit.removesuffix("s") if value == 1 else unit
    return f"{(count if scale == 1 else _three)(value / scale)} {name}{one}"
