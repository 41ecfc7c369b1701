"""Computes strides of tensors as torch does, and which views need a copy."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["View", "compact", "contiguous", "viewed"]

Numbers = tuple[int, ...]


class View:
    """A view of a storage: name, storage and its bytes, extents, strides in elements, bytes per element."""

    __slots__ = ("base", "base_bytes", "name", "shape", "size", "strides", "turned")

    def __init__(
        self, name: str, base: str, base_bytes: float, shape: Numbers, strides: Numbers, size: float, turned: bool
    ) -> None:
        """Stores the parts."""
        self.name, self.base, self.base_bytes = name, base, base_bytes
        self.shape, self.strides, self.size, self.turned = shape, strides, size, turned

    @property
    def elements(self) -> int:
        """Number of elements, including repeated ones."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> float:
        """Bytes of distinct elements; an axis of stride 0 counts once."""
        return self.size * math.prod(n for n, stride in zip(self.shape, self.strides, strict=True) if stride or not n)

    def dense(self) -> bool:
        """Whether the view is contiguous."""
        return all(
            n == 1 or stride == want
            for n, stride, want in zip(self.shape, self.strides, contiguous(self.shape), strict=True)
        )

    def of(self, name: str, shape: Numbers, strides: Numbers, turned: bool = False) -> View:
        """Returns another view of the same storage."""
        return View(name, self.base, self.base_bytes, shape, strides, self.size, self.turned or turned)


def contiguous(shape: Sequence[int]) -> Numbers:
    """Returns the strides of a row-major tensor in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def compact(shape: Sequence[int], like: Sequence[int]) -> Numbers:
    """Returns compact strides with the axis order of the strides `like`, as torch allocates results."""
    order = sorted(range(len(shape)), key=lambda axis: (-like[axis], axis))
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def viewed(shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> Numbers | None:
    """Returns the strides of a view with shape `wanted`, or None if its merged axes are not adjacent in memory."""
    if math.prod(shape) == 0 or not shape:
        return contiguous(wanted)
    # runs of axes that merge to one stride, last axis first
    runs: list[list[int]] = []  # each run: elements, stride
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent == 1:
            continue
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= extent
        else:
            runs.append([extent, stride])
    found, left, step = [], 1, 1
    rest = iter(runs)
    for extent in reversed(wanted):
        if extent == 1:
            found.append(step)
            continue
        if left == 1:
            left, step = next(rest)
        if left % extent:
            return None
        found.append(step)
        left //= extent
        step *= extent
    return tuple(reversed(found))
