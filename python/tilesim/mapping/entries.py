"""Entries of mapping tables: checks their form, and converts them to nests for products and vector kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.arguments import is_size
from ..base.errors import nearest, user_error
from .fields import fields_of

Nest = dict[str, Any]
SIZE_FIELDS, NEST_FIELDS = fields_of("sizes"), fields_of("product", "vector")
PRODUCT_KEYS = tuple(name for name in fields_of("product") if name not in fields_of("vector"))
VECTOR_KEYS = tuple(name for name in fields_of("vector") if name not in fields_of("product"))


def _is_size(key: str) -> bool:
    parts = key.split("_")
    return len(parts) == 3 and all(is_size(part) for part in parts)


def checked_entry(key: str, entry: Any, place: str) -> dict[str, Any]:
    """Checks the form of an entry; its legality depends on the product."""
    looks_like_size = key.replace("_", "").replace("-", "").replace(".", "").isdecimal()
    if looks_like_size and (not _is_size(key) or any(int(part) < 1 for part in key.split("_"))):
        raise user_error(
            "the key is not three positive integers", place=place, value=f"'{key}'", allowed="M_K_N, as 512_2048_512"
        )
    if not isinstance(entry, Mapping):
        raise user_error("the entry is not an object", place=place, value=type(entry).__name__)
    sized = looks_like_size or any(name.startswith("TILE_") for name in entry)
    known = SIZE_FIELDS if sized else NEST_FIELDS
    for name in entry:
        if name not in known:
            shown = ", ".join(known)
            raise user_error(
                "unknown field", place=place, value=f"'{name}'", allowed=shown, suggestion=nearest(name, known)
            )
    for name, field in known.items():
        if field.required and name not in entry:
            raise user_error(f"'{name}' is missing", place=place)
    return {name: known[name].check(value, f"{place}: {name}") for name, value in entry.items()}


def _spread(sizes: list[int], dims: list[int], extents: list[int], total: int) -> None:
    """Distributes a tile of `total` elements over loops (outer to inner), inner loops first."""
    left = total
    for dim in reversed(dims):
        sizes[dim] = max(1, min(extents[dim], left))
        left = -(-left // extents[dim])


def _by_sizes(product: Any, entry: Mapping[str, Any], place: str) -> Nest:
    info, extents = product.info, list(product.info["extents"])
    sizes = [1] * len(extents)
    for group, total, name in zip("mnk", product.sizes, ("TILE_M", "TILE_N", "TILE_K"), strict=True):
        if entry[name] > total:
            raise user_error(
                "the tile is larger than the product",
                place=place,
                value=f"{name} {entry[name]}",
                allowed=f"1 to {total}",
            )
        _spread(sizes, info[f"{group}_dims"], extents, entry[name])
    order = [*info["batch_dims"], *info["m_dims"], *info["n_dims"], *info["k_dims"]]
    nest: Nest = {"tiles": sizes, "order": order, "depths": [2, 2, 2], "unit": info["unit"]}
    if not product.legal(nest)[0]:
        nest["depths"] = [1, 1, 1]
    if any(f"SUB_{letter}" in entry for letter in "MNK"):
        nest["sub"] = _sub_tiles(product, entry, sizes, place)
    return nest


def _sub_tiles(product: Any, entry: Mapping[str, Any], tiles: list[int], place: str) -> list[int]:
    """Reads SUB_M, SUB_N, SUB_K as sizes per loop; missing loops are not split."""
    sub = list(tiles)
    for letter in "MNK":
        size, tile = entry.get(f"SUB_{letter}"), entry[f"TILE_{letter}"]
        if size is None:
            continue
        if size > tile:
            raise user_error(
                "the sub-tile is larger than the tile",
                place=place,
                value=f"SUB_{letter} {size}",
                allowed=f"1 to {tile}",
            )
        _spread(sub, product.info[f"{letter.lower()}_dims"], tiles, size)
    return sub


def _tile_list(tiles: Any, names: list[str], extents: list[int], place: str) -> list[int]:
    """Returns one size per loop; loops that a mapping does not name are not tiled."""
    if isinstance(tiles, Mapping):
        for name in tiles:
            if str(name) not in names:
                raise user_error("unknown loop", place=place, value=f"'{name}'", allowed=", ".join(names))
        given = {str(name): size for name, size in tiles.items()}
        sizes = [given.get(name, extent) for name, extent in zip(names, extents, strict=True)]
    else:
        sizes = list(tiles)
    if len(sizes) != len(extents):
        raise user_error(
            "the tiles do not have one size per loop", place=place, value=str(sizes), allowed=", ".join(names)
        )
    for name, size, extent in zip(names, sizes, extents, strict=True):
        if size > extent:
            raise user_error(
                "the tile is larger than the loop", place=place, value=f"{name} {size}", allowed=f"1 to {extent}"
            )
    return sizes


def nest_of_product(product: Any, entry: Mapping[str, Any], place: str) -> Nest:
    """Converts an entry to a nest for a product, and checks it."""
    if "TILE_M" in entry:
        return _by_sizes(product, entry, place)
    for name in VECTOR_KEYS:
        if name in entry:
            raise user_error(
                "a field of vector kernels", place=place, value=f"'{name}'", allowed=", ".join(("tiles", *PRODUCT_KEYS))
            )
    info, names = product.info, product.names
    sizes = _tile_list(entry["tiles"], names, list(info["extents"]), place)
    order = [names.index(loop) if loop in names else loop for loop in entry.get("order", product.nest["order"])]
    if sorted(map(str, order)) != sorted(map(str, range(len(names)))):
        raise user_error(
            "the order does not name each loop once", place=place, value=str(order), allowed=", ".join(names)
        )
    nest = {
        "tiles": sizes,
        "order": order,
        "depths": list(entry.get("depths", [2, 2, 2])),
        "unit": entry.get("unit", info["unit"]),
    }
    if "pack" in entry:
        if entry["pack"] not in (*names, *range(len(names))):
            raise user_error("unknown loop", place=place, value=f"pack {entry['pack']!r}", allowed=", ".join(names))
        nest["pack"] = names.index(entry["pack"]) if isinstance(entry["pack"], str) else entry["pack"]
    if "unfold" in entry:
        nest["unfold"] = entry["unfold"]
    return nest | _further(entry, names, sizes, place)


def _further(entry: Mapping[str, Any], names: list[str], tiles: list[int], place: str) -> Nest:
    """The sub-tiles and contexts of an entry, if it has them."""
    nest: Nest = {"sub": _tile_list(entry["sub"], names, tiles, place)} if "sub" in entry else {}
    return nest | ({"contexts": entry["contexts"]} if entry.get("contexts", 1) != 1 else {})


def tiles_of_vector(kernel: Any, entry: Mapping[str, Any], place: str) -> Nest:
    """Converts an entry to tiles for a vector kernel, and checks them."""
    for name in (*SIZE_FIELDS, *PRODUCT_KEYS):
        if name in entry:
            raise user_error(
                "a field of products", place=place, value=f"'{name}'", allowed=", ".join(("tiles", *VECTOR_KEYS))
            )
    tiles = _tile_list(entry["tiles"], kernel.names, list(kernel.info["space"]), place)
    nest = {"tiles": tiles, "lane": entry.get("lane", kernel.nest["lane"]), "depth": entry.get("depth", 2)}
    return nest | _further(entry, kernel.names, tiles, place)
