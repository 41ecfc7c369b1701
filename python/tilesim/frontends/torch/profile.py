"""Times eager torch per operation, with the operation names of the graph."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch
from torch.export.graph_signature import InputKind

from ...graph import Graph
from .frontend import decomposed, export
from .importing import Importer
from .nodes import name_of

__all__ = ["exported", "seconds_by_name"]


def exported(module: Any, args: Any) -> tuple[Any, Graph]:
    """Exports a program in functional form, and reads its graph."""
    program = decomposed(export(module, () if args is None else args))
    importer = Importer(program, type(module).__name__, functions=False)
    graph = importer.run()
    graph.remove_dead_code()
    graph.defaults.update(importer.state)
    return program, graph


class _Timed(torch.fx.Interpreter):
    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.seconds: dict[str, float] = {}

    def run_node(self, n: Any) -> Any:
        start = time.perf_counter()
        value = super().run_node(n)
        if n.op == "call_function":
            name = name_of(n)
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        return value


def _values(program: Any, args: Any) -> list[Any]:
    """Returns the values of the program's placeholders: parameters, buffers, constants, user inputs."""
    state: Mapping[str, Any] = {**program.constants, **program.state_dict}
    users = iter(torch.utils._pytree.tree_leaves(((args if isinstance(args, (tuple, list)) else (args,)), {})))
    return [
        next(users) if spec.kind == InputKind.USER_INPUT else state[spec.target]
        for spec in program.graph_signature.input_specs
    ]


def seconds_by_name(program: Any, args: Any, runs: int) -> dict[str, float]:
    """Runs an exported program on eager torch; returns the shortest time of each operation in seconds."""
    best: dict[str, float] = {}
    values = _values(program, args)
    with torch.no_grad():
        torch.fx.Interpreter(program.graph_module).run(*values)  # warms up threads and caches
        for _ in range(runs):
            timed = _Timed(program.graph_module)
            timed.run(*values)
            best = {name: min(s, best.get(name, s)) for name, s in timed.seconds.items()}
    return best
