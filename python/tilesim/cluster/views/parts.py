"""Parts of a step: meanings and table."""

from __future__ import annotations

from typing import Any

from ...base.table import Table

__all__ = ["PARTS", "PROGRAM_PARTS", "parts_table"]

#: parts of a step under a plan -> their meaning
PARTS = {
    "compute": "products, attention and other operations of layers and head",
    "recompute": "layers, or parts of them, recomputed in the backward pass",
    "host": "the device waits for launches",
    "tensor": "exposed reductions and gathers over the tensor axis",
    "context": "exposed ring of keys and values, or all-to-all of heads",
    "expert": "tokens sent to their experts and back",
    "pipeline": "sends between stages; gradient of a table shared by the first and the last stage",
    "data": "exposed reduction of gradients and gathers of parameters",
    "bubble": "stages wait for the first and the last micro-batch, or for the slowest stage",
    "optimizer": "the update of parameters",
    "interference": "compute slowed by overlapped communication",
    "offload": "exposed transfers of activations or state to and from the host",
}
#: the same for a program's step, without exposed communication per dimension
PROGRAM_PARTS = {
    "compute": "segments between communications",
    "interference": "compute slowed by overlapped communication",
    "wait": "devices wait for others",
    "host": "the device waits for launches",
}


def parts_table(result: Any) -> Table:
    """Lists the parts of a step, largest first."""
    known = PROGRAM_PARTS if result.plan is None else PARTS
    rows = [
        {"part": name, "seconds": value, "share": value / result.seconds,
         "what": known.get(name, "exposed communication")}
        for name, value in sorted(result.parts.items(), key=lambda item: -item[1])
        if abs(value) > 1e-9 * result.seconds
    ]  # fmt: skip
    return Table(rows)
