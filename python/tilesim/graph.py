"""Graphs: the workload as operations on tensors, and a builder in the manner of numpy."""

from ._builder import GraphBuilder
from ._errors import nearest as nearest
from ._errors import user_error as user_error
from ._graph import Graph
from ._tensor import Tensor

__all__ = ["Graph", "GraphBuilder", "Tensor"]
