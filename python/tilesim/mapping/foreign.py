"""Converts loop nests of Timeloop and ZigZag to mapping tables.

Both describe one nest through all memories. Tilesim takes the tile that is on chip while the loops above it run over
off-chip memory: factors of the inner loops and of loops unrolled over the array multiply to the tile, the outer loops
give the order. The machine determines how the array and its registers are fed.

Sources: Timeloop's documentation of the mapping input (levels from outer to inner; `permutation` names the loops of a
level from inner to outer; `factors` as text or list), ZigZag's mapping inputs (`temporal_ordering` from inner to outer,
`spatial_mapping` per array dimension; memories are filled from the inner loops on, as far as they fit).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.arguments import is_size
from ..base.checked import checked
from ..base.errors import path_text, shown, unsupported, user_error
from ..base.files import read_json, read_yaml
from . import MappingTable, Product

__all__ = ["from_timeloop", "from_zigzag"]

GEMM = {"timeloop": {"M": "m", "N": "n", "K": "k"}, "zigzag": {"B": "m", "K": "n", "C": "k"}}
CONVOLUTION = {
    "timeloop": {"N": "n", "M": "oc", "C": "ic", "P": "oh", "Q": "ow", "R": "kh", "S": "kw", "G": "g"},
    "zigzag": {"B": "n", "K": "oc", "C": "ic", "OY": "oh", "OX": "ow", "FY": "kh", "FX": "kw", "G": "g"},
}
OFF_CHIP = re.compile("dram|main.?memory|off.?chip|hbm|backing", re.IGNORECASE)


def _read(source: Any) -> tuple[Any, str]:
    """Reads content from a file or a value, and names it for messages."""
    if isinstance(source, (Mapping, list)):
        return source, "mapping"
    name = path_text(source)
    if name.endswith(".json"):
        return read_json(source), name
    return read_yaml(source), name


class _Names:
    """Maps loop names of a tool to numbers of a product's loops."""

    def __init__(self, product: Product, tool: str, dims: Mapping[str, str] | None) -> None:
        known = GEMM[tool] if "m" in product.names else CONVOLUTION[tool]
        self.product = product
        self.numbers: dict[str, int] = {}
        for name, own in {**known, **(dims or {})}.items():
            if own in product.names:
                self.numbers[name.upper()] = product.names.index(own)
            elif dims and name in dims:
                raise user_error(
                    "unknown loop", place=f"dims: {name}", value=f"'{own}'", allowed=", ".join(product.names)
                )

    def number(self, name: str) -> int | None:
        """The number of a loop; None if the product does not have the loop, whose factor must then be 1."""
        return self.numbers.get(name.upper())

    def extent(self, number: int) -> int:
        """The extent of a loop of the product."""
        return int(self.product.info["extents"][number])

    def failed(self, name: str, place: str) -> Exception:
        """The error for a loop with a factor that the product does not have."""
        return user_error("unknown loop", place=place, value=f"'{name}'", allowed=", ".join(self.numbers))


def _factor(value: Any, place: str) -> int:
    text = str(value).strip() if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    if not is_size(text) or int(text) < 1:
        raise user_error(
            "the factor is not an integer of at least 1", place=place, value=shown(value), allowed="to 10^18"
        )
    return int(text)


def _parts(item: Mapping[str, Any], key: str, place: str, kinds: tuple[type, ...]) -> Any:
    """The value of a key, checked to be of these kinds, or None."""
    given = item.get(key)
    if given is not None and not isinstance(given, kinds):
        allowed: dict[Any, str] = {str: "a text", list: "a list", dict: "an object"}
        names = ", ".join(allowed[kind] for kind in kinds)
        raise user_error("a value has the wrong type", place=f"{place}: {key}", value=shown(given), allowed=names)
    return given or None


def _timeloop_factors(item: Mapping[str, Any], place: str) -> dict[str, int]:
    """Reads factors written as "M=4 N2", as a list of such parts, or as an object."""
    given = _parts(item, "factors", place, (str, list, dict)) or {}
    if isinstance(given, Mapping):
        return {str(name): _factor(value, f"{place}: factors: {name}") for name, value in given.items()}
    parts = given.replace(",", " ").split() if isinstance(given, str) else [str(part) for part in given]
    if isinstance(given, str) and re.search(r"\d\s*,\s*\d", given):
        raise unsupported(
            "unsupported imperfect factors (with a remainder)", place=place, value=f"'{given}'", allowed="M=4 N=2"
        )
    factors: dict[str, int] = {}
    for part in parts:
        match = re.fullmatch(r"([A-Za-z]+)\s*=?\s*(\d+)", part.strip())
        if match is None:
            raise user_error("invalid factor", place=place, value=f"'{part}'", allowed="M=4")
        factors[match.group(1)] = _factor(match.group(2), f"{place}: factors: {match.group(1)}")
    return factors


def _timeloop_order(item: Mapping[str, Any], place: str) -> list[str]:
    """The loops of a level, from outer to inner."""
    given = _parts(item, "permutation", place, (str, list)) or ""
    if isinstance(given, str):
        text = given.strip()
        loops = re.split(r"[\s,]+", text) if re.search(r"[\s,]", text) else list(text)
    else:
        loops = [str(name) for name in given]
    if len(set(loops)) != len(loops):
        raise user_error("a permutation names a loop twice", place=place, value=shown(given))
    return loops[::-1]


def _only(chosen: Sequence[Product], operation: str | None) -> Product:
    names = [product.operation for product in chosen]
    if operation is None and len(chosen) == 1:
        return chosen[0]
    if operation not in names:
        raise user_error(
            "missing operation: several products",
            value=shown(operation),
            allowed=", ".join(names[:8]),
            place="operation",
        )
    return chosen[names.index(operation)]


def _entry(product: Product, tiles: list[int], order: list[int], depths: Sequence[int] | None) -> dict[str, Any]:
    rest = [number for number in range(len(tiles)) if number not in order]  # a single trip: its place has no effect
    entry: dict[str, Any] = {"tiles": tiles, "order": [*order, *rest]}
    if depths is not None:
        entry["depths"] = list(depths)
    return entry


@checked()
def from_timeloop(
    source: Any,
    chosen: Sequence[Product],
    *,
    operation: str | None = None,
    dims: Mapping[str, str] | None = None,
    off_chip: Sequence[str] | None = None,
    depths: Sequence[int] | None = None,
) -> MappingTable:
    """Converts a Timeloop mapping (key `mapping:` of its YAML) to a table for one product.

    Args:
        source: file (.yaml needs `pip install 'tilesim[mapping]'`, .json does not), or its content as dict or list.
        chosen: products of the graph, from `tilesim.mapping.products`.
        operation: the product of the nest; by default the only one.
        dims: Timeloop's loop to the product's, where they differ from M, N, K of a product and N, M, C, P, Q, R, S (P
            and R go along rows) of a convolution.
        off_chip: names of off-chip memory among the targets; by default DRAM, HBM, main memory; else the first target.
        depths: buffers of a, b and result; two each by default.

    Returns:
        The table, with one entry; directives without an effect here are its `notes`.

    Raises:
        UserError: for a file that cannot be read, an unknown loop, factors that do not multiply to the loop's extent.
        Unsupported: for factors with remainders.
    """
    data, name = _read(source)
    items = data.get("mapping") if isinstance(data, Mapping) else data
    if isinstance(items, Mapping):  # later versions of Timeloop wrap the list in another list
        items = items.get("nodes", items.get("mapping"))
    if not isinstance(items, list) or not all(isinstance(item, Mapping) and "target" in item for item in items):
        raise user_error("the mapping is not a list of targets", place=name, allowed="mapping: [{target, type, ...}]")
    product = _only(chosen, operation)
    names = _Names(product, "timeloop", dims)
    targets = list(dict.fromkeys(str(item["target"]) for item in items))
    outside = set(off_chip or [target for target in targets if OFF_CHIP.search(target)] or targets[:1])
    if unknown := sorted(outside - set(targets)):
        raise user_error("unknown target", place=name, value=", ".join(unknown), allowed=", ".join(targets))
    tiles, order, notes = _timeloop_nest(items, names, outside, name)
    table = MappingTable({product.operation: _entry(product, tiles, order, depths)}, source=name)
    table.notes = notes
    return table


def _timeloop_nest(
    items: list[Any], names: _Names, outside: set[str], name: str
) -> tuple[list[int], list[int], list[str]]:
    """Tile sizes, loops over off-chip memory from outer to inner, and directives without effect."""
    count = len(names.product.names)
    tiles, trips = [1] * count, [1] * count
    order: list[int] = []
    notes: list[str] = []
    for index, item in enumerate(items):
        kind, target = str(item.get("type", "temporal")), str(item["target"])
        place = f"{name}: {index}: {target}"
        if kind in ("bypass", "datatype", "dataspace"):
            notes.append(f"{target}: {kind} has no effect: every operand of a product passes through the scratchpad")
            continue
        if kind not in ("temporal", "spatial"):
            raise user_error("unknown type", place=place, value=f"'{kind}'", allowed="temporal, spatial, bypass")
        factors = _timeloop_factors(item, place)
        outer = target in outside and kind == "temporal"
        for loop, factor in factors.items():
            number = names.number(loop)
            if number is None and factor > 1:
                raise names.failed(loop, place)
            if number is not None:
                (trips if outer else tiles)[number] *= factor
        if not outer:
            continue
        for loop in _timeloop_order(item, place) or factors:
            number = names.number(loop)
            if number is not None and factors.get(loop, 1) > 1:
                if number in order:
                    raise unsupported("two levels of off-chip loops over one loop", place=place, value=loop)
                order.append(number)
        if missing := [loop for loop, size in factors.items() if size > 1 and names.number(loop) not in order]:
            raise user_error("the permutation lacks a loop", place=place, value=", ".join(missing))
    return _covered(names.product, tiles, trips, name), order, notes


def _covered(product: Product, tiles: list[int], trips: list[int], place: str) -> list[int]:
    """Checks that tiles and trips cover each loop exactly once, and returns the tile sizes."""
    for number, loop in enumerate(product.names):
        extent = int(product.info["extents"][number])
        if math.ceil(extent / tiles[number]) != trips[number]:
            raise user_error(
                "factors do not multiply to the extent of the loop",
                place=f"{place}: {product.operation}: {loop}",
                value=f"{tiles[number]} on chip x {trips[number]}",
                allowed=str(extent),
            )
    return [min(tile, int(extent)) for tile, extent in zip(tiles, product.info["extents"], strict=True)]


def _zigzag_loop(part: Any, place: str) -> tuple[str, Any]:
    pieces = [piece.strip() for piece in part.split(",")] if isinstance(part, str) else part
    if not isinstance(pieces, (list, tuple)) or len(pieces) != 2:
        raise user_error("the loop is not a pair of name and size", place=place, value=shown(part), allowed="[K, 4]")
    return str(pieces[0]), pieces[1]


def _zigzag_spatial(item: Mapping[str, Any], names: _Names, place: str) -> list[int]:
    """Returns the number of elements of each loop that the array processes in parallel."""
    unrolled = [1] * len(names.product.names)
    for axis, parts in (_parts(item, "spatial_mapping", place, (dict,)) or {}).items():
        for part in parts if isinstance(parts, list) else [parts]:
            name, size = _zigzag_loop(part, f"{place}: spatial_mapping: {axis}")
            number, factor = names.number(name), _factor(size, f"{place}: spatial_mapping: {axis}")
            if number is not None:
                unrolled[number] = min(names.extent(number), unrolled[number] * factor)
            elif factor > 1:
                raise names.failed(name, f"{place}: spatial_mapping")
    return unrolled


def _zigzag_loops(item: Mapping[str, Any], names: _Names, unrolled: list[int], place: str) -> list[tuple[int, int]]:
    """Reads temporal loops as (number, trips), inner to outer, and replaces "*" by the rest."""
    listed = _parts(item, "temporal_ordering", place, (list,)) or []
    given = [_zigzag_loop(part, f"{place}: temporal_ordering") for part in listed]
    if not given:
        raise user_error("the nest lacks an order of loops", place=place, allowed="temporal_ordering: [[K, 4], ...]")
    left = [math.ceil(names.extent(n) / unrolled[n]) for n in range(len(unrolled))]
    fixed: list[tuple[int | None, int | None]] = []
    for name, size in given:
        if name == "*":
            fixed.append((None, None))
            continue
        number = names.number(name)
        if number is None:
            if size != "*" and _factor(size, place) > 1:
                raise names.failed(name, f"{place}: temporal_ordering")
            continue
        if size != "*":
            left[number] = math.ceil(left[number] / _factor(size, f"{place}: {name}"))
        fixed.append((number, None if size == "*" else _factor(size, f"{place}: {name}")))
    named = {number for number, size in fixed if size is None and number is not None}
    loops: list[tuple[int, int]] = []
    for number, size in fixed:
        if number is None:
            loops += [(n, left[n]) for n in range(len(left)) if n not in named and left[n] > 1]
            left = [left[n] if n in named else 1 for n in range(len(left))]
        elif size is None:
            loops.append((number, left[number]))
            left[number] = 1
        else:
            loops.append((number, size))
    if rest := [names.product.names[n] for n in range(len(left)) if left[n] > 1]:
        raise user_error(
            "loops do not cover the product", place=place, value=", ".join(rest), allowed="'*' for the rest"
        )
    return [(number, size) for number, size in loops if size > 1]


def _split(product: Product, unrolled: list[int], loops: list[tuple[int, int]], depths: list[int]) -> Any:
    """The longest run of inner loops whose tile fits the scratchpad, as an entry; None where not even the array's
    tile fits, or outer loops split one loop."""
    extents = [int(extent) for extent in product.info["extents"]]
    for inside in range(len(loops), -1, -1):
        tiles = list(unrolled)
        for number, size in loops[:inside]:
            tiles[number] = min(extents[number], tiles[number] * size)
        order = [number for number, _ in loops[inside:]][::-1]
        merged = [number for i, number in enumerate(order) if i == 0 or order[i - 1] != number]
        nest = {
            "tiles": tiles,
            "order": [*dict.fromkeys(merged), *(n for n in range(len(tiles)) if n not in merged)],
            "depths": depths,
            "unit": product.info["unit"],
        }
        if product.legal(nest)[0]:
            return nest if len(set(merged)) == len(merged) else None
    return None


@checked()
def from_zigzag(
    source: Any,
    chosen: Sequence[Product],
    *,
    dims: Mapping[str, str] | None = None,
    depths: Sequence[int] | None = None,
) -> MappingTable:
    """Converts a ZigZag mapping file to a table by layer name; entry "default" applies to all other products.

    Args:
        source: file (.yaml needs `pip install 'tilesim[mapping]'`, .json does not), or its content as a list.
        chosen: products of the graph, from `tilesim.mapping.products`.
        dims: ZigZag's loop to the product's, where they differ from B, K, C of a product and B, K, C, OY, OX, FY, FX of
            a convolution.
        depths: buffers of a, b and result; by default two each, or one where two do not fit.

    Returns:
        The table, with an entry per product; products without one, and layers without a product, are its `notes`.

    Raises:
        UserError: for a file that cannot be read, an unknown loop, loops that do not cover a product.
        Unsupported: for a nest whose loops over off-chip memory split one loop.
    """
    data, name = _read(source)
    if not isinstance(data, list) or not all(isinstance(item, Mapping) and "name" in item for item in data):
        raise user_error(
            "the mapping is not a list of layers", place=name, allowed="- name: ..., temporal_ordering: ..."
        )
    layers = {str(item["name"]): item for item in data}
    entries: dict[str, Any] = {}
    notes: list[str] = []
    for product in chosen:
        layer = product.operation if product.operation in layers else "default"
        if layer not in layers:
            notes.append(f"{product.operation}: no layer of this name and no default")
            continue
        place = f"{name}: {layer}"
        names = _Names(product, "zigzag", dims)
        unrolled = _zigzag_spatial(layers[layer], names, place)
        loops = _zigzag_loops(layers[layer], names, unrolled, place)
        found = None
        for count in (list(depths),) if depths is not None else ([2, 2, 2], [1, 1, 1]):
            found = found or _split(product, unrolled, loops, count)
        if found is None:
            raise unsupported(
                "no prefix of the loops gives a tile that fits, with each outer loop once",
                place=f"{place}: {product.operation}",
                suggestion="Merge loops, or give fewer buffers: depths=[1, 1, 1]",
            )
        entries[product.operation] = found
    used = {product.operation for product in chosen} | {"default"}
    notes += [f"{layer}: no product of this name" for layer in layers if layer not in used]
    table = MappingTable(entries, source=name)
    table.notes = notes
    return table
