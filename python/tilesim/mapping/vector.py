"""Mappings of vector kernels: tile sizes, lane axis, buffers."""

from __future__ import annotations

import json
from typing import Any

from .. import _core
from ..base.checked import checked_class
from ..base.errors import user_error
from .fields import pieces_text

__all__ = ["VectorKernel"]


@checked_class()
class VectorKernel:
    """A kernel of the vector unit (elementwise, reduction, normalization, window, scan) with its chosen tiles."""

    kind = "vector"

    def __init__(self, function: str, operation: str, nest: dict[str, Any], problem: _core.VectorProblem) -> None:
        """Stores a choice of the compiler; use `tilesim.mapping.kernels`."""
        self.function, self.operation, self.nest, self.problem = function, operation, nest, problem
        self.info: dict[str, Any] = dict(problem.info)
        self.divided: list[VectorKernel] = []  # parts of the same kernel, split over several contexts of a core

    @property
    def sizes(self) -> tuple[int, ...]:
        """The extent of every axis, in elements."""
        return tuple(self.info["space"])

    @property
    def names(self) -> list[str]:
        """Names of the axes: "0", "1", ..."""
        return [str(axis) for axis in range(len(self.info["space"]))]

    @property
    def key(self) -> str:
        """Text of everything that determines the best tiles, except names; kernels with equal keys share tiles."""
        parts = {key: value for key, value in self.info.items() if key != "operation"}
        return json.dumps(parts, sort_keys=True)

    def legal(self, nest: dict[str, Any]) -> tuple[bool, str]:
        """Whether the machine can run these tiles.

        Args:
            nest: tiles, lane, depth.

        Returns:
            The verdict, and the broken rule.
        """
        legal, reason = self.problem.legal(nest)
        return bool(legal), str(reason)

    def cost(self, nest: dict[str, Any] | None = None) -> dict[str, Any]:
        """Computes traffic and estimated time of tiles.

        Args:
            nest: the chosen tiles by default.

        Returns:
            `read_bytes` and `written_bytes` (of kernels that compute: the program's, exactly), `transfers`,
            `vector_cycles` (in which the vector units of all cores compute), `compute_cycles`, `memory_cycles`,
            `cycles` (an estimate to rank with), `limit`, and `bound_cycles` (every operand once at the peak bandwidth).
        """
        return dict(self.problem.cost(nest or self.nest))

    def plan(self, nest: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Returns the loops and buffers of a data-movement kernel.

        Args:
            nest: the chosen tiles by default.

        Returns:
            `loops` (axis, trips), `buffers` (name, dtype, elements, depth), whether the cross-lane unit permutes a tile
            (`permuted`), and `pieces` (commits until a tile may be used). None for kernels that compute and for
            gathers of rows by index.

        Raises:
            UserError: for tiles that are not legal.
        """
        return self.problem.plan(nest or self.nest)

    def candidates(self, count: int) -> tuple[list[tuple[dict[str, Any], dict[str, Any]]], float]:
        """Returns the tiles with the least estimated time.

        Args:
            count: how many at most.

        Returns:
            Tiles with their cost, by rising estimate; and a lower bound of the cycles.
        """
        return self.problem.search(max(1, count)), float(self.cost()["bound_cycles"])

    def text(self, nest: dict[str, Any] | None = None) -> str:
        """Formats tiles as loops.

        Args:
            nest: the chosen tiles by default.

        Returns:
            One line: loops with trips and tile, axis over the lanes, buffers.

        Raises:
            UserError: for tiles that are not legal.
        """
        if nest is None:
            nest = self.nest
        else:
            legal, reason = self.legal(nest)
            if not legal:
                raise user_error("illegal nest", place=self.operation, value=reason)
        space = self.info["space"]
        pairs = list(enumerate(zip(space, nest["tiles"], strict=True)))
        loops = [f"{axis}:{-(-extent // tile)}x{tile}" for axis, (extent, tile) in pairs if tile < extent]
        whole = [f"{axis}={extent}" for axis, (extent, tile) in pairs if tile >= extent]
        lane = f"lanes over {nest['lane']}" if space else "one element"
        pieces = pieces_text(nest, self.names)
        return f"for {' '.join(loops) or '-'} | tile {', '.join(whole)}{pieces} | {lane} | buffers {nest['depth']}"

    def __repr__(self) -> str:
        """Name and sizes."""
        return f"<VectorKernel {self.operation} {'x'.join(map(str, self.sizes))}>"
