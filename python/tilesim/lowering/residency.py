"""Parses the option `residency`, which selects values that stay in scratchpads between kernels."""

from __future__ import annotations

from collections.abc import Mapping

from ..base.errors import nearest, shown, user_error

__all__ = ["LEVELS", "WAYS", "wished"]

WAYS = ("auto", "none")
LEVELS = ("memory", "scratchpad")


def wished(residency: str | Mapping[str, str] | None, lowering: str) -> tuple[str, dict[str, str]]:
    """Checks the option; returns the default for all tensors and the levels of named tensors."""
    usual = "auto" if lowering == "best" else "none"
    if residency is None:
        return usual, {}
    if isinstance(residency, Mapping):
        for tensor, level in residency.items():
            if level not in LEVELS:
                hint = nearest(level, LEVELS) if isinstance(level, str) else ""
                place = f"residency of '{tensor}'"
                what = "unknown level of a tensor"
                raise user_error(what, place=place, value=shown(level), allowed=", ".join(LEVELS), suggestion=hint)
        return usual, {str(tensor): level for tensor, level in residency.items()}
    if residency not in WAYS:
        hint = nearest(residency, WAYS) if isinstance(residency, str) else ""
        allowed = ", ".join(WAYS) + ", a dict of tensor to memory or scratchpad"
        raise user_error(
            "unknown residency", place="residency", value=shown(residency), allowed=allowed, suggestion=hint
        )
    return residency, {}
