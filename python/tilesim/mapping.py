"""Mappings: nests by name or size, tables of them in files, and the least traffic of a product."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import _core
from ._errors import user_error, writing
from ._integer_products import with_integer_products
from ._mapping_entries import Nest, checked_entry, nest_of_product, tiles_of_vector
from ._mapping_fields import documentation, pieces_text, schema_of
from .graph import Graph
from .machine import Machine
from .mapping_vector import VectorKernel

__all__ = ["MappingTable", "Product", "VectorKernel", "kernels", "least_traffic", "products"]

ORDERS = ("M_K_N", "M_N_K")
SCHEMA, VERSION = "tilesim.mapping", 1


class Product:
    """One product (contract or convolution) of a compiled graph: its loops, and the nest that it got."""

    kind = "product"

    def __init__(self, function: str, operation: str, nest: Nest, problem: _core.MappingProblem) -> None:
        """Wraps a choice of the compiler; use `products`.

        Args:
            function: of the graph.
            operation: name within it.
            nest: tiles, order, depths, unit.
            problem: the core's description.
        """
        self.function, self.operation, self.nest, self.problem = function, operation, nest, problem
        self.info: dict[str, Any] = dict(problem.info)
        self.divided: list[Product] = []  # the same kernel, divided over several contexts of a core

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
        """What decides the best nest, without names: equal keys may share one."""
        parts = {key: value for key, value in self.info.items() if key not in ("operation", "unit")}
        return json.dumps(parts, sort_keys=True)

    def legal(self, nest: Nest) -> tuple[bool, str]:
        """Whether the machine can run a nest.

        Args:
            nest: tiles, order, depths.

        Returns:
            The verdict, and the rule that is broken.
        """
        legal, reason = self.problem.legal(nest)
        return bool(legal), str(reason)

    def cost(self, nest: Nest | None = None) -> dict[str, Any]:
        """What a nest moves and how long it takes, by the cost model.

        Args:
            nest: none: the one that was chosen.

        Returns:
            `bytes` and `transfers` of a, b and result; `compute_cycles`, `epilogue_cycles`, `memory_cycles`;
            `bound_cycles` (closed form, never above `cycles`) and its `limit`; `cycles` by walking the tiles.
        """
        return dict(self.problem.cost(nest or self.nest))

    def candidates(self, count: int) -> tuple[list[tuple[Nest, dict[str, Any]]], float]:
        """The most promising nests.

        Args:
            count: how many at most.

        Returns:
            Nests with their cost, by rising cycles of the model; and cycles that no nest of the space goes below, by
            the model.
        """
        found = self.problem.search(max(1, count))
        return found["best"], float(found["lower_bound"])

    def text(self, nest: Nest | None = None) -> str:
        """A nest as loops.

        Args:
            nest: none: the one that was chosen.

        Returns:
            One line: loops outer to inner with trips and tile, depths.
        """
        nest = nest or self.nest
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
        return (
            f"for {' '.join(loops) or '-'} | tile {inside}{pieces} | buffers {'/'.join(map(str, nest['depths']))}{unit}"
        )

    def __repr__(self) -> str:
        """Name and sizes."""
        return f"<Product {self.operation} {'x'.join(map(str, self.sizes))}>"


def products(
    graph: Graph, machine: Machine | str = "tpu-v3", fuse: str = "all", mapping: str = "profile"
) -> list[Product]:
    """The products of a graph as they are compiled.

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
    rows, _ = _core.mapping_choices(with_integer_products(graph, target).core, target.core, fuse, mapping)
    return [Product(row["function"], row["operation"], row["nest"], row["problem"]) for row in rows]


def kernels(
    graph: Graph,
    machine: Machine | str = "tpu-v3",
    fuse: str = "all",
    mapping: str = "profile",
    contexts: int = 1,
    each: int | None = None,
) -> list[Product | VectorKernel]:
    """Everything of a graph that has a mapping: its products, then its vector kernels.

    Args:
        graph: the workload.
        machine: preset name, file, dict or Machine.
        fuse: as for `compile`.
        mapping: as for `products`; "cost" chooses tiles of vector kernels by estimate too, others by one rule.
        contexts: of a core, that the program has: they share its memories evenly.
        each: contexts that share each kernel; none: all of them. Extents are those of one context's part.

    Returns:
        One entry per kernel, in order.

    Raises:
        Unsupported: as `compile`.
        UserError: where a core has fewer contexts (`core.contexts`).
    """
    target = Machine.load(machine)
    core = with_integer_products(graph, target).core
    rows, vectors = _core.mapping_choices(core, target.core, fuse, mapping, contexts, each or 0)
    chosen: list[Product | VectorKernel] = [
        Product(row["function"], row["operation"], row["nest"], row["problem"]) for row in rows
    ]
    chosen += [VectorKernel(row["function"], row["operation"], row["nest"], row["problem"]) for row in vectors]
    return chosen


def least_traffic(m: int, n: int, k: int, words: int, sizes: str = "all") -> dict[str, Any]:
    """Least off-chip traffic of a product with one tile of each operand in one buffer, by trying every mapping.

    An operand is fetched again per trip of the loop that it does not depend on, unless no loop inside that one is its
    own; the result is written once per pass and read once per pass after the first.

    Args:
        m: rows, in elements.
        n: columns, in elements.
        k: contracted extent, in elements.
        words: capacity of the buffer, in elements, for one tile of a, b and c together.
        sizes: "all" (ragged edges allowed) or "divisors".

    Returns:
        `words` moved, `tiles` of m, n, k, and the `order` of the loops.

    Raises:
        UserError: for an extent below 1, or a buffer that holds no tile.
    """
    found = dict(_core.least_traffic(m, n, k, words, sizes))
    if found["words"] < 0:
        raise user_error("no tile of a product fits the buffer", value=f"{words} elements", allowed="3 or more")
    return found


class MappingTable(Mapping[str, Any]):
    """Nests for products, by size ("M_K_N") or by operation name, and tiles of vector kernels, by name.

    A size gives TILE_M, TILE_K, TILE_N in elements. A product's name gives a whole nest: `tiles` by loop name (or as a
    list), `order` (loop names or numbers, outer to inner), `depths` (buffers of a, b, result), `unit`. A vector
    kernel's name gives `tiles` by axis, `lane` (the axis over the lanes) and `depth` (buffers). After `compile` the
    table knows which kernels found an entry (`hits`), which products did not (`misses`), and which entries could not be
    used (`illegal`).
    """

    def __init__(self, entries: Mapping[str, Any] | None = None, order: str = "M_K_N", source: str = "table") -> None:
        """Checks entries.

        Args:
            entries: size or operation name to its nest.
            order: how a key of three sizes reads: "M_K_N" or "M_N_K".
            source: where they come from, for messages.

        Raises:
            UserError: for a malformed key, an unknown field, a size below 1; with its place.
        """
        if order not in ORDERS:
            raise user_error("unknown order of sizes", value=f"'{order}'", allowed=", ".join(ORDERS))
        self.order, self.source = order, source
        self.entries: dict[str, dict[str, Any]] = {}
        self.hits: list[str] = []
        self.misses: list[str] = []
        self.illegal: dict[str, str] = {}
        self.notes: list[str] = []
        for key, entry in (entries or {}).items():
            self.entries[str(key)] = checked_entry(str(key), entry, f"{source}: {key}")

    @classmethod
    def load(cls, path: str | os.PathLike[str], order: str | None = None) -> MappingTable:
        """Reads a table.

        Args:
            path: JSON: sizes at the top level, or the form that `save` writes.
            order: of the sizes in keys; none: what the file says, else "M_K_N".

        Returns:
            The table.

        Raises:
            UserError: for bad JSON, another schema, a newer version, or a bad entry, with its place.
        """
        name = os.fspath(path)
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError as error:
            raise user_error("cannot read the table", value=f"'{name}'", suggestion=error.strerror or "") from None
        except UnicodeDecodeError:
            raise user_error("a table is a JSON text", value=f"'{name}'") from None
        data = json.loads(_core.parse_json(text, name))
        if not isinstance(data, dict):
            raise user_error("a table is a JSON object", place=name, value=type(data).__name__)
        if "schema" not in data:
            return cls(data, order or "M_K_N", name)
        if data["schema"] != SCHEMA:
            raise user_error("another kind of file", place=name, value=f"'{data['schema']}'", allowed=SCHEMA)
        if data.get("version") != VERSION:
            raise user_error("a version that cannot be read", place=name, value=str(data.get("version")), allowed="1")
        unknown = sorted(set(data) - {"schema", "version", "order", "entries"})
        if unknown or not isinstance(data.get("entries"), dict):
            raise user_error("wrong keys", place=name, value=", ".join(unknown), allowed="order, entries")
        return cls(data["entries"], order or data.get("order", "M_K_N"), name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the table.

        Args:
            path: JSON file.
        """
        data = {"schema": SCHEMA, "version": VERSION, "order": self.order, "entries": self.entries}
        with writing(path) as file:
            json.dump(data, file, indent=1)

    @staticmethod
    def schema() -> dict[str, Any]:
        """JSON schema of what `save` writes.

        Returns:
            The schema.
        """
        forms = [schema_of(form) for form in ("sizes", "product", "vector")]
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": SCHEMA,
            "type": "object",
            "properties": {
                "schema": {"const": SCHEMA},
                "version": {"const": VERSION},
                "order": {"enum": list(ORDERS)},
                "entries": {"type": "object", "additionalProperties": {"anyOf": forms}},
            },
            "required": ["schema", "version", "entries"],
            "additionalProperties": False,
        }

    @staticmethod
    def documentation() -> str:
        """Every field of an entry.

        Returns:
            A Markdown table.
        """
        return documentation()

    @property
    def contexts(self) -> int:
        """The most contexts of a core that an entry asks for, as a count."""
        return max((int(entry.get("contexts", 1)) for entry in self.entries.values()), default=1)

    def nests_for(self, graph: Graph, machine: Machine, fuse: str = "all") -> dict[str, Nest]:
        """As `nests`, for the kernels of a graph; each as its entry divides it over the contexts of a core.

        Args:
            graph: the workload.
            machine: the target.
            fuse: as for `compile`.

        Returns:
            Operation name to a legal nest, for the kernels that the table knows.

        Raises:
            UserError: where a core has fewer contexts than an entry asks for.
        """
        most = self.contexts
        chosen = kernels(graph, machine, fuse, contexts=most, each=1)
        for count in sorted({int(entry.get("contexts", 1)) for entry in self.entries.values()} - {1}):
            divided = {kernel.operation: kernel for kernel in kernels(graph, machine, fuse, contexts=most, each=count)}
            for at, kernel in enumerate(chosen):
                key = self._key_of(kernel)
                if key is not None and self.entries[key].get("contexts", 1) == count:
                    chosen[at] = divided[kernel.operation]
        return self.nests(chosen)

    def nests(self, chosen: Sequence[Product | VectorKernel]) -> dict[str, Nest]:
        """Resolves the table for the kernels of a graph, and fills `hits`, `misses`, `illegal`.

        Args:
            chosen: from `kernels` or `products`.

        Returns:
            Operation name to a legal nest, for the kernels that the table knows.
        """
        self.hits, self.misses, self.illegal = [], [], {}
        used: set[str] = set()
        found: dict[str, Nest] = {}
        for product in chosen:
            key = self._key_of(product)
            if key is None:
                if isinstance(product, Product):
                    self.misses.append(product.operation)
                continue
            used.add(key)
            try:
                place = f"{self.source}: {key}"
                entry = self.entries[key]
                if isinstance(product, VectorKernel):
                    nest = tiles_of_vector(product, entry, place)
                else:
                    nest = nest_of_product(product, entry, place)
            except _core.UserError as error:
                self.illegal[product.operation] = str(error)
                continue
            legal, reason = product.legal(nest)
            if legal:
                found[product.operation] = nest
                self.hits.append(product.operation)
            else:
                self.illegal[product.operation] = f"{self.source}: {key}: {reason}"
        self.unused = [key for key in self.entries if key not in used]
        return found

    unused: list[str] = []  # noqa: RUF012 (replaced, never changed)

    def _key_of(self, product: Product | VectorKernel) -> str | None:
        if isinstance(product, VectorKernel):
            return product.operation if product.operation in self.entries else None
        m, n, k = product.sizes
        size = f"{m}_{k}_{n}" if self.order == "M_K_N" else f"{m}_{n}_{k}"
        return next((key for key in (product.operation, size) if key in self.entries), None)

    def report(self) -> str:
        """What became of the entries at the last `compile`.

        Returns:
            Lines: hits, misses, entries that are illegal (with the reason), entries that no product asked for.
        """
        lines = [f"{self.source}: {len(self.hits)} hits, {len(self.misses)} misses, {len(self.illegal)} illegal"]
        lines += [f"  hit      {name}" for name in self.hits]
        lines += [f"  miss     {name}" for name in self.misses]
        lines += [f"  illegal  {name}: {reason}" for name, reason in self.illegal.items()]
        lines += [f"  unused   {key}" for key in self.unused]
        lines += [f"  note     {note}" for note in self.notes]
        return "\n".join(lines)

    def __getitem__(self, key: str) -> dict[str, Any]:
        """One entry."""
        return self.entries[key]

    def __iter__(self) -> Iterator[str]:
        """Keys."""
        return iter(self.entries)

    def __len__(self) -> int:
        """Number of entries."""
        return len(self.entries)

    def __repr__(self) -> str:
        """Where from, how many."""
        return f"<MappingTable {self.source}: {len(self)} entries>"
