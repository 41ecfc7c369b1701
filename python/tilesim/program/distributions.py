"""Draws integer values, on which timing depends, from a named distribution with a seed."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import nearest, user_error

__all__ = ["Distribution", "GroupRows", "Indices", "Lengths"]

NAMES = ("uniform", "balanced", "zipf:s")


@dataclass(frozen=True)
class GroupRows:
    """Rows of each group.

    Attributes:
        rows: total of all groups.
        groups: number of groups.
        chosen: number of different groups per row of a router's input; 0: each row has one independent group.
    """

    rows: int
    groups: int
    chosen: int = 0


@dataclass(frozen=True)
class Indices:
    """Rows of a table.

    Attributes:
        shape: shape of the indices.
        limits: number of table rows; for index vectors, one limit per component.
        vector: axis of the vectors' components; None: scalar indices.
    """

    shape: tuple[int, ...]
    limits: tuple[int, ...]
    vector: int | None = None


class Lengths(Indices):
    """Number of keys per row of a batch: from 0 to one less than the limit."""


@dataclass(frozen=True)
class Distribution:
    """A named distribution: `uniform`, `balanced`, `zipf:s`.

    Attributes:
        name: name without parameter.
        exponent: s; index `i`, from 0 on, has a probability proportional to 1 / (i + 1)^s.
    """

    name: str
    exponent: float = 0.0

    @staticmethod
    def of(text: str, place: str) -> Distribution:
        """Parses the name of a distribution."""
        name, colon, parameter = text.strip().partition(":")
        allowed = ", ".join(NAMES)
        if name not in ("uniform", "balanced", "zipf"):
            near = nearest(name, ["uniform", "balanced", "zipf"])
            raise user_error("unknown distribution", place=place, value=f"'{text}'", allowed=allowed, suggestion=near)
        if name != "zipf":
            if colon:
                what = f"the distribution {name} takes no parameter"
                raise user_error(what, place=place, value=f"'{text}'", allowed=allowed)
            return Distribution(name)
        try:
            exponent = float(parameter)
        except ValueError:
            exponent = math.nan
        if not 0 <= exponent <= 100:
            what = "the exponent of a zipf distribution is not a number from 0 to 100"
            raise user_error(what, place=place, value=f"'{text}'", allowed="zipf:1.1")
        return Distribution(name, exponent)

    def __str__(self) -> str:
        return self.name if self.name != "zipf" else f"zipf:{self.exponent:g}"

    def _shares(self, count: int) -> Any:
        weights = np.arange(1, count + 1, dtype=np.float64) ** -self.exponent
        return weights / weights.sum()

    def draw(self, role: GroupRows | Indices, seed: int, name: str) -> Any:
        """Draws the values of a tensor."""
        random = np.random.default_rng([seed, zlib.crc32(name.encode())])
        return self._counts(role, random) if isinstance(role, GroupRows) else self._indices(role, random)

    def _counts(self, role: GroupRows, random: np.random.Generator) -> Any:
        if role.groups == 0:
            return np.zeros(0, np.int64)
        if self.name == "balanced":
            counts = np.full(role.groups, role.rows // role.groups, np.int64)
            counts[random.permutation(role.groups)[: role.rows % role.groups]] += 1
            return counts
        shares = self._shares(role.groups)
        if role.chosen == 0:
            return random.multinomial(role.rows, shares).astype(np.int64)
        # The first `chosen` of exponential clocks with these rates are a draw without replacement.
        counts = np.zeros(role.groups, np.int64)
        left, block = role.rows // role.chosen, max(1, (1 << 22) // role.groups)
        while left > 0:
            rows = min(left, block)
            times = random.exponential(size=(rows, role.groups)) / np.maximum(shares, np.finfo(float).tiny)
            first = np.argpartition(times, role.chosen - 1, axis=1)[:, : role.chosen]
            counts += np.bincount(first.ravel(), minlength=role.groups)
            left -= rows
        return counts

    def _indices(self, role: Indices, random: np.random.Generator) -> Any:
        if role.vector is None:
            return self._below(role.limits[0], role.shape, random)
        found = np.zeros(role.shape, np.int64)
        part = tuple(size for axis, size in enumerate(role.shape) if axis != role.vector)
        for component, limit in enumerate(role.limits):
            np.moveaxis(found, role.vector, 0)[component] = self._below(limit, part, random)
        return found

    def _below(self, limit: int, shape: Sequence[int], random: np.random.Generator) -> Any:
        count = math.prod(shape)
        if count == 0:
            return np.zeros(shape, np.int64)
        if self.name == "balanced":
            return random.permutation(np.arange(count, dtype=np.int64) % limit).reshape(shape)
        if self.name == "uniform":
            return random.integers(0, limit, shape)
        steps = np.cumsum(np.arange(1, limit + 1, dtype=np.float64) ** -self.exponent)
        return np.searchsorted(steps, random.random(shape) * steps[-1], side="right").clip(0, limit - 1)
