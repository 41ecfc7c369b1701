"""Builds models by name."""

from __future__ import annotations

from typing import Any

from ..base.arguments import dtype_name, integer
from ..base.checked import checked
from ..base.errors import UserError, nearest, shown, user_error
from ..base.table import Table
from ..graph import Graph
from ..machine.target import sort_of
from .registry import NETWORKS, row_of

__all__ = ["build", "names", "table"]


@checked()
def names() -> list[str]:
    """Lists the models that `build` accepts.

    Returns:
        Their names.
    """
    return list(NETWORKS)


@checked()
def table() -> Table:
    """Tabulates the models that `build` accepts, with sizes and default arguments.

    Returns:
        Rows with name, kind, parameters, dtype (of most weights), batch, context (tokens; None for networks without),
        phase ("" for networks without).
    """
    return Table([dict(row_of(name)) for name in NETWORKS])


@checked()
def build(
    name: str,
    batch: int = 1,
    sequence: int | None = None,
    dtype: str | None = None,
    context: int | None = None,
    phase: str | None = None,
) -> Graph:
    """Builds a model by name.

    Args:
        name: one of `names()`.
        batch: number of images or sequences.
        sequence: length in tokens, for networks that read text; the network's default otherwise.
        dtype: data type of weights and activations; by default the data type of the published weights.
        context: alias of sequence; in phase decode, the tokens that the last one attends to.
        phase: "prefill" or "decode", for networks that write text.

    Returns:
        Its graph.

    Raises:
        UserError: for an unknown name or dtype, or a batch, sequence or phase that the network does not support.
    """
    name, batch = str(name), integer("batch", batch, 1)
    small = name.lower()
    found = NETWORKS.get(small) or next((entry for entry in NETWORKS.values() if small in entry.aliases), None)
    if found is None:
        remedy = nearest(small, NETWORKS)
        if not remedy and (sort := sort_of(small)):
            remedy = f"{name} is a {sort}: write machine='{name}', on the command line --machine {name}"
        raise user_error("unknown model", value=f"'{name}'", allowed=", ".join(NETWORKS), suggestion=remedy)
    place = f"model '{name}'"
    settings: dict[str, Any] = {"batch": batch}
    if dtype is not None:
        settings["dtype"] = dtype
    length = context if sequence is None else sequence
    if length is not None:
        length = integer("context" if sequence is None else "sequence", length, 1)
        key = next((key for key in ("context", "sequence") if key in found.settings), None)
        if key is None:
            raise user_error("this model reads no sequence", place=place, value=f"sequence {length}",
                             suggestion="Leave it out; batch applies")  # fmt: skip
        settings[key] = length
    if phase is not None:
        if "phase" not in found.settings:
            writers = ", ".join(key for key, entry in NETWORKS.items() if "phase" in entry.settings)
            raise user_error("this model writes no text and has no phases", place=place, value=f"phase {phase}",
                             allowed=f"none; a phase of {writers}")  # fmt: skip
        settings["phase"] = phase
    try:
        return found.make(**settings)
    except UserError as error:
        raise _integer_dtype_error(error, settings.get("dtype")) from None


def _integer_dtype_error(error: Exception, dtype: Any) -> Exception:
    """The error for an integer dtype, because networks compute with floats."""
    if dtype is None or not dtype_name(dtype).startswith(("i", "u")):
        return error
    remedy = "For integer products take ts.run(..., quantize='i8') or tilesim run --quantize i8"
    what = "this network computes with floats"
    return user_error(what, place="dtype", value=shown(dtype), allowed="f32, bf16, f16, f64", suggestion=remedy)
