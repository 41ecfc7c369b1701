"""Computes the time of a product on sparse cores, whose multipliers skip zeros."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _core
from ..base.arguments import integer
from ..base.errors import shown, user_error
from ..machine.machine import Machine, MachineLike
from ..program.sparse_times import sparse_cores

__all__ = ["SparseCore", "SparseTime", "reference_patterns"]

MOST_EXTENT = 1 << 24
MOST_DRAWN = 1 << 32


@dataclass(frozen=True)
class SparseTime:
    """Cycles and traffic counts of a product on a sparse core."""

    cycles: float
    products: float
    placements: float
    partial_sums: float
    spilled: float


@dataclass(frozen=True)
class SparseCore:
    """A core of multipliers that skips zeros; docs/explanation/compute_and_fusion.md has the rules.

    Args:
        multipliers: number of multipliers; a power of two for `inner`.
        read_ports: for `inner`: ports of the distribution network, a divisor of `multipliers`; one word per cycle
            each.
        write_ports: output ports; one sum per cycle each.
        dataflow: "inner" (stationary vectors, like SIGMA), "outer" (columns by rows), "row" (Gustavson).
        lanes: for `outer`: elements of a by elements of b that the multipliers pair per cycle; any pairs by default.
        tile: for `outer`: rows and columns of results summed in place; by default sums use the write ports.
        accumulators: number of sums that fit on the core, which spills and reloads the others. 0 if all fit.
        segment: for `row`: elements of b per fetch, one cycle each even if all are zero. 0 for complete rows, of which
            empty ones are free.
    """

    multipliers: int = 256
    read_ports: int = 256
    write_ports: int = 256
    dataflow: str = "inner"
    lanes: tuple[int, int] | None = None
    tile: tuple[int, int] | None = None
    accumulators: int = 0
    segment: int = 0

    @classmethod
    def names(cls) -> list[str]:
        """Names of the shipped machines with sparse cores."""
        return [name for name in Machine.names() if sparse_cores(Machine.load(name)) is not None]

    @classmethod
    def load(cls, source: MachineLike) -> SparseCore:
        """Reads the multipliers of a machine's sparse cores (settings core.array.sparse.*)."""
        machine = Machine.load(source)
        cores = sparse_cores(machine)
        if cores is None:
            raise user_error(
                "the machine has no sparse multipliers",
                place=machine.name,
                allowed=", ".join(cls.names()),
                suggestion="Set core.array.sparse.multipliers to 1 or more",
            )
        settings = dict(cores["settings"])
        lanes = settings.pop("lanes_a"), settings.pop("lanes_b")
        tile = settings.pop("tile_m"), settings.pop("tile_n")
        return cls(
            **settings,
            dataflow=cores["dataflow"],
            lanes=lanes if any(lanes) else None,
            tile=tile if any(tile) else None,
        )

    def _settings(self) -> dict[str, int]:
        values = asdict(self)
        pairs = {key: values.pop(key) or (0, 0) for key in ("lanes", "tile")}
        for key, pair in pairs.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise user_error("not a pair", place=key, value=shown(pair), allowed="a, b")
        flow = values.pop("dataflow")
        if not isinstance(flow, str):
            raise user_error(
                "not the name of a dataflow", place="dataflow", value=shown(flow), allowed="inner, outer, row"
            )
        settings = {key: integer(key, value, 0) for key, value in values.items()}
        for key, names in (("lanes", ("lanes_a", "lanes_b")), ("tile", ("tile_m", "tile_n"))):
            settings.update({name: integer(key, value, 0) for name, value in zip(names, pairs[key], strict=True)})
        return settings

    def time(self, a: ArrayLike, b: ArrayLike, stationary: str = "a") -> SparseTime:
        """Counts cycles and traffic of a product a [m, k] · b [k, n]; only the nonzero positions matter."""
        of_a, of_b = np.asarray(a) != 0, np.asarray(b) != 0
        return SparseTime(**_core.sparse_time(self.dataflow, self._settings(), of_a, of_b, _is_b(stationary)))

    def expected(
        self, m: int, n: int, k: int, a_density: float = 1.0, b_density: float = 1.0, stationary: str = "a"
    ) -> SparseTime:
        """Returns expected counts over random positions of the nonzero elements."""
        m, n, k = _extents(m, n, k, drawn=self.dataflow == "inner")
        counts = (round(density("a_density", a_density) * m * k), round(density("b_density", b_density) * k * n))
        found = _core.expected_sparse_time(self.dataflow, self._settings(), m, n, k, *counts, _is_b(stationary))
        return SparseTime(**found)

    def replace(self, **changes: Any) -> SparseCore:
        """Copies the core with other settings."""
        return replace(self, **changes)


def density(name: str, value: float) -> float:
    """Checks that a density is a number from 0 to 1 and returns it."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= 1:
        raise user_error("a density is out of range", place=name, value=shown(value), allowed="0 to 1")
    return number


def reference_patterns(m: int, n: int, k: int, a_density: float, b_density: float) -> tuple[Any, Any]:
    """Draws the nonzero patterns of SIGMA's reference runs: one xorshift stream, densities in integer percent."""
    m, n, k = _extents(m, n, k, drawn=True)
    return _core.draw_patterns(m, n, k, density("a_density", a_density), density("b_density", b_density))


def _extents(m: int, n: int, k: int, drawn: bool) -> tuple[int, int, int]:
    """Checks extents; if elements are drawn individually, allows at most MOST_DRAWN elements."""
    m, n, k = (integer(name, value, 0, MOST_EXTENT) for name, value in (("m", m), ("n", n), ("k", k)))
    if drawn and k * max(m, n) > MOST_DRAWN:
        raise user_error(
            "the patterns are too large to draw",
            value=f"{m} x {k} and {k} x {n}",
            allowed=f"{MOST_DRAWN} elements",
        )
    return m, n, k


def _is_b(stationary: str) -> bool:
    if stationary not in ("a", "b"):
        raise user_error("unknown operand", place="stationary", value=shown(stationary), allowed="a, b")
    return stationary == "b"
