"""DRAM traces from a generator, a file or arrays."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from ..base.arguments import as_array
from ..base.checked import checked_class
from ..base.errors import path_text, user_error
from ..base.files import read_text

__all__ = ["Trace"]


@checked_class()
class Trace:
    """A sequence of DRAM requests of one burst each."""

    def __init__(self, addresses: ArrayLike, writes: ArrayLike | None = None, cycles: ArrayLike | None = None) -> None:
        """Builds a trace from byte addresses [n], write flags [n] and arrival cycles [n]."""
        self.addresses = _integers(addresses, "addresses", np.uint64)
        n = self.addresses.size
        self.writes = np.zeros(n, np.uint8) if writes is None else _flags(writes)
        self.cycles = _integers([] if cycles is None else cycles, "cycles", np.int64)
        for what, array in (("writes", self.writes), ("cycles", self.cycles)):
            if array.shape != (n,) and not (what == "cycles" and cycles is None):
                raise user_error("the arrays of a trace differ in shape", place=what, value=str(array.shape))
        if np.any(np.diff(self.cycles) < 0):
            raise user_error("the cycles of a trace are not ascending", place="cycles")

    @classmethod
    def generate(cls, name: str, requests: int = 20000, burst_bytes: int = 32, span: int = 1 << 28) -> Trace:
        """Generates a trace by pattern name.

        Args:
            name: sequential_read, sequential_write, copy_blocks_64KiB, tile_256B_pitch_4096B, stride_4KiB,
                two_streams_far, two_streams_1MiB, random_read, random_write, mixed_rand, mixed_small, mixed_seq; the
                sizes in these names may be any others.
            requests: number of requests.
            burst_bytes: bytes of each request.
            span: bytes of the address range of random and strided patterns.

        Returns:
            The trace.

        Raises:
            UserError: for an unknown name or a size that does not fit.
        """
        addresses, writes = _core.dram_trace(name, requests, burst_bytes, span)
        return cls(addresses, writes)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Trace:
        """Reads a trace file with lines "R address [cycle]" or "W address [cycle]".

        Args:
            path: text file; addresses decimal or with 0x, # starts a comment.

        Returns:
            The trace.

        Raises:
            UserError: for a bad line, with its number, or a file that cannot be read.
        """
        text = read_text(path)
        addresses, writes, cycles = _core.dram_parse_trace(text, path_text(path))
        return cls(addresses, writes, cycles if cycles.size else None)

    def __len__(self) -> int:
        """Number of requests."""
        return int(self.addresses.size)


def _flags(values: ArrayLike) -> NDArray[np.uint8]:
    array = as_array(values, "writes")
    if array.dtype.kind not in "biu":
        raise user_error("the writes are not bools", place="writes", value=str(array.dtype), allowed="bool")
    return array.astype(bool).astype(np.uint8)


def _integers(values: ArrayLike, what: str, dtype: type) -> NDArray[Any]:
    array = np.atleast_1d(as_array(values, what))
    if array.size and (array.dtype.kind not in "iu" or array.ndim != 1):
        raise user_error("not a one-dimensional array of integers", place=what, value=f"{array.dtype} {array.shape}")
    if array.size and array.dtype.kind == "i" and int(array.min()) < 0:
        index = int(np.argmax(array < 0))
        raise user_error("a negative number in a trace", place=f"{what}[{index}]", value=str(array[index]))
    return array.astype(dtype)
