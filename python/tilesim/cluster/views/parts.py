"""Parts of a step: what they are, and the table of them."""

from __future__ import annotations

from typing import Any

from ...base.table import Table

__all__ = ["PARTS", "PROGRAM_PARTS", "parts_table"]

#: part of a step under a plan: what it is
PARTS = {
    "compute": "products, attention and passes of layers and head",
    "recompute": "layers, or parts of them, made again in the backward pass",
    "host": "the device waits for launches",
    "tensor": "sums and gathers over the tensor axis that nothing hides",
    "context": "keys and values passed round that attention does not hide, or heads sent to all and back",
    "expert": "tokens sent to their experts and back",
    "pipeline": "sends between stages; the gradient of a table that the first and the last have",
    "data": "gradients summed, parameters gathered, as far as not hidden",
    "bubble": "stages wait for the first and the last micro-batch, or for the slowest stage",
    "optimizer": "the update of parameters",
    "interference": "computing slowed by what passes beside it",
    "offload": "activations or state on their way to the host and back, as far as not hidden",
}
#: of a program, beside what each dimension of its network exposes
PROGRAM_PARTS = {
    "compute": "segments between communications",
    "interference": "communication beside it slows computing",
    "wait": "devices wait for others",
    "host": "the device waits for launches",
}


def parts_table(result: Any) -> Table:
    """Parts of a step, the largest first."""
    known = PROGRAM_PARTS if result.plan is None else PARTS
    rows = [
        {"part": name, "seconds": value, "share": value / result.seconds,
         "what": known.get(name, "passes between devices, nothing hides it")}
        for name, value in sorted(result.parts.items(), key=lambda item: -item[1])
        if abs(value) > 1e-9 * result.seconds
    ]  # fmt: skip
    return Table(rows)
