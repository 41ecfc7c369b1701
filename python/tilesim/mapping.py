"""Mappings: nests by name or size, tables of them in files, and the least traffic of a product."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from . import _core
from .graph import Graph, nearest, user_error
from .machine import Machine

__all__ = ["MappingTable", "Product", "least_traffic", "products"]

Nest = dict[str, Any]
NEST_KEYS = ("tiles", "order", "depths", "unit")
SIZE_KEYS = ("TILE_M", "TILE_N", "TILE_K")
ORDERS = ("M_K_N", "M_N_K")
SCHEMA, VERSION = "tilesim.mapping", 1


class Product:
    """One product (contract or convolution) of a compiled graph: its loops, and the nest that it got."""

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
        return f"for {' '.join(loops) or '-'} | tile {inside} | buffers {'/'.join(map(str, nest['depths']))}{unit}"

    def __repr__(self) -> str:
        """Name and sizes."""
        return f"<Product {self.operation} {'x'.join(map(str, self.sizes))}>"


def products(
    graph: Graph, machine: Machine | str = "tpu-v3", fuse: str = "all", mapping: str = "heuristic"
) -> list[Product]:
    """The products of a graph as they are compiled.

    Args:
        graph: the workload.
        machine: preset name, file, dict or Machine.
        fuse: as for `compile`.
        mapping: "heuristic", "greedy", "cost", "gemmini" or "pytorchsim".

    Returns:
        One entry per product, in order.

    Raises:
        Unsupported: as `compile`.
    """
    rows = _core.product_choices(graph.core, Machine.load(machine).core, fuse, mapping)
    return [Product(row["function"], row["operation"], row["nest"], row["problem"]) for row in rows]


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
    """Nests for products, by size ("M_K_N") or by operation name.

    A size gives TILE_M, TILE_K, TILE_N in elements. A name gives a whole nest: `tiles` by loop name (or as a list),
    `order` (loop names or numbers, outer to inner), `depths` (buffers of a, b, result), `unit`. After `compile` the
    table knows which products found an entry (`hits`), which did not (`misses`), and which entries could not be used.
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
        for key, entry in (entries or {}).items():
            self.entries[str(key)] = _checked_entry(str(key), entry, f"{source}: {key}")

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
        with open(path, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=1)

    def nests(self, chosen: list[Product]) -> dict[str, Nest]:
        """Resolves the table for the products of a graph, and fills `hits`, `misses`, `illegal`.

        Args:
            chosen: from `products`.

        Returns:
            Operation name to a legal nest, for the products that the table knows.
        """
        self.hits, self.misses, self.illegal = [], [], {}
        used: set[str] = set()
        found: dict[str, Nest] = {}
        for product in chosen:
            key = self._key_of(product)
            if key is None:
                self.misses.append(product.operation)
                continue
            used.add(key)
            try:
                nest = _nest_for(product, self.entries[key], f"{self.source}: {key}")
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

    def _key_of(self, product: Product) -> str | None:
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
        parts = [key for key, entry in self.entries.items() if any(name.startswith("SUB_") for name in entry)]
        lines += [f"  no effect: SUB_* of {key} (the lowering decides how a tile is loaded)" for key in parts]
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


def _is_size(key: str) -> bool:
    parts = key.split("_")
    return len(parts) == 3 and all(part.isdecimal() for part in parts)


def _size(value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise user_error("a tile size is an integer of at least 1", place=place, value=repr(value))
    return value


def _checked_entry(key: str, entry: Any, place: str) -> dict[str, Any]:
    looks_like_size = key.replace("_", "").replace("-", "").replace(".", "").isdecimal()
    if looks_like_size and (not _is_size(key) or any(int(part) < 1 for part in key.split("_"))):
        raise user_error(
            "a key of sizes is three positive integers", place=place, value=f"'{key}'", allowed="M_K_N, as 512_2048_512"
        )
    if not isinstance(entry, Mapping):
        raise user_error("an entry is an object", place=place, value=type(entry).__name__)
    sized = any(name in entry for name in SIZE_KEYS)
    # Sizes of parts of a tile (SUB_*) say how a tile is loaded in pieces, which the lowering decides itself.
    known = (*SIZE_KEYS, "SUB_M", "SUB_N", "SUB_K") if sized or looks_like_size else NEST_KEYS
    for name in entry:
        if name not in known:
            raise user_error(
                "unknown field",
                place=place,
                value=f"'{name}'",
                allowed=", ".join(known[:4]),
                suggestion=nearest(name, known),
            )
    required = SIZE_KEYS if sized or looks_like_size else ("tiles",)
    for name in required:
        if name not in entry:
            raise user_error(f"'{name}' is missing", place=place)
    if required is SIZE_KEYS:
        return {name: _size(value, f"{place}: {name}") for name, value in entry.items()}
    tiles = entry["tiles"]
    sizes = tiles.items() if isinstance(tiles, Mapping) else enumerate(tiles if isinstance(tiles, list) else [tiles])
    for name, value in sizes:
        _size(value, f"{place}: tiles: {name}")
    return dict(entry)


def _spread(sizes: list[int], dims: list[int], extents: list[int], total: int) -> None:
    """Gives a group of loops (outer to inner) a tile of `total` elements: inner loops whole first."""
    left = total
    for dim in reversed(dims):
        sizes[dim] = max(1, min(extents[dim], left))
        left = -(-left // extents[dim])


def _nest_for(product: Product, entry: Mapping[str, Any], place: str) -> Nest:
    info, extents = product.info, list(product.info["extents"])
    if "TILE_M" in entry:
        sizes = [1] * len(extents)
        for group, total, name in zip("mnk", product.sizes, SIZE_KEYS, strict=True):
            if entry[name] > total:
                raise user_error(
                    "the tile is larger than the product",
                    place=place,
                    value=f"{name} {entry[name]}",
                    allowed=f"1 to {total}",
                )
            _spread(sizes, info[f"{group}_dims"], extents, entry[name])
        order = [*info["batch_dims"], *info["m_dims"], *info["n_dims"], *info["k_dims"]]
        nest = {"tiles": sizes, "order": order, "depths": [2, 2, 2], "unit": info["unit"]}
        if not product.legal(nest)[0]:
            nest["depths"] = [1, 1, 1]
        return nest
    names = product.names
    tiles = entry["tiles"]
    if isinstance(tiles, Mapping):
        for name in tiles:
            if name not in names:
                raise user_error("no such loop", place=place, value=f"'{name}'", allowed=", ".join(names))
        sizes = [tiles.get(name, extent) for name, extent in zip(names, extents, strict=True)]
    else:
        sizes = list(tiles)
    if len(sizes) != len(extents):
        raise user_error("one tile size per loop is needed", place=place, value=str(sizes), allowed=", ".join(names))
    for name, size, extent in zip(names, sizes, extents, strict=True):
        if size > extent:
            raise user_error(
                "the tile is larger than the loop", place=place, value=f"{name} {size}", allowed=f"1 to {extent}"
            )
    order = [names.index(loop) if loop in names else loop for loop in entry.get("order", product.nest["order"])]
    if sorted(map(str, order)) != sorted(map(str, range(len(names)))):
        raise user_error("the order names each loop once", place=place, value=str(order), allowed=", ".join(names))
    return {
        "tiles": sizes,
        "order": order,
        "depths": list(entry.get("depths", [2, 2, 2])),
        "unit": entry.get("unit", info["unit"]),
    }
