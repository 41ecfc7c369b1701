"""Converts a compiled graph to the bytes of its .tsim form, with weights, and back."""

from __future__ import annotations

import os
import tempfile

from .. import _core


def in_bytes(core: _core.Graph) -> bytes:
    """Returns the content of the graph's .tsim file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.tsim")
        core.save(path, False)
        with open(path, "rb") as file:
            return file.read()


def graph_of_bytes(content: bytes) -> _core.Graph:
    """Reads a graph from the content of a .tsim file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.tsim")
        with open(path, "wb") as file:
            file.write(content)
        return _core.Graph.load(path, False)
