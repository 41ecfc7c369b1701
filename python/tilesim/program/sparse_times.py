"""Computes the cycles of a product's tiles on multipliers that skip zeros, from the positions of nonzeros."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from .. import _core

if TYPE_CHECKING:
    from ..machine.machine import Machine

__all__ = ["FORMS", "SparsePlan", "sparse_cores", "tile_times"]

FORMS = ("dense", "bitmap", "csr")
"""Formats of an operand's tiles, by their numbers in a plan."""
_SETTINGS: tuple[str, ...] = (
    *("multipliers", "read_ports", "write_ports", "lanes_a", "lanes_b"),
    *("tile_m", "tile_n", "accumulators", "segment"),
)


@dataclass(frozen=True)
class SparsePlan:
    """The part of a product that runs on sparse cores; `numbers` converts it to an attribute.

    Attributes:
        cut: 0: dense cores compute the rows before `start`; 1: the columns before `start`.
        start: 0: sparse cores compute all; the extent: dense cores compute all.
        tiles: tile sizes of m, n, k in elements.
        forms: formats of a and b, as indices of `FORMS`.
        bytes: stored bytes of a and b; 0: dense.
        hold: 0: vectors of a are stationary; 1: those of b.
        products: number of multiply-adds of nonzero elements; -1: data-dependent.
    """

    cut: int
    start: int
    tiles: tuple[int, int, int]
    forms: tuple[int, int]
    bytes: tuple[int, int]
    hold: int
    products: int = -1

    @property
    def numbers(self) -> list[int]:
        """Returns the values of the attribute `sparse_plan`."""
        return [self.cut, self.start, *self.tiles, *self.forms, *self.bytes, self.hold, self.products]

    @classmethod
    def of(cls, numbers: Any) -> SparsePlan:
        """Parses the attribute `sparse_plan`."""
        n = [int(number) for number in numbers]
        return cls(n[0], n[1], (n[2], n[3], n[4]), (n[5], n[6]), (n[7], n[8]), n[9], n[10])

    def parts(self, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns the parts of both operands that sparse cores multiply."""
        return (a[self.start :], b) if self.cut == 0 else (a, b[:, self.start :])


def sparse_cores(machine: Machine) -> dict[str, Any] | None:
    """Returns the dataflow and settings of a machine's sparse cores, or None."""
    names = list(machine.sorts) or [""]
    machines = {name: machine.only(name) if name else machine for name in names}
    arrays = {name: own.get("core.array") for name, own in machines.items()}
    arrays = {name: array for name, array in arrays.items() if array["count"] > 0}
    sparse = [name for name, array in arrays.items() if array["sparse"]["multipliers"] > 0]
    if not sparse:
        return None
    settings = arrays[sparse[0]]["sparse"]
    dense = [name for name in arrays if name not in sparse]
    return {
        "sort": sparse[0],
        "dense": dense[0] if dense else None,
        "only": len(dense) == 1,
        "machine": machines[sparse[0]],
        "dataflow": str(settings["dataflow"]),
        "settings": {key: int(settings[key]) for key in _SETTINGS},
    }


def tile_times(cores: Mapping[str, Any], a: Any, b: Any, tiles: tuple[int, int, int], hold: int) -> tuple[Any, Any]:
    """Computes cycles and multiply-adds of each tile."""
    return _core.sparse_tile_times(cores["dataflow"], cores["settings"], a, b, tiles, bool(hold))
