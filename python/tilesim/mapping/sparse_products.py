"""Plans products for cores whose multipliers skip zeros: formats, tiles, and the split between core types."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..base.dtypes import NUMPY
from ..graph import GraphBuilder
from ..graph.graph import Graph
from ..machine.machine import Machine
from ..program.sparse_times import FORMS, SparsePlan, sparse_cores, tile_times
from .kernels import products

__all__ = ["with_sparse_products"]

MOST_ELEMENTS = 1 << 24
"""Largest operand whose pattern is read."""
PARTS = 16
"""Candidate places to divide a product between dense and sparse cores."""
TRIED = 4
"""Number of tile sizes whose cycles are counted."""
MOST_OPERATIONS = 2000
"""Largest graph whose calls are inlined for given activations when no weight has zeros."""


_NOT_INLINED = "products in called layers are timed as dense: inlined layers would make {count:,} operations"
_Candidates = list[tuple[dict[str, Any], list[str | None]]]


def with_sparse_products(graph: Graph, machine: Machine) -> Graph:
    """Plans the products of a graph's sparse matrices for the machine's sparse cores."""
    cores = sparse_cores(machine)
    if cores is None or not any(op["kind"] in ("contract", "call") for op in graph.operations()):
        return graph
    changed = graph.copy()
    calls = any(op["kind"] == "call" for op in changed.operations())
    if calls:
        changed.inline_calls()
    found = _candidates(changed)
    if calls and cores["dense"] is None and found and not any(any(held) for _, held in found):
        count = len(changed.operations())
        if count > MOST_OPERATIONS:
            told, line = graph.copy(), _NOT_INLINED.format(count=count)
            told.assumptions += [] if line in told.assumptions else [line]
            return told
    plans = _plans(changed, found, cores, machine)
    if not plans:
        return graph
    with changed._changed() as core:
        for plan, marked in plans:
            _core.mark_sparse_products(core, dict(marked), plan.numbers, plan.weights)
    return changed


class _SparsePlan(NamedTuple):
    """The plan of products, which becomes their attribute."""

    numbers: list[int]
    weights: dict[str, Any]
    counted: bool
    """Whether cycles count zeros; else they are for dense cores."""


def _plans(
    graph: Graph, candidates: _Candidates, cores: Mapping[str, Any], machine: Machine
) -> list[tuple[_SparsePlan, list[tuple[str, str]]]]:
    """Returns plans with their products and unknown operands; one plan per shape if the zeros are unknown."""
    found: list[tuple[_SparsePlan, list[tuple[str, str]]]] = []
    alike: dict[str, tuple[_SparsePlan, list[tuple[str, str]]] | None] = {}
    for op, held in candidates:
        key = repr([[(row["shape"], row["dtype"]) for row in op[some] if row] for some in ("operands", "results")])
        key += repr(sorted(op["attributes"].items()))
        if any(held) or key not in alike:
            plan = _planned(_read(graph, op, held), cores, machine)
            entry: tuple[_SparsePlan, list[tuple[str, str]]] | None = None if plan is None else (plan, [])
            found += [entry] if entry else []
        else:
            entry = alike[key]
        if not any(held):
            alike[key] = entry
        if entry:
            rows = [row for row in op["operands"] if row is not None]
            lacking = " and ".join(row["name"] for row, name in zip(rows, held, strict=True) if name is None)
            told = f"as if {lacking} were dense" if lacking and entry[0].counted else ""
            entry[1].append((op["name"], told))
    return found


def _candidates(graph: Graph) -> _Candidates:
    """Finds plain products of two matrices without batches, and the weights with their zeros."""
    operations, weights = graph.operations(), graph.weights()
    references = {
        op["results"][0]["name"]: op["attributes"]["reference"] for op in operations if op["kind"] == "constant"
    }
    found: _Candidates = []
    for op in operations:
        own = op["attributes"]
        if op["kind"] != "contract" or "a_tiles" in own or "b_tiles" in own or "sparse" in own:
            continue
        operands = [row for row in op["operands"] if row is not None]
        plain = len(operands) == 2 and not own.get("a_batch") and not own.get("b_batch")
        sizes = [math.prod(row["shape"]) for row in operands]
        matrices = plain and len(own.get("a_contract", [1])) == 1 and all(len(row["shape"]) == 2 for row in operands)
        if matrices and min(sizes) > 0 and max(sizes) <= MOST_ELEMENTS:
            names = [references.get(row["name"]) for row in operands]
            known = [name if name is not None and weights[name]["source"] != "random" else None for name in names]
            found.append((op, known))
    return found


@dataclass(frozen=True)
class _SparseProduct:
    """A product of [m, k] and [k, n], with its operands as far as they are known."""

    op: Mapping[str, Any]
    values: tuple[NDArray[Any] | None, NDArray[Any] | None]
    patterns: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    dtypes: tuple[str, str, str]

    @cached_property
    def densities(self) -> tuple[float, float]:
        """The densities of both operands."""
        a, b = (1.0 if m is None else float(p.mean()) for m, p in zip(self.values, self.patterns, strict=True))
        return a, b

    @property
    def extents(self) -> tuple[int, int, int]:
        (m, k), (_, n) = (pattern.shape for pattern in self.patterns)
        return m, n, k


def _read(graph: Graph, op: Mapping[str, Any], held: Sequence[str | None]) -> _SparseProduct:
    """Reads a product and the values of its operands in these weights (None: unknown values)."""
    known, patterns = [], []
    for side, row, name in zip("ab", op["operands"][:2], held, strict=True):
        axis = int(op["attributes"].get(f"{side}_contract", [1 if side == "a" else 0])[0])
        turned = axis != (1 if side == "a" else 0)
        matrix = None if name is None else graph.weight(name).T if turned else graph.weight(name)
        shape = tuple(row["shape"])[::-1] if turned else tuple(row["shape"])
        known.append(matrix)
        patterns.append(np.broadcast_to(np.True_, shape) if matrix is None else np.asarray(matrix != 0))
    dtypes = (op["operands"][0]["dtype"], op["operands"][1]["dtype"], op["results"][0]["dtype"])
    return _SparseProduct(op, (known[0], known[1]), (patterns[0], patterns[1]), dtypes)


def _planned(product: _SparseProduct, cores: Mapping[str, Any], machine: Machine) -> _SparsePlan | None:
    """Plans a product; returns None if sparse cores cannot run it."""
    op, rates = product.op, cores["machine"].get("core.array.rates")
    dtype = op["operands"][0]["dtype"]
    if dtype not in rates or op["operands"][1]["dtype"] != dtype or op["attributes"].get("precision") == "exact":
        return None
    zeros = [m is not None and not p.all() for m, p in zip(product.values, product.patterns, strict=True)]
    if not any(zeros) and cores["dense"] is not None:
        return _all_dense(product) if cores["only"] else None
    if not any(zeros) and cores["dataflow"] == "inner":
        return None
    forms = tuple(_form(product, side) for side in (0, 1))
    plan = _fastest_plan(product, forms, cores, machine)
    if plan is None:
        return _all_dense(product) if cores["only"] else None
    parts = plan.parts(*product.patterns)
    cycles, done = tile_times(cores, *parts, plan.tiles, plan.hold)
    weights: dict[str, Any] = {"cycles": cycles, "products": done}
    known = [p if m is None else m for m, p in zip(product.values, product.patterns, strict=True)]
    for side, name in enumerate("ab"):
        if plan.forms[side] == 0:
            continue
        tile = (plan.tiles[0], plan.tiles[2]) if side == 0 else (plan.tiles[2], plan.tiles[1])
        stored = _tile_order(plan.parts(*known)[side], tile, FORMS[plan.forms[side]], product.dtypes[side])
        weights.update({f"{name}.{key}": array for key, array in stored.items()})
    a, b = product.patterns
    lacking = any(matrix is None for matrix in product.values)
    both = -1 if lacking else int(a.sum(axis=0, dtype=np.int64) @ b.sum(axis=1, dtype=np.int64))
    plan = replace(plan, bytes=(_operand_bytes(product, forms, 0), _operand_bytes(product, forms, 1)), products=both)
    return _SparsePlan(plan.numbers, weights, True)


def _all_dense(product: _SparseProduct) -> _SparsePlan:
    plan = SparsePlan(1, product.extents[1], (1, 1, 1), (0, 0), (0, 0), 0)
    nothing = np.zeros((1, 1, 1), np.int64)
    return _SparsePlan(plan.numbers, {"cycles": nothing, "products": nothing}, False)


def _operand_bytes(product: _SparseProduct, forms: tuple[int, ...], side: int) -> int:
    """Returns the bytes of a full operand in its format, or 0 if it is dense."""
    pattern = product.patterns[side]
    if forms[side] == 0:
        return 0
    return int(
        min(_bytes(product, forms, side, pattern.size, len(pattern)), pattern.size * _element(product.dtypes[side]))
    )


def _form(product: _SparseProduct, side: int) -> int:
    """Returns an operand's format: that of the operation, or the smallest format."""
    if product.values[side] is None:
        return 0
    stated = product.op["attributes"].get(f"{'ab'[side]}_format")
    if stated in ("bitmap", "csr"):
        return FORMS.index(stated)
    pattern, element = product.patterns[side], np.dtype(NUMPY[product.dtypes[side]]).itemsize
    left = int(pattern.sum())
    sizes = [element * pattern.size, element * left + pattern.size // 8, (element + 4) * left + 4 * (len(pattern) + 1)]
    return int(np.argmin(sizes))


def _tile_order(matrix: NDArray[Any], tile: tuple[int, int], form: str, dtype: str) -> dict[str, Any]:
    """Stores the tiles of a matrix in order."""
    values, marks, indices = [], [], []
    starts, places = [0], [0]
    for i in range(0, matrix.shape[0], tile[0]):
        for j in range(0, matrix.shape[1], tile[1]):
            part = matrix[i : i + tile[0], j : j + tile[1]]
            kept = part != 0
            values.append(part[kept])
            if form == "bitmap":
                marks.append(np.packbits(kept))
            else:
                marks.append(np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.int32))
                indices.append(np.nonzero(kept)[1].astype(np.int32))
            starts.append(starts[-1] + len(values[-1]))
            places.append(places[-1] + len(marks[-1]))
    held = {
        "values": np.concatenate(values).astype(NUMPY[dtype]),
        "marks": np.concatenate(marks),
        "starts": np.asarray(starts, np.int32),
        "marks_at": np.asarray(places, np.int32),
    }
    if form == "csr":
        held["indices"] = np.concatenate(indices)
    # a graph cannot hold a tensor without elements
    return {key: array if array.size else np.zeros(1, array.dtype) for key, array in held.items()}


def _element(dtype: str) -> int:
    return int(np.dtype(NUMPY[dtype]).itemsize)


def _bytes(product: _SparseProduct, forms: tuple[int, ...], side: int, size: float, rows: float) -> float:
    """Returns the stored bytes of an operand's part with these numbers of elements and rows."""
    element = _element(product.dtypes[side])
    if forms[side] == 0:
        return element * size
    left = size * product.densities[side]
    return element * left + size / 8 if forms[side] == 1 else (element + 4) * left + 4 * (rows + 1)


def _sizes(extent: int) -> list[int]:
    """Lists an extent and its repeated halves."""
    found = [extent]
    while found[-1] > 1:
        found.append(-(-found[-1] // 2))
    return found


def _slot_bytes(product: _SparseProduct, forms: tuple[int, ...], side: int, tile: tuple[int, int]) -> int:
    """Bytes of the slots for an operand's tile, enough for a tile without zeros."""
    elements = tile[0] * tile[1]
    element = _element(product.dtypes[side])
    return elements * element + (0, elements // 8 + 1, 4 * elements + 4 * tile[0] + 4)[forms[side]]


def _tiles(
    product: _SparseProduct, forms: tuple[int, ...], extents: tuple[int, int, int], room: int
) -> list[tuple[float, int, tuple[int, int, int]]]:
    """Lists tiles that fit with bytes moved, number and sizes; fewest bytes first, then fewest tiles."""
    m, n, k = extents
    sums = 8 if product.dtypes[2] in ("f64", "i64") else 4
    found = []
    for high in _sizes(m):
        for wide in _sizes(n):
            for deep in _sizes(k):
                trips = (-(-m // high), -(-n // wide), -(-k // deep))
                depth = 2 if np.prod(trips) > 1 else 1
                held = _slot_bytes(product, forms, 0, (high, deep)) + _slot_bytes(product, forms, 1, (deep, wide))
                held += high * wide * (sums + _element(product.dtypes[2]))
                if depth * held + 8 * 64 * depth > room:
                    continue
                moved = _bytes(product, forms, 0, m * k * trips[1], m * trips[1] * trips[2])
                moved += _bytes(product, forms, 1, k * n * trips[0], k * trips[0] * trips[1])
                moved += m * n * _element(product.dtypes[2])
                found.append((moved, int(np.prod(trips)), (high, wide, deep)))
    return sorted(found)


class _Price(NamedTuple):
    """The cost of a part: cycles, bytes of memory, and cycles in which only memory works."""

    cycles: float
    bytes: float
    waits: float


class _Prices:
    """Prices parts of a product on dense and on sparse cores, in cycles of the machine."""

    def __init__(
        self, product: _SparseProduct, forms: tuple[int, ...], cores: Mapping[str, Any], machine: Machine
    ) -> None:
        self.product, self.forms, self.cores = product, forms, cores
        settings = machine.to_dict()
        memory = settings["memory"]
        rate = float(_core.parse_bandwidth(memory["bandwidth"])) * float(memory["efficiency"]) / machine.hertz
        own = cores["machine"].to_dict()
        self.slower = machine.hertz / cores["machine"].hertz
        port = min(int(own["core"]["dma"]["bytes_per_cycle"]), int(settings["network"]["port_bytes_per_cycle"]))
        self.shared, self.rate = rate, min(rate, float(port))
        self.count = int(own["core"]["count"])
        self.room = int(_core.parse_bytes(own["core"]["scratchpad"]["bytes"]))
        self.dense_machine = machine.only(cores["dense"]) if cores["dense"] is not None else None
        self._dense: dict[tuple[int, int, int], _Price] = {}

    def sparse(self, cut: int, start: int) -> tuple[_Price, SparsePlan]:
        """The cost of the part from `start` on, and its best plan."""
        forms = (self.forms[0], self.forms[1])
        empty = SparsePlan(cut, start, (1, 1, 1), forms, (0, 0), 0)
        a, b = empty.parts(*self.product.patterns)
        if not (a.size and b.size):
            return _Price(0.0, 0.0, 0.0), empty
        best = _Price(float("inf"), 0.0, 0.0), empty
        for moved, trips, tiles in _tiles(self.product, forms, (len(a), b.shape[1], a.shape[1]), self.room)[:TRIED]:
            for hold in (0, 1) if self.product.values[1] is not None else (0,):
                plan = SparsePlan(cut, start, tiles, forms, (0, 0), hold)
                cycles, _ = tile_times(self.cores, a, b, tiles, hold)
                tiles_here = -(-cycles.shape[0] * cycles.shape[1] // self.count) * cycles.shape[2]
                work = self.slower * float(cycles.sum()) * tiles_here / trips
                memory = moved / self.rate
                # the first tile's loads and the last one's store overlap with nothing
                taken = max(work, memory) + min(work, memory) / max(1, tiles_here)
                if taken < best[0].cycles:
                    best = _Price(taken, moved, taken - work), plan
        return best

    def dense(self, cut: int, until: int) -> _Price:
        """The cost of the part before `until`."""
        m, n, k = self.product.extents
        size = (until, n, k) if cut == 0 else (m, until, k)
        if until == 0 or self.dense_machine is None:
            return _Price(0.0, 0.0, 0.0)
        if size not in self._dense:
            b = GraphBuilder("part", dtype=self.product.dtypes[0])
            b.output(b.matmul(b.input("a", (size[0], k)), b.input("b", (k, size[1])), name="part"), "y")
            cost = products(b.build(), self.dense_machine)[0].cost()
            cycles = float(cost["cycles"])
            self._dense[size] = _Price(cycles, float(sum(cost["bytes"])), cycles - float(cost["compute_cycles"]))
        return self._dense[size]

    def concurrent(self, cut: int, start: int) -> tuple[float, SparsePlan]:
        """Returns the cycles of two concurrent parts; a memory-bound part also waits for the other part's bytes."""
        (sparse, plan), dense = self.sparse(cut, start), self.dense(cut, start)
        ends = [
            own.cycles + max(0.0, min(own.waits, other.bytes / self.shared))
            for own, other in ((sparse, dense), (dense, sparse))
            if own.cycles > 0
        ]
        return max(*ends, (sparse.bytes + dense.bytes) / self.shared, 0.0), plan


def _fastest_plan(
    product: _SparseProduct, forms: tuple[int, ...], cores: Mapping[str, Any], machine: Machine
) -> SparsePlan | None:
    """Returns the fastest plan; None if dense cores are faster or no tile fits."""
    prices = _Prices(product, forms, cores, machine)
    if cores["dense"] is None:
        price, plan = prices.sparse(0, 0)
        return plan if np.isfinite(price.cycles) else None
    all_dense = prices.dense(0, product.extents[0]).cycles
    best: tuple[float, SparsePlan | None] = (all_dense, None)
    for cut in (1, 0):
        extent = product.extents[cut]
        places = sorted({round(extent * part / PARTS) for part in range(PARTS)})
        low, high = 0, len(places) - 1
        while high - low > 1:  # a later begin makes the sparse part end sooner and the dense part later
            middle = (low + high) // 2
            sooner = prices.dense(cut, places[middle]).cycles < prices.sparse(cut, places[middle])[0].cycles
            low, high = (middle, high) if sooner else (low, middle)
        for place in sorted({0, low, high}):
            taken, plan = prices.concurrent(cut, places[place])
            if taken < best[0]:
                best = taken, plan
    return best[1]
