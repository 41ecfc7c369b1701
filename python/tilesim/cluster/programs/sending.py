"""Writes a device's part of a communication as a tile program: loads, sends over the link, adds, stores.

A device sends and receives at the same time: one operation of the queue "link" takes a tile from one slot and puts a
tile into another, for the duration of the transfer. The vector unit adds received partial sums to the device's sums.
Cores have equal parts of the bytes and of the link.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ... import _core
from ...base.errors import user_error
from ...machine.machine import Machine
from ...program.program import Program

__all__ = ["LINK", "Exchange", "exchange_program"]

LINK = "link"
NOTE = (
    "communication: a device loads tiles to send, adds received sums, and stores received tiles; it sends and "
    "receives at the same time; cores have equal parts of the link; the network gives the link's time"
)
DEPTH = 4  # tiles per slot: enough to load and store during transfers
MOST_TILE = 64 << 10  # most bytes of a tile
TILES = 16  # least tiles per core and phase (of at least LEAST_TILE bytes), so that fill and drain are a small part
LEAST_TILE = 1 << 10
LOADED, ARRIVED, OWN, SUMMED = "sent", "arrived", "own", "summed"


@dataclass(frozen=True)
class Exchange:
    """Bytes at a device's port in one communication.

    `sent` and `received` are bytes; the device adds `summed` of the received bytes to its own data, which it loads;
    `latency_ps` passes before the first tile, then `link_ps` for all tiles.
    """

    sent: int
    received: int
    summed: int
    dtype: str
    latency_ps: int
    link_ps: int

    @property
    def loaded(self) -> int:
        """Bytes read from memory."""
        return self.sent + self.summed

    def part(self, size: int) -> Exchange:
        """Returns a part of the exchange with `size` bytes in the larger direction, at the same link rate."""
        most = max(self.sent, self.received)
        sent, received, summed = (
            one * size // most // 16 * 16 for one in (self.sent, self.received, self.summed)
        )  # 16 is the bytes of the widest dtype
        return Exchange(sent, received, summed, self.dtype, self.latency_ps, self.link_ps * size // most)


@dataclass(frozen=True)
class _CoreShares:
    """Splits elements over cores (`base` each, one more on the first `more` cores) and tiles of `tile` elements."""

    total: int
    cores: int
    full: int  # number of a core's tiles before the last one
    tile: int

    @property
    def base(self) -> int:
        return self.total // self.cores

    @property
    def remainder(self) -> int:
        return self.total % self.cores

    @property
    def max_elements(self) -> int:
        return max(self.tile, self.base - self.full * self.tile + bool(self.remainder))

    def last(self) -> str:
        left = self.base - self.full * self.tile
        return f"{left} + max(0, min(1, {self.remainder} - core))" if self.remainder else str(left)

    def at(self, tile: str) -> str:
        return f"core * {self.base} + min(core, {self.remainder}) + {self.tile} * {tile}"


def exchange_program(machine: Machine, exchange: Exchange) -> Program:
    """Writes the tile program of a device's part in a communication."""
    bits = _core.dtype_bits(exchange.dtype)
    dtype = exchange.dtype if exchange.summed else "u8"
    size = max(1, bits // 8) if exchange.summed else 1
    if exchange.summed and bits % 8:
        raise user_error("partial sums of less than a byte", place="dtype", value=dtype, allowed="whole bytes")
    maker = _ExchangeWriter(machine, dtype, size)
    split = exchange.summed / exchange.received if exchange.received else 0.0
    first = round(exchange.link_ps * split)
    sent = round(exchange.sent * split / size)
    maker.wait(exchange.latency_ps)
    if exchange.summed:
        maker.phase(sent, exchange.summed // size, True, first)
    if exchange.received > exchange.summed or exchange.sent > sent * size:
        copied = max(0, exchange.received - exchange.summed)
        maker.phase(-(-exchange.sent // size) - sent, -(-copied // size), False, exchange.link_ps - first)
    core = _core.Program.from_json(json.dumps(maker.program()), "exchange")
    core.check()
    return Program(core, None, machine)


class _ExchangeWriter:
    def __init__(self, machine: Machine, dtype: str, size: int) -> None:
        self.machine, self.dtype, self.size = machine, dtype, size
        self.cores = int(machine.get("core.count"))
        self.load = "load1" if int(machine.get("core.dma.load_queues")) > 1 else "load0"
        self.room = _core.parse_bytes(str(machine.get("core.scratchpad.bytes")))
        self.tensors: list[dict[str, Any]] = []
        self.body: list[dict[str, Any]] = []
        self.phases, self.launched = 0, False

    def wait(self, picoseconds: int) -> None:
        if picoseconds:
            opaque = {"target": "latency", "cycles": self.cycles(picoseconds), "reads": [], "writes": []}
            self.body.append({"opaque": opaque, "queue": LINK, "label": "latency"})

    def cycles(self, picoseconds: int) -> int:
        return -(-picoseconds * self.machine.hertz // 10**12)

    def phase(self, sent: int, received: int, sums: bool, picoseconds: int) -> None:
        """Writes a phase that adds either all received bytes (`sums`) or none."""
        number = self.phases
        self.phases += 1
        largest = max(sent, received)
        kept = 4 if sums else 2  # number of slots
        tile = min(MOST_TILE, self.room // (2 * kept * DEPTH))
        share = -(-largest // self.cores) * self.size
        tile = max(self.size, min(tile, max(LEAST_TILE, share // TILES)) // self.size * self.size)
        full = largest // self.cores // (tile // self.size)
        out, into = (
            _CoreShares(
                total, self.cores, full, tile // self.size if total == largest else total // self.cores // max(full, 1)
            )
            for total in (sent, received)
        )
        names = {name: f"{name}{number}" for name in (LOADED, ARRIVED, OWN, SUMMED)}
        slots = self.declare(names, out, into, sums)
        body: list[dict[str, Any]] = []
        cycles = self.cycles(picoseconds)
        step = max(out.tile, into.tile)
        whole = max(out.base, into.base)
        if full:
            done = [
                f"({cycles * step} * t{number} + {cycles * step}) // {whole}",
                f"({cycles * step} * t{number}) // {whole}",
            ]
            tiles = self.tile(names, f"t{number}", out, into, False, sums, " - ".join(done))
            body.append({"for": f"t{number}", "extent": full, "do": tiles})
        left = cycles - (cycles * step * full // whole if whole else 0)
        body += self.tile(names, str(full), out, into, True, sums, str(left))
        launch = 0 if self.launched else int(self.machine.get("core.kernel_launch_cycles"))
        self.launched = True
        self.body.append({"scope": "sums" if sums else "copies", "slots": slots, "launch_cycles": launch, "do": body})

    def declare(self, names: dict[str, str], out: _CoreShares, into: _CoreShares, sums: bool) -> list[dict[str, Any]]:
        """Declares the tensors of a phase, and slots that can overlap those of the previous phase."""
        slots: list[dict[str, Any]] = []
        address = 0
        for name, role, dealt in ((LOADED, "input", out), (OWN, "input", into), (ARRIVED, "output", into)):
            if dealt.total and (sums or name != OWN):
                self.tensors.append({"name": names[name].upper(), "dtype": self.dtype, "shape": [dealt.total],
                                     "role": role})  # fmt: skip
        vector = ["vector"]
        wanted = {LOADED: (out, [LINK]), ARRIVED: (into, vector if sums else ["store0"])}
        if sums:
            wanted |= {OWN: (into, vector), SUMMED: (into, ["store0"])}
        for name, (dealt, consumers) in wanted.items():
            elements = max(1, dealt.max_elements)
            slots.append({"name": names[name], "dtype": self.dtype, "elements": elements, "depth": DEPTH,
                          "address": address, "consumers": consumers})  # fmt: skip
            address += -(-elements * self.size // 64) * 64 * DEPTH
        return slots

    def tile(
        self, names: dict[str, str], at: str, out: _CoreShares, into: _CoreShares, last: bool, sums: bool, cycles: str
    ) -> list[dict[str, Any]]:
        """Writes the operations that send one tile and receive one."""
        put = out.last() if last else str(out.tile)
        taken = into.last() if last else str(into.tile)
        body: list[dict[str, Any]] = []
        if out.total:
            body += self.transfer("load", names[LOADED], names[LOADED], out, at, put, "load0")
        if sums and into.total:
            body += self.transfer("load", names[OWN], names[OWN], into, at, taken, self.load)
        body += self.link(names, out, into, put, taken, cycles)
        if into.total:
            done = ARRIVED
            if sums:
                body += self.added(names, taken)
                done = SUMMED
            body += self.transfer("store", names[ARRIVED], names[done], into, at, taken, "store0")
        return body

    def transfer(
        self, what: str, tensor: str, slot: str, dealt: _CoreShares, at: str, extent: str, queue: str
    ) -> list[dict[str, Any]]:
        move = {what: {"tensor": tensor.upper(), "at": [dealt.at(at)], "slot": slot,
                       "dims": [{"extent": extent, "axis": 0, "stride": 1}]}, "queue": queue}  # fmt: skip
        if what == "load":
            return [{"acquire": slot, "queues": [queue]}, move, {"commit": slot, "queue": queue}]
        return [{"wait": slot, "queue": queue}, move, {"release": slot, "queue": queue}]

    def link(
        self, names: dict[str, str], out: _CoreShares, into: _CoreShares, put: str, taken: str, cycles: str
    ) -> list[dict[str, Any]]:
        reads = [_view(names[LOADED], put)] if out.total else []
        writes = [_view(names[ARRIVED], taken)] if into.total else []
        send = {"opaque": {"target": "send", "cycles": cycles, "reads": reads, "writes": writes}, "queue": LINK,
                "label": "send"}  # fmt: skip
        body: list[dict[str, Any]] = []
        if reads:
            body.append({"wait": names[LOADED], "queue": LINK})
        if writes:
            body.append({"acquire": names[ARRIVED], "queues": [LINK]})
        body.append(send)
        if writes:
            body.append({"commit": names[ARRIVED], "queue": LINK})
        if reads:
            body.append({"release": names[LOADED], "queue": LINK})
        return body

    def added(self, names: dict[str, str], extent: str) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = [{"op": "input", "index": 0}, {"op": "input", "index": 1},
                                       {"op": "function", "function": "add", "arguments": [0, 1]}]  # fmt: skip
        if self.dtype != "f32":
            nodes.append({"op": "convert", "arguments": [2], "dtype": self.dtype})
        vector = {"extents": [extent], "inputs": [_view(names[ARRIVED], extent), _view(names[OWN], extent)],
                  "nodes": nodes,
                  "outputs": [{"node": len(nodes) - 1, "view": _view(names[SUMMED], extent)}]}  # fmt: skip
        return [
            {"wait": names[ARRIVED], "queue": "vector"},
            {"wait": names[OWN], "queue": "vector"},
            {"acquire": names[SUMMED], "queues": ["vector"]},
            {"vector": vector, "queue": "vector", "label": "sum"},
            {"release": names[ARRIVED], "queue": "vector"},
            {"release": names[OWN], "queue": "vector"},
            {"commit": names[SUMMED], "queue": "vector"},
        ]

    def program(self) -> dict[str, Any]:
        return {
            "schema": "tilesim.program", "version": 2, "name": "exchange", "cores": self.cores,
            "tensors": self.tensors, "do": self.body,
            "notes": [NOTE],
        }  # fmt: skip


def _view(slot: str, extent: str) -> dict[str, Any]:
    return {"slot": slot, "dims": [[extent, 1]]}
