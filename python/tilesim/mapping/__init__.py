"""Mappings: nests by name or size, and tables of them in files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import _core
from ..base.checked import checked_class
from ..base.errors import UnknownKey, nearest, path_text, user_error
from ..base.files import read_json, writing
from ..base.lazy import lazy, listed
from ..graph import Graph
from ..machine.machine import Machine
from ..program.fusion import fusion_rules
from .entries import Nest, checked_entry, nest_of_product, tiles_of_vector
from .fields import documentation, schema_of
from .kernels import Product, kernels, least_traffic, products
from .vector import VectorKernel

__all__ = [
    "MappingTable",
    "Product",
    "Residency",
    "VectorKernel",
    "fusion_rules",
    "kernels",
    "least_traffic",
    "products",
    "residency",
]
__getattr__ = lazy(__name__, dict.fromkeys(("Residency", "residency"), "..timing.residency"))
__dir__ = listed(__all__)

ORDERS = ("M_K_N", "M_N_K")
SCHEMA, VERSION = "tilesim.mapping", 1


@checked_class()
class MappingTable(Mapping[str, Any]):
    """Nests for products, by size ("M_K_N") or by operation name, and tiles of vector kernels, by name.

    A size gives TILE_M, TILE_K, TILE_N in elements. A product's name gives a whole nest: `tiles` by loop name (or as a
    list), `order` (loop names or numbers, outer to inner), `depths` (buffers of a, b, result), `unit`. A vector
    kernel's name gives `tiles` by axis, `lane` (the axis over the lanes) and `depth` (buffers). After `compile` the
    table knows which kernels found an entry (`hits`), which products did not (`misses`), and which entries could not be
    used (`illegal`).
    """

    def __init__(self, entries: Mapping[str, Any] | None = None, order: str = "M_K_N", source: str = "table") -> None:
        """Checks and stores the entries."""
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
            order: order of the sizes in keys; by default the file's order, else "M_K_N".

        Returns:
            The table.

        Raises:
            UserError: for bad JSON, another schema, a newer version, or a bad entry, with its place.
        """
        name = path_text(path)
        data = read_json(path)
        if not isinstance(data, dict):
            raise user_error("the table is not a JSON object", place=name, value=type(data).__name__)
        if "schema" not in data:
            return cls(data, order or "M_K_N", name)
        if data["schema"] != SCHEMA:
            raise user_error("another kind of file", place=name, value=f"'{data['schema']}'", allowed=SCHEMA)
        if data.get("version") != VERSION:
            raise user_error("unsupported version", place=name, value=str(data.get("version")), allowed="1")
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
        """JSON schema of a saved table.

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
        """Documents the fields of an entry.

        Returns:
            A Markdown list.
        """
        return documentation()

    @property
    def contexts(self) -> int:
        """The largest number of contexts per core that an entry requests."""
        return max((int(entry.get("contexts", 1)) for entry in list(self.entries.values())), default=1)

    def nests_for(self, graph: Graph, machine: Machine, fuse: str | Sequence[str] = "all") -> dict[str, Nest]:
        """Does the same as `nests`, with kernels split over the contexts of a core as their entries state.

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
        chosen = kernels(graph, machine, fuse=fuse, contexts=most, each=1)
        for count in sorted({int(entry.get("contexts", 1)) for entry in list(self.entries.values())} - {1}):
            divided = {
                kernel.operation: kernel for kernel in kernels(graph, machine, fuse=fuse, contexts=most, each=count)
            }
            for at, kernel in enumerate(chosen):
                key = self._key_of(kernel)
                if key is not None and self.entries[key].get("contexts", 1) == count:
                    chosen[at] = divided[kernel.operation]
        return self.nests(chosen)

    def nests(self, chosen: Sequence[Product | VectorKernel]) -> dict[str, Nest]:
        """Resolves the table for the kernels of a graph, and fills `hits`, `misses`, `illegal`.

        Args:
            chosen: kernels that `kernels` or `products` returned.

        Returns:
            Operation name to a legal nest, for the kernels that the table knows.
        """
        hits: list[str] = []
        misses: list[str] = []
        illegal: dict[str, str] = {}
        used: set[str] = set()
        found: dict[str, Nest] = {}
        for product in chosen:
            key = self._key_of(product)
            if key is None:
                if isinstance(product, Product):
                    misses.append(product.operation)
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
                illegal[product.operation] = str(error)
                continue
            legal, reason = product.legal(nest)
            if legal:
                found[product.operation] = nest
                hits.append(product.operation)
            else:
                illegal[product.operation] = f"{self.source}: {key}: {reason}"
        unused = [key for key in list(self.entries) if key not in used]
        vars(self).update(hits=hits, misses=misses, illegal=illegal, unused=unused)  # at once: others may compile too
        return found

    unused: list[str] = []  # noqa: RUF012 (replaced, never changed)

    def _key_of(self, product: Product | VectorKernel) -> str | None:
        if isinstance(product, VectorKernel):
            return product.operation if product.operation in self.entries else None
        m, n, k = product.sizes
        size = f"{m}_{k}_{n}" if self.order == "M_K_N" else f"{m}_{n}_{k}"
        return next((key for key in (product.operation, size) if key in self.entries), None)

    def report(self) -> str:
        """Reports the use of the entries at the last `compile`.

        Returns:
            Lines: hits, misses, illegal entries (with the reason), unused entries.
        """
        lines = [f"{self.source}: {len(self.hits)} hits, {len(self.misses)} misses, {len(self.illegal)} illegal"]
        lines += [f"  hit      {name}" for name in self.hits]
        lines += [f"  miss     {name}" for name in self.misses]
        lines += [f"  illegal  {name}: {reason}" for name, reason in self.illegal.items()]
        lines += [f"  unused   {key}" for key in self.unused]
        lines += [f"  note     {note}" for note in self.notes]
        return "\n".join(lines)

    def __getitem__(self, key: str) -> dict[str, Any]:
        """The entry of a key."""
        if key not in self.entries:
            close = nearest(key, self.entries)
            raise user_error("no entry", place=self.source, value=f"'{key}'", suggestion=close, sort=UnknownKey)
        return self.entries[key]

    def __iter__(self) -> Iterator[str]:
        """Iterates over the keys."""
        return iter(self.entries)

    def __len__(self) -> int:
        """Number of entries."""
        return len(self.entries)

    def __repr__(self) -> str:
        """Source and number of entries."""
        return f"<MappingTable {self.source}: {len(self)} entries>"
