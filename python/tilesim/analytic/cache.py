"""Computes the traffic of a tiled product through a cache, by a closed form and by a trace-driven cache.

The closed form counts the fetches of each operand: an outer loop that reuses an operand fetches its tiles again if it
visits more bytes than the cache holds. The trace-driven cache is set-associative with least recently used replacement;
it validates the closed form and handles small nests.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..graph import user_error

__all__ = ["Cache", "TiledProduct", "hit_share", "traffic"]

OPERANDS = {"a": ("m", "k"), "b": ("k", "n"), "c": ("m", "n")}


class Cache:
    """A set-associative cache with least recently used replacement; counts hits and misses of lines."""

    def __init__(self, bytes_: int, line_bytes: int = 64, ways: int = 8) -> None:
        """Creates an empty cache."""
        if bytes_ <= 0 or bytes_ % (line_bytes * ways):
            allowed = f"multiples of {line_bytes * ways}"
            raise user_error("the cache size is not a whole number of sets", value=str(bytes_), allowed=allowed)
        self.line_bytes, self.ways = line_bytes, ways
        self.sets: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(bytes_ // (line_bytes * ways))]
        self.hits = self.misses = 0

    def touch(self, start: int, size: int) -> None:
        """Reads or writes a range of bytes."""
        for line in range(start // self.line_bytes, (start + size - 1) // self.line_bytes + 1):
            ways = self.sets[line % len(self.sets)]
            if line in ways:
                ways.move_to_end(line)
                self.hits += 1
                continue
            self.misses += 1
            ways[line] = None
            if len(ways) > self.ways:
                ways.popitem(last=False)

    @property
    def missed_bytes(self) -> int:
        """Bytes fetched from the next level."""
        return self.misses * self.line_bytes


@dataclass(frozen=True)
class TiledProduct:
    """A tiled product of [m, k] by [k, n], with its loops over tiles from outermost to innermost."""

    m: int
    n: int
    k: int
    tile_m: int
    tile_n: int
    tile_k: int
    order: str = "mnk"
    element_bytes: int = 4

    def trips(self, letter: str) -> int:
        """Returns the number of tiles along the loop `letter`."""
        extent = {"m": (self.m, self.tile_m), "n": (self.n, self.tile_n), "k": (self.k, self.tile_k)}[letter]
        return math.ceil(extent[0] / extent[1])

    def tile_bytes(self, operand: str) -> int:
        """Returns the bytes of one tile of an operand."""
        size = {"m": self.tile_m, "n": self.tile_n, "k": self.tile_k}
        first, second = OPERANDS[operand]
        return size[first] * size[second] * self.element_bytes

    def rows(self) -> Iterator[tuple[int, int]]:
        """Yields address and bytes of every contiguous tile row that the nest accesses, in order."""
        extent = {"m": self.m, "n": self.n, "k": self.k}
        size = {"m": self.tile_m, "n": self.tile_n, "k": self.tile_k}
        base, start = {}, 0
        for name, (first, second) in OPERANDS.items():
            base[name] = start
            start += extent[first] * extent[second] * self.element_bytes
        for x in range(self.trips(self.order[0])):
            for y in range(self.trips(self.order[1])):
                for z in range(self.trips(self.order[2])):
                    at = dict(zip(self.order, (x, y, z), strict=True))
                    for name, (first, second) in OPERANDS.items():
                        column = at[second] * size[second]
                        width = min(size[second], extent[second] - column)
                        top = at[first] * size[first]
                        for row in range(top, min(top + size[first], extent[first])):
                            offset = (row * extent[second] + column) * self.element_bytes
                            yield base[name] + offset, width * self.element_bytes


def traffic(nest: TiledProduct, capacity: float) -> dict[str, float]:
    """Returns the bytes of each operand that a cache of `capacity` bytes fetches or writes back."""
    result = {}
    for name, letters in OPERANDS.items():
        total = float(nest.tile_bytes(name))
        for letter in letters:
            total *= nest.trips(letter)
        for depth, letter in enumerate(nest.order):
            if letter not in letters and _footprint(nest, nest.order[depth + 1 :]) > capacity:
                total *= nest.trips(letter)
        result[name] = total
    return result


def _footprint(nest: TiledProduct, inner: Sequence[str]) -> float:
    """Returns the distinct bytes of all operands that the inner loops visit."""
    total = 0.0
    for name, letters in OPERANDS.items():
        size = float(nest.tile_bytes(name))
        for letter in letters:
            if letter in inner:
                size *= nest.trips(letter)
        total += size
    return total


def hit_share(sizes: Iterable[float], rounds: int, cache: Cache) -> float:
    """Returns the share of hits if a trace reads the same tensors `rounds` times."""
    walks, start = [], 0
    for size in sizes:
        walks.append((start, int(size)))
        start += int(size)
    for walk in walks:
        cache.touch(*walk)
    cache.hits = cache.misses = 0
    for _ in range(rounds):
        for walk in walks:
            cache.touch(*walk)
    return cache.hits / max(1, cache.hits + cache.misses)


def pressure(capacity: float, moved: float) -> str:
    """Rates the pressure on a memory level by capacity over moved bytes: "low", "medium" or "high"."""
    share = capacity / moved if moved > 0 else 1.0
    return "low" if share >= 0.9 else "medium" if share >= 0.7 else "high"
