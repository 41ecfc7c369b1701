"""Computes the figures of a result: times, bytes, units, operations."""

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

__all__ = ["MeasuredResult"]

_NO_OPERATIONS = (
    'no operations: the program has no {"scope": NAME, "operation": NAME, "do": [...]}; units() has its times'
)
_MOVED_COUNTS = ("padding", "merged", "forwarded")


@checked_class()
class MeasuredResult:
    """Cycles, bytes, utilisation, energy and bounds of each operation, read from the JSON form."""

    data: dict[str, Any]

    @property
    def estimated(self) -> bool:
        """Whether the figures are estimates of closed forms."""
        return self.data.get("source") == "closed form"

    @property
    def cycles(self) -> int:
        """Duration in cycles of the core clock."""
        return int(self.data["cycles"])

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return float(self.data["cycles"] / self.data["hertz"])

    @property
    def milliseconds(self) -> float:
        """Duration in milliseconds."""
        return self.seconds * 1e3

    @property
    def bottleneck(self) -> str:
        """The busiest part: compute, vector, memory, cache, network (core ports, links), launch, host, link.

        "latency" if no part is busy half the time.
        """
        return str(self.data["bottleneck"])

    @property
    def approximations(self) -> list[str]:
        """Approximations of the model, one line each."""
        return list(self.data["approximations"])

    @property
    def checks(self) -> list[dict[str, Any]]:
        """Operations below their bound, far above it, or far above the closed form of their mapping.

        Rows with operation, what ("below its bound", "far above its closed form", "far above its bound"), cycles,
        against (cycles of the bound or closed form), ratio; usually empty. `approximations` names the worst one.
        """
        return checks_of(self.data)

    @property
    def memory_bytes(self) -> int:
        """Bytes read from and written to off-chip memory, in whole bursts."""
        return int(self.data["memory_read_bytes"] + self.data["memory_written_bytes"])

    @property
    def padded_bytes(self) -> int:
        """Padding bytes within `memory_bytes`, from layouts and bursts: the rows "padded ..." of `counts()`."""
        rows = self.data.get("counts", [])
        padded = [row for row in rows if row["part"] == "memory" and str(row["item"]).startswith("padded ")]
        return round(sum(row["rest"] + sum(number for _, number in row["operations"]) for row in padded))

    @property
    def lowering(self) -> str:
        """Lowering of the program: "native" (by the machine's lowering profile) or "best"; "" if unknown."""
        return str(self.data.get("lowering", ""))

    @property
    def bounds(self) -> Bound | None:
        """Lower bounds of bytes and seconds.

        None without a graph, with "ideal" memory or with a host part. For an estimate use `ts.lower_bound(graph,
        device)` (a device's caches may hold data that the bound loads).
        """
        found = self.data.get("bounds")
        return Bound(found) if found else None

    @property
    def accuracy(self) -> Accuracy | None:
        """Errors of the outputs against f32, if requested (`ts.run(..., accuracy=...)`)."""
        found = self.data.get("accuracy")
        return Accuracy(found) if found else None

    @property
    def energy(self) -> dict[str, float]:
        """Joules of the whole run by part, for parts with energy.* settings.

        Printing adds units, and says which parts lack settings. `counts()` has the counts by operation.
        """
        return Energy(self.data["energy"])

    @property
    def host_share(self) -> float:
        """Fraction of the time (0 to 1) in which the host computes or its link transfers while the machine waits."""
        busy = sum(row["cycles"]["busy"] for row in self.data["units"] if row["kind"] in ("host", "link"))
        return busy / max(1, self.cycles)

    @property
    def utilisation(self) -> dict[str, float]:
        """Fraction of the time (0 to 1) for which each unit type is busy, averaged over its units."""
        names = {"array": "arrays", "vector": "vector unit", "channel": "memory", "cache": "cache"}
        names |= {"host": "host", "link": "link"}
        found: dict[str, list[float]] = {}
        for row in self.data["units"]:
            if row["kind"] in names:
                found.setdefault(names[row["kind"]], []).append(row["cycles"]["busy"] / max(1, self.cycles))
        return {name: sum(found[name]) / len(found[name]) for name in names.values() if name in found}

    def table(self) -> Table:
        """Figures per operation, longest first.

        Returns:
            Rows with operation, fused (other operations of the kernel, such as " + act"), cycles (of the kernel;
            the column adds up to the total), share, bound, bytes. `why` accepts the name in "operation":
            "attention.self[3]" is the third kernel of "attention.self".
        """
        total, names = max(1, self.cycles), Names(self.data)
        rows = [
            {
                "operation": name,
                "fused": fused,
                "count": row["count"],
                "cycles": row["exclusive"],
                "share": row["exclusive"] / total,
                "bound": row["bound"],
                "busy": row["bound_share"],
                "bytes": row["load_bytes"] + row["store_bytes"],
                "multiply_adds": row["multiply_adds"],
            }
            for name, fused, row in zip(names.unique, names.fused(), self.data["operations"], strict=True)
        ]
        return Table(sorted(rows, key=lambda row: -row["cycles"]), printed_operations, _NO_OPERATIONS)

    def units(self) -> Table:
        """Cycles of each unit in each state, which add up to the total.

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
        """Counts of energy-consuming events and of padding; energy is counts times the machine's table.

        Padded multiply-adds come from ragged rows, columns and depths of an array, padded bytes from bursts and
        layouts; the other items count useful work. Closed forms count no padding. A host's operations and its link have
        separate rows.

        Returns:
            Rows with part, item, level (memory level), operation (empty if unattributed), number; empty for
            results of older versions.
        """
        rows = []
        for row in self.data.get("counts", []):
            rest = [["", row["rest"]]] if row["rest"] else []
            head = {key: row[key] for key in ("part", "item", "level")}
            rows += [{**head, "operation": name, "number": number} for name, number in [*row["operations"], *rest]]
        return Table(rows)

    def cores(self) -> Table:
        """Utilisation and traffic per core.

        Returns:
            Rows with core, sort (core type, if there are several), array, vector, load, store (busy share of the total
            time, averaged over equal units), multiply_adds, load_bytes, store_bytes, send_bytes.
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
        """Start and finish of each job.

        Returns:
            Rows with program, cores, arrival, start, finish (cycles); empty for a single program.
        """
        return Table(self.data.get("jobs", []))

    @property
    def cache(self) -> dict[str, Any] | None:
        """Statistics of the cache before the memory channels; None without a cache, or if no tensor was cached.

        Keys: slices, capacity_bytes, managed ("hardware", "software"), hits, misses (sector requests; a hit may
        wait for its sector), merged (hits on a sector in flight), fetched_bytes, returned_bytes (from and to memory),
        bypassed_bytes (reads and writes), dirty_bytes (at the end), stalled_cycles (network clock),
        tensors (see `cache_table`).
        """
        found = self.data.get("cache")
        return dict(found) if found else None

    def cache_table(self) -> Table:
        """Cache statistics per tensor, most traffic first.

        Returns:
            Rows with tensor, resident, bytes (whole pages), read_bytes and written_bytes (requested by the cores),
            hits, misses (requests), hit_rate, fetched_bytes, returned_bytes, bypassed_bytes; empty without a cache.
        """
        rows = []
        for use in (self.cache or {"tensors": []})["tensors"]:
            looked = use["hits"] + use["misses"]
            rows.append({**use, "hit_rate": use["hits"] / looked if looked else 0.0})
        return Table(sorted(rows, key=lambda row: -(row["read_bytes"] + row["written_bytes"])))

    @property
    def local_bytes(self) -> int:
        """Bytes that cores move to and from memory in the same region; 0 with one region."""
        return int(self.data.get("memory_local_bytes", 0))

    @property
    def remote_bytes(self) -> int:
        """Bytes over the links between memory regions; 0 with one region."""
        return int(self.data.get("memory_remote_bytes", 0))

    @property
    def data_sources(self) -> dict[str, str]:
        """Sources of tensor values that timing read: "given", a trace, a distribution, "computed from ...", "default:
        ..."."""
        return dict(self.data.get("data_sources", {}))

    @property
    def channel_bytes(self) -> dict[str, int]:
        """Compares the requested bytes with the bytes that the memory channels moved.

        Keys: asked (`memory_bytes`), padding (to full bursts), merged (writes to a queued burst), forwarded (reads
        served from a queued write), moved (asked + padding - merged - forwarded; sum over channels, including writes
        still queued at the end). The sums of replayed runs agree up to rounding.
        """
        parts = {key: int(self.data.get(f"memory_{key}_bytes", 0)) for key in _MOVED_COUNTS}
        moved = sum(int(row["bytes"]) for row in self.data["units"] if row["kind"] == "channel")
        return {"asked": self.memory_bytes, **parts, "moved": moved}
