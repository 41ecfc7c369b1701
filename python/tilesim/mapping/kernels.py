"""Products and other kernels of a graph with their nests, and the least traffic of a product."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from .. import _core
from ..base.arguments import integer
from ..base.checked import checked, checked_class
from ..base.errors import user_error
from ..graph import Graph
from ..machine.machine import Machine
from ..program.fusion import rules_text
from .entries import Nest
from .fields import pieces_text
from .integer_products import with_integer_products
from .vector import VectorKernel

__all__ = ["Product", "kernels", "least_traffic", "products"]

MOST_EXTENT = 2**40  # largest extent of a product with exhaustive search, and largest buffer
MOST_TRIED = 2**52  # limit of m * n * k: the core tries about 8 * sqrt of it, and counts words in 64 bits


@checked_class()
class Product:
    """A product (contract or convolution) of a compiled graph, with its loops and chosen nest."""

    kind = "product"

    def __init__(self, function: str, operation: str, nest: Nest, problem: _core.MappingProblem) -> None:
        """Stores a choice of the compiler; use `products`."""
        self.function, self.operation, self.nest, self.problem = function, operation, nest, problem
        self.info: dict[str, Any] = dict(problem.info)
        self.divided: list[Product] = []  # parts of the same kernel, split over several contexts of a core

    def _extent(self, group: str) -> int:
        return math.prod(self.info["extents"][dim] for dim in self.info[f"{group}_dims"])

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns and contracted extent (M, N, K), in elements; a convolution as its implicit product."""
        return self._extent("m"), self._extent("n"), self._extent("k")

    @property
    def names(self) -> list[str]:
        """Names of the loops: "m", "n", "k", "ic", ..."""
        return list(self.info["names"])

    @property
    def key(self) -> str:
        """Text of everything that determines the best nest, except names; products with equal keys share a nest."""
        parts = {key: value for key, value in self.info.items() if key not in ("operation", "unit")}
        return json.dumps(parts, sort_keys=True)

    def legal(self, nest: Nest) -> tuple[bool, str]:
        """Whether the machine can run a nest.

        Args:
            nest: tiles, order, depths.

        Returns:
            The verdict, and the broken rule.
        """
        legal, reason = self.problem.legal(nest)
        return bool(legal), str(reason)

    def cost(self, nest: Nest | None = None) -> dict[str, Any]:
        """Computes traffic and time of a nest by the cost model.

        Args:
            nest: the chosen one by default.

        Returns:
            `bytes` and `transfers` of a, b and result (of an a or b that is computed on chip: of its sources);
            `epilogue_bytes` that are read with the finished tiles; `compute_cycles`, `epilogue_cycles`,
            `memory_cycles`; `bound_cycles` (closed form, never above `cycles`) and its `limit`; `cycles` by walking the
            tiles.
        """
        return dict(self.problem.cost(nest or self.nest))

    def candidates(self, count: int) -> tuple[list[tuple[Nest, dict[str, Any]]], float]:
        """Returns the nests with the least modelled time.

        Args:
            count: how many at most.

        Returns:
            Nests with their cost, by rising cycles of the model; and a lower bound of the cycles in the space.
        """
        found = self.problem.search(max(1, count))
        return found["best"], float(found["lower_bound"])

    def text(self, nest: Nest | None = None) -> str:
        """Formats a nest as loops.

        Args:
            nest: the chosen one by default.

        Returns:
            One line: loops outer to inner with trips and tile, depths.

        Raises:
            UserError: for a nest that is not legal.
        """
        if nest is None:
            nest = self.nest
        else:
            legal, reason = self.legal(nest)
            if not legal:
                raise user_error("illegal nest", place=self.operation, value=reason)
        loops = []
        for dim in nest["order"]:
            extent, tile = self.info["extents"][dim], nest["tiles"][dim]
            if tile < extent:
                loops.append(f"{self.names[dim]}:{-(-extent // tile)}x{tile}")
        whole = [f"{self.names[d]}={e}" for d, e in enumerate(self.info["extents"]) if nest["tiles"][d] >= e]
        unit = " on the vector unit" if nest.get("unit") == "vector" else ""
        inside = ", ".join(whole)
        pieces = pieces_text(nest, self.names)
        if nest.get("pack", -1) >= 0:
            pieces += f" | rows hold {self.names[nest['pack']]} x {self.names[self.info['k_dims'][-1]]}"
        if nest.get("unfold", 0) > 0:
            pieces += f" | unfolded {' x '.join(self.names[d] for d in self.info['k_dims'][-nest['unfold'] :])}"
        return (
            f"for {' '.join(loops) or '-'} | tile {inside}{pieces} | buffers {'/'.join(map(str, nest['depths']))}{unit}"
        )

    def __repr__(self) -> str:
        """Name and sizes."""
        return f"<Product {self.operation} {'x'.join(map(str, self.sizes))}>"


@checked()
def products(
    graph: Graph, machine: Machine | str = "tpu-v3", *, fuse: str | Sequence[str] = "all", mapping: str = "profile"
) -> list[Product]:
    """Returns the products of a graph as `compile` lowers them.

    Args:
        graph: the workload.
        machine: preset name, file, dict or Machine.
        fuse: as for `compile`.
        mapping: "profile", "heuristic", "cost", "gemmini" or "pytorchsim".

    Returns:
        One entry per product, in order.

    Raises:
        Unsupported: as `compile`.
    """
    target = Machine.load(machine)
    rows, _ = _core.mapping_choices(with_integer_products(graph, target).core, target.core, rules_text(fuse), mapping)
    return [Product(row["function"], row["operation"], row["nest"], row["problem"]) for row in rows]


@checked()
def kernels(
    graph: Graph,
    machine: Machine | str = "tpu-v3",
    *,
    fuse: str | Sequence[str] = "all",
    mapping: str = "profile",
    contexts: int = 1,
    each: int | None = None,
) -> list[Product | VectorKernel]:
    """Returns all kernels of a graph with a mapping: products, then vector kernels.

    Args:
        graph: the workload.
        machine: preset name, file, dict or Machine.
        fuse: as for `compile`.
        mapping: as for `products`; "cost" chooses tiles of vector kernels by estimate too, others by one rule.
        contexts: the program's contexts per core, which share its memories evenly.
        each: contexts that share each kernel; all by default. Extents are those of one context's part.

    Returns:
        One entry per kernel, in order.

    Raises:
        Unsupported: as `compile`.
        UserError: where a core has fewer contexts (`core.contexts`).
    """
    target = Machine.load(machine)
    core = with_integer_products(graph, target).core
    rows, vectors = _core.mapping_choices(core, target.core, rules_text(fuse), mapping, contexts, each or 0)
    chosen: list[Product | VectorKernel] = [
        Product(row["function"], row["operation"], row["nest"], row["problem"]) for row in rows
    ]
    chosen += [VectorKernel(row["function"], row["operation"], row["nest"], row["problem"]) for row in vectors]
    return chosen


@checked()
def least_traffic(m: int, n: int, k: int, words: int, sizes: str = "all") -> dict[str, Any]:
    """Searches exhaustively for a product's least off-chip traffic with one tile per operand in one buffer.

    An operand is fetched again per trip of the loop that it does not depend on, unless it depends on no loop inside
    that one; the result is written once per pass and read once per pass after the first.

    Args:
        m: rows, in elements.
        n: columns, in elements.
        k: contracted extent, in elements.
        words: capacity of the buffer, in elements, for one tile of a, b and c together.
        sizes: "all" (ragged edges allowed) or "divisors".

    Returns:
        `words` moved, `tiles` of m, n, k, and the `order` of the loops.

    Raises:
        UserError: for extents or a buffer outside 1 to 2^40, for m * n * k above 2^52, or a buffer too small for a
            tile.
    """
    m, n, k, words = (
        integer(name, value, 1, MOST_EXTENT) for name, value in (("m", m), ("n", n), ("k", k), ("words", words))
    )
    if m * n * k > MOST_TRIED:
        raise user_error("too many mappings to try", value=f"m * n * k = {m * n * k}", allowed=f"{MOST_TRIED} at most")
    found = dict(_core.least_traffic(m, n, k, words, sizes))
    if found["words"] < 0:
        raise user_error("no tile of a product fits the buffer", value=f"{words} elements", allowed="3 or more")
    return found
