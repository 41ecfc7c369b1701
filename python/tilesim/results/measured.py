"""The figures of a result: what it says about times, bytes, units and operations."""

from __future__ import annotations

from typing import Any

from ..base.checked import checked_class
from ..base.table import Table
from .accuracy import Accuracy
from .bounds import Bound
from .checks import checks_of
from .energy import Energy
from .names import Names
from .printed import printed_operations

__all__ = ["Measured"]

_NO_OPERATIONS = (
    'no operations: no {"scope": NAME, "operation": NAME, "do": [...]} of the program names one; units() has its times'
)
_MOVED = ("padding", "merged", "forwarded")


@checked_class()
class Measured:
    """Cycles, bytes, utilisation, energy and what bounds each operation, read from the JSON form."""

    data: dict[str, Any]

    @property
    def estimated(self) -> bool:
        """Whether the figures come from closed forms, and not from a simulation."""
        return self.data.get("source") == "closed form"

    @property
    def cycles(self) -> int:
        """Cycles of the core clock."""
        return int(self.data["cycles"])

    @property
    def seconds(self) -> float:
        """Seconds."""
        return float(self.data["cycles"] / self.data["hertz"])

    @property
    def milliseconds(self) -> float:
        """Milliseconds."""
        return self.seconds * 1e3

    @property
    def bottleneck(self) -> str:
        """The part busy longest: compute, vector, memory, cache, network (a core's port, a link), launch, host, link.

        "latency" if none is for half the time.
        """
        return str(self.data["bottleneck"])

    @property
    def approximations(self) -> list[str]:
        """What was modelled how, and what was left out."""
        return list(self.data["approximations"])

    @property
    def checks(self) -> list[dict[str, Any]]:
        """Operations whose time lies below their bound or far above it, or far above the closed form of their mapping.

        Rows with operation, what ("below its bound", "far above its closed form", "far above its bound"), cycles,
        against (cycles of the bound or closed form), ratio; most results have none. A line of `approximations` names
        the first.
        """
        return checks_of(self.data)

    @property
    def memory_bytes(self) -> int:
        """Bytes read from and written to off-chip memory, in whole bursts."""
        return int(self.data["memory_read_bytes"] + self.data["memory_written_bytes"])

    @property
    def padded_bytes(self) -> int:
        """Of `memory_bytes`, what layouts and bursts bring beyond the elements; the rows "padded ..." of `counts()`."""
        rows = self.data.get("counts", [])
        padded = [row for row in rows if row["part"] == "memory" and str(row["item"]).startswith("padded ")]
        return round(sum(row["rest"] + sum(number for _, number in row["operations"]) for row in padded))

    @property
    def lowering(self) -> str:
        """How the program was lowered: "native" (by the machine's lowering profile) or "best"; "" where not known."""
        return str(self.data.get("lowering", ""))

    @property
    def bounds(self) -> Bound | None:
        """The least bytes and seconds of the workload.

        None where no graph is known, memory is "ideal" or the host runs a part; of an estimate `ts.lower_bound(graph,
        device)` gives them (caches of a device may hold what the bound loads).
        """
        found = self.data.get("bounds")
        return Bound(found) if found else None

    @property
    def accuracy(self) -> Accuracy | None:
        """Errors of the outputs against f32, where they were asked for (`ts.run(..., accuracy=...)`)."""
        found = self.data.get("accuracy")
        return Accuracy(found) if found else None

    @property
    def energy(self) -> dict[str, float]:
        """Joules by part, for parts whose energy the machine states (settings energy.*); empty where it states none.

        Printed, it has units, and says which parts are unknown and how they are set. It is of the whole run; `counts()`
        has by operation what it is made of.
        """
        return Energy(self.data["energy"])

    @property
    def host_share(self) -> float:
        """Fraction of the time, from 0 to 1, in which the host computes or its link transfers; the machine waits."""
        busy = sum(row["cycles"]["busy"] for row in self.data["units"] if row["kind"] in ("host", "link"))
        return busy / max(1, self.cycles)

    @property
    def utilisation(self) -> dict[str, float]:
        """Fraction of the time, from 0 to 1, for which each sort of unit is busy, averaged over its units."""
        names = {"array": "arrays", "vector": "vector unit", "channel": "memory", "cache": "cache"}
        names |= {"host": "host", "link": "link"}
        found: dict[str, list[float]] = {}
        for row in self.data["units"]:
            if row["kind"] in names:
                found.setdefault(names[row["kind"]], []).append(row["cycles"]["busy"] / max(1, self.cycles))
        return {name: sum(found[name]) / len(found[name]) for name in names.values() if name in found}

    def table(self) -> Table:
        """Per operation, longest first.

        Returns:
            Rows with operation, cycles attributed to it (they add up to the total), share, bound, bytes. `why` of the
            name in "operation" gives this very row: "attention.self[3]" is the third kernel of "attention.self".
        """
        total = max(1, self.cycles)
        rows = [
            {
                "operation": name,
                "count": row["count"],
                "cycles": row["exclusive"],
                "share": row["exclusive"] / total,
                "bound": row["bound"],
                "busy": row["bound_share"],
                "bytes": row["load_bytes"] + row["store_bytes"],
                "multiply_adds": row["multiply_adds"],
            }
            for name, row in zip(Names(self.data).own, self.data["operations"], strict=True)
        ]
        return Table(sorted(rows, key=lambda row: -row["cycles"]), printed_operations, _NO_OPERATIONS)

    def units(self) -> Table:
        """Per unit: cycles in each state, which add up to the total.

        Returns:
            Rows with unit, states, operations, bytes.
        """
        return Table(
            [
                {"unit": row["unit"], **row["cycles"], "operations": row["operations"], "bytes": row["bytes"]}
                for row in self.data["units"]
            ]
        )

    def counts(self) -> Table:
        """What takes energy, and what was moved or computed in vain; energy is counts times the machine's table.

        Padded multiply-adds are those of an array's ragged rows, columns and depths, padded bytes those of bursts and
        layouts beyond the elements; the items of their names count what is useful. Closed forms count no padding. With
        a host its operations and the link have rows of their own.

        Returns:
            Rows with part, item, level (of a memory), operation (empty: what none of them caused), number; none of a
            result that an older version wrote.
        """
        rows = []
        for row in self.data.get("counts", []):
            rest = [["", row["rest"]]] if row["rest"] else []
            head = {key: row[key] for key in ("part", "item", "level")}
            rows += [{**head, "operation": name, "number": number} for name, number in [*row["operations"], *rest]]
        return Table(rows)

    def cores(self) -> Table:
        """Per core: how busy its arrays, vector unit and queues are, and what it moves.

        Returns:
            Rows with core, (where the machine has several) sort, array, vector, load, store (busy share of the total
            time, of several units their mean), multiply_adds, load_bytes, store_bytes, send_bytes.
        """
        sorts = [entry["sort"] for entry in self.data["configuration"].get("cores", []) for _ in range(entry["count"])]
        kinds = ("array", "vector", "load", "store", "send")
        by_core: dict[int, dict[str, list[dict[str, Any]]]] = {}
        for row in self.data["units"]:
            if row["kind"] in kinds:
                by_core.setdefault(row["core"], {kind: [] for kind in kinds})[row["kind"]].append(row)
        total = max(1, self.cycles)
        rows = []
        for core, units in sorted(by_core.items()):
            busy = {
                kind: sum(row["cycles"]["busy"] for row in units[kind]) / total / max(1, len(units[kind]))
                for kind in kinds[:4]
            }
            moved = {f"{kind}_bytes": sum(row["bytes"] for row in units[kind]) for kind in kinds[2:]}
            named = {"core": core} | ({"sort": sorts[core]} if sorts else {})
            rows.append({**named, **busy, "multiply_adds": sum(row["work"] for row in units["array"]), **moved})
        return Table(rows)

    def jobs(self) -> Table:
        """Jobs: when each of them ran.

        Returns:
            Rows with program, cores, arrival, start, finish (cycles); none of a program that was simulated by itself.
        """
        return Table(self.data.get("jobs", []))

    @property
    def cache(self) -> dict[str, Any] | None:
        """What the cache before the memory channels did; none: there was none, or nothing was to stay in it.

        slices, capacity_bytes, managed ("hardware", "software"), hits, misses (requests of a sector or less; a hit may
        wait for its sector), merged (hits on a sector on its way), fetched_bytes (from memory), returned_bytes (to it),
        bypassed_bytes (both ways, past the cache), dirty_bytes (left at the end), stalled_cycles (network clock),
        tensors (`cache_table`).
        """
        found = self.data.get("cache")
        return dict(found) if found else None

    def cache_table(self) -> Table:
        """Per tensor: what the cache did, the most moved first.

        Returns:
            Rows with tensor, resident, bytes (its own, whole pages), read_bytes and written_bytes (asked by the cores),
            hits, misses (requests), hit_rate, fetched_bytes, returned_bytes, bypassed_bytes; no rows without a cache.
        """
        rows = []
        for use in (self.cache or {"tensors": []})["tensors"]:
            looked = use["hits"] + use["misses"]
            rows.append({**use, "hit_rate": use["hits"] / looked if looked else 0.0})
        return Table(sorted(rows, key=lambda row: -(row["read_bytes"] + row["written_bytes"])))

    @property
    def local_bytes(self) -> int:
        """Memory of several regions: bytes from and to the core's own region; 0 where there is one."""
        return int(self.data.get("memory_local_bytes", 0))

    @property
    def remote_bytes(self) -> int:
        """Memory of several regions: bytes that pass a link between regions; 0 where there is one."""
        return int(self.data.get("memory_remote_bytes", 0))

    @property
    def data_sources(self) -> dict[str, str]:
        """Tensors whose values timing read: "given", a trace, a distribution, "computed from ...", "default: ..."."""
        return dict(self.data.get("data_sources", {}))

    @property
    def channel_bytes(self) -> dict[str, int]:
        """From the bytes asked for to those that the memory channels moved.

        asked (`memory_bytes`), padding (whole bursts beyond what was asked for), merged (writes to a burst that waited
        to be written already), forwarded (reads answered from a waiting write), moved: asked + padding - merged -
        forwarded, the sum over the channels, with the writes that wait at the end. Runs that were replayed are exact up
        to rounding.
        """
        parts = {key: int(self.data.get(f"memory_{key}_bytes", 0)) for key in _MOVED}
        moved = sum(int(row["bytes"]) for row in self.data["units"] if row["kind"] == "channel")
        return {"asked": self.memory_bytes, **parts, "moved": moved}
