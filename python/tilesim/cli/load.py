"""What the command line takes as a workload, and how it writes files."""

from __future__ import annotations

import json
import sys
from typing import Any

from ..base.errors import user_error
from ..base.files import writing
from ..loading import load, load_graph

__all__ = ["WHAT", "load", "load_graph", "write"]

WHAT = "A network's name, matmul:M,N,K[,dtype], or a file (.json, .tsim, .onnx, .mlir, .csv, .yaml)."


def write(data: Any, target: str) -> None:
    """Writes JSON.

    Args:
        data: what to write.
        target: a path; - for standard output.

    Raises:
        UserError: when the file cannot be written, or standard output is closed.
    """
    text = json.dumps(data, indent=1)
    if target == "-":
        if sys.stdout is None:
            raise user_error("standard output is closed", value="-", allowed="a path")
        sys.stdout.write(text + "\n")
        return
    with writing(target) as file:
        file.write(text + "\n")
