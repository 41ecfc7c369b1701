"""A compiled tile program with its graph and machine, and its files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from .. import _core
from ..base.checked import checked_class
from ..base.errors import path_text, shown
from ..base.files import parse_json, read_text, writing
from ..base.late_calls import LateCalls
from ..graph import Graph, user_error
from ..graph.file_attributes import restore, saved_attributes
from ..graph.trips import Trips, counted, trip_notes
from ..machine.machine import Machine, MachineLike
from ..results.result import Table
from .fusion import Fusion, checked_rows, rules_text
from .memory_plan import MemoryPlan

__all__ = ["Program"]

COMPILED = "tilesim.compiled"
VERSIONS = (1, 2)  # version 2 has parts on the host, or loops with given trip counts


#: Key of a program's file -> reader of a program type that a later module defines; arguments: the key's content, the
#: graph, the machine, a place for messages.
READERS: dict[str, Callable[[Any, Graph, Machine, str], Any]] = LateCalls()


@checked_class()
class Program:
    """A compiled tile program with its graph and machine."""

    def __init__(self, core: _core.Program, graph: Graph | None = None, machine: Machine | None = None) -> None:
        """Stores a program of the core."""
        self.core, self.graph, self.machine = core, graph, machine
        #: fusion of operations into kernels
        self.fusion = Fusion(None)
        #: type of cores for which it was compiled; "" for all
        self.sort = ""
        self._prepared: _core.Graph | None = None
        self._operations, self._reads, self._sends = -1, False, False
        self._kernels: list[tuple[str, str, tuple[str, ...]]] = []
        self._footprint: list[tuple[int, str]] | None = None
        self._memory_plan: MemoryPlan | None = None
        self._weights: dict[str, Any] | None = None
        #: options of `compile`, to compile the same graph for another machine
        self.options: dict[str, Any] = {}
        self.trips: Trips = {}
        #: whether `trips` were counted on inputs; otherwise they were given
        self.trips_counted = False
        self._open: Graph | None = None
        #: the graph that `compile` received, unmarked; None after reading a file
        self.given: Graph | None = None

    @property
    def changed_options(self) -> dict[str, Any]:
        """Options of `compile` other than the defaults."""
        plain = {"mapping": "profile", "fuse": "all", "fallback": "error", "place": None, "cores": None}
        return {name: one for name, one in self.options.items() if name not in plain or one != plain[name]}

    def ended_by_data(self, graph: Graph, trips: Trips, options: dict[str, Any]) -> None:
        """Records the given trips of the loops of the program's graph.

        Args:
            graph: the graph with open loops.
            trips: trip counts by loop.
            options: options of `compile`.
        """
        self._open, self.trips, self.options = graph, trips, options

    @property
    def workload(self) -> Graph | None:
        """The graph before compilation, with its data-dependent loops; None if unknown."""
        return self._open or self.graph

    @property
    def loops_said(self) -> list[str]:
        """Returns notes on the trip counts of data-dependent loops, with their source."""
        return trip_notes(self.trips, "as counted on inputs" if self.trips_counted else "as said")

    @classmethod
    def load(cls, path: str | os.PathLike[str], machine: MachineLike | None = None) -> Program:
        """Reads a program from `save` or a manually written one.

        Args:
            path: a JSON file, schema "tilesim.program", or a .tsim file that `save` wrote (with graph, weights and
                machine: it can be executed, verified and simulated without the front end).
            machine: target of the simulation; by default the machine in the file, or the preset named in a JSON file.

        Returns:
            The checked program.

        Raises:
            UserError: with line and path, for a damaged file, or one of a newer version.
        """
        target = None if machine is None else Machine.load(machine)
        if path_text(path).endswith(".tsim"):
            return cls._of_file(_core.GraphFile(path_text(path)), path_text(path), target)
        core = _core.Program.from_json(read_text(path), path_text(path))
        core.check()
        core.check_races()
        return cls(core, None, target or _named(core.machine))

    @classmethod
    def _of_file(cls, file: _core.GraphFile, path: str, machine: Machine | None = None) -> Program:
        """Reads the program of an open .tsim file."""
        if not file.compiled:
            raise user_error("the file holds a graph, not a compiled program", place=path, suggestion="Graph.load")
        header = parse_json(file.rest(), path)
        if not isinstance(header, dict):
            raise user_error("the compiled program is damaged", place=path, value=shown(header), allowed="an object")
        if header.get("schema") != COMPILED or header.get("version") not in VERSIONS:
            found = f"{header.get('schema')} version {header.get('version')}"
            allowed = f"{COMPILED} version {' or '.join(map(str, VERSIONS))}"
            raise user_error("another kind of file or a newer version", place=path, value=found, allowed=allowed)
        try:
            return cls._from_header(header, file, path, machine)
        except _core.Error:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise user_error("the compiled program is damaged", place=path, value=shown(error)[:200]) from None

    @classmethod
    def _from_header(cls, header: dict[str, Any], file: _core.GraphFile, path: str, machine: Machine | None) -> Program:
        if not isinstance(header["machine"], dict):  # a text would be opened as the name of a file
            raise TypeError("the machine is not an object")
        graph, target = Graph(file.graph()), machine or Machine.load(header["machine"])._confined(os.path.dirname(path))
        restore(graph, header, path)
        trips = {label: (int(low), int(high)) for label, (low, high) in header.get("trips", {}).items()}
        whole = counted(graph, trips) if trips else graph
        if "mixed" in header:
            program: Program = READERS["mixed"](header["mixed"], whole, target, path)
        else:
            core = _core.Program.from_file(file)
            core.check()
            program = cls(core, whole, target)
        program.sort = str(header.get("sort", ""))
        if "fusion" in header and "mixed" not in header:
            program.fusion = Fusion(checked_rows(header["fusion"], path))
        program.options = {key: str(header[key]) for key in ("fuse", "mapping") if key in header}
        rules_text(program.options.get("fuse", "all"))
        if trips:
            program.ended_by_data(graph, trips, {**program.options, "trips": trips})
            program.trips_counted = bool(header.get("trips_counted"))
        return program

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program.

        Args:
            path: .json for only the tile program; .tsim for the program with its graph, weights (random ones as their
                recipe; folded, transposed and padded ones are recomputed from the graph's) and machine; if the host
                runs a part, it has all parts and transfers.

        Raises:
            UserError: for another ending; for .tsim from a program without its graph, .json from one with parts for the
                host or for a machine with custom instructions, or a path that cannot be written.
        """
        if not path_text(path).endswith((".json", ".tsim")):
            raise user_error("unknown ending of a program's file", place="path", value=shown(path_text(path)),
                             allowed="a name with .json or .tsim")  # fmt: skip
        if not path_text(path).endswith(".tsim"):
            self._check_forgotten(path_text(path))
            with writing(path) as file:
                file.write(self.core.to_json())
            return
        if self.graph is None or self.machine is None:
            raise user_error(
                "a program without its graph lacks the weights to write", place=path_text(path), allowed=".json"
            )
        graph = self.workload or self.graph
        header = {"schema": COMPILED, "version": VERSIONS[0], "tilesim": _core.__version__}
        header |= {"machine": self.machine.to_dict(), **self._contents(), **saved_attributes(graph)}
        if self.sort:
            header["sort"] = self.sort
        if self.trips:
            header |= {"trips": self.trips, "trips_counted": self.trips_counted}
        if self.trips or "mixed" in header:
            header["version"] = VERSIONS[1]
        self._write(path_text(path), graph, header)

    def _check_forgotten(self, path: str) -> None:
        """Rejects .json for machines with custom instructions, because the file only names a preset."""
        taken = {} if self.machine is None else _core.isa_functions(self.machine.core)
        if taken:
            what = "a .json file names a preset, which lacks custom instructions"
            value, allowed = ", ".join(sorted(taken)), "a name with .tsim, which keeps the machine"
            raise user_error(what, place=path, value=f"a machine with an instruction for {value}", allowed=allowed)

    def _contents(self) -> dict[str, Any]:
        """Returns the content of a file besides graph, machine and program."""
        found: dict[str, Any] = {"fusion": self.fusion.table().rows} if self.fusion.known else {}
        ways = {"fuse": rules_text(self.options.get("fuse", "all")), "mapping": self._rule()}
        return found | {name: way for name, way in ways.items() if way not in ("all", "profile")}

    def _rule(self) -> str:
        """The strategy that mapped products without a given nest."""
        mapping = self.options.get("mapping")
        return mapping if isinstance(mapping, str) and mapping in _core.mapping_strategies() else "profile"

    def _write(self, path: str, graph: Graph, header: dict[str, Any]) -> None:
        self.core.save(path, graph.core, json.dumps(header))

    def _repr_html_(self) -> str:
        from .pictures import picture

        return picture(self)

    @property
    def placement(self) -> Table:
        """The place of each operation; empty if all run on the machine."""
        return Table([])

    @property
    def transfers(self) -> Table:
        """Transfers over the link to the host; empty without a host."""
        return Table([])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the JSON form with graph and machine."""
        loops = (self.trips, self.trips_counted, self._open)
        rows = self.fusion.table().rows if self.fusion.known else None
        return _unpickled, (self.core.to_json(), self.graph, self.machine, self.options, self.sort, loops, rows)

    @property
    def operations(self) -> int:
        """Number of executed tile operations; a loop of unknown trip count counts once."""
        self._count()
        return self._operations

    @property
    def footprint(self) -> list[tuple[int, str]]:
        """Bytes (including layout padding) and name of every tensor except aliases, largest first."""
        if self._footprint is None:
            self._footprint = self.core.footprint()
        return self._footprint

    def memory_plan(self) -> MemoryPlan:
        """Plans the program's tensors in memory; those with disjoint lifetimes share bytes.

        Returns:
            The plan: `peak_bytes` by level, `table()`. Addresses are multiples of the machine's bursts, so that no two
            tensors share one.
        """
        if self._memory_plan is None:
            granule = self.target.get("memory.burst_bytes") if self.target is not None else None
            self._memory_plan = MemoryPlan(self.core.memory_plan(int(_core.parse_bytes(str(granule or "64 B")))))
        return self._memory_plan

    @property
    def peak_bytes(self) -> int:
        """Bytes of all tensors in the machine's memory by `memory_plan`."""
        return self.memory_plan().peak_bytes["memory"]

    @property
    def reads_tensors(self) -> bool:
        """Whether loops, addresses, or rows of transfers depend on values of tensors."""
        self._count()
        return self._reads

    @property
    def sends(self) -> bool:
        """Whether cores send tiles to each other."""
        self._count()
        return self._sends

    def _count(self) -> None:
        if self._operations < 0:
            count, self._sends, self._kernels = self.core.contents()
            self._reads = bool(self.core.data_reads())
            self._operations = count  # set last, because other threads take it as sign that all counts are known

    @property
    def kernels(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """Function ("" for the main body), name and operations of every kernel, in program order."""
        self._count()
        return self._kernels

    @property
    def notes(self) -> list[str]:
        """Approximations and additions of lowering."""
        return list(self.core.notes)

    def weight(self, name: str) -> Any:
        """Returns the elements of a weight of the program, including folded constants.

        Args:
            name: name among the program's tensors.

        Returns:
            A numpy array.

        Raises:
            UserError: for a program without its graph, or an unknown name.
        """
        if self.graph is None or self.machine is None:
            raise user_error("a program without its graph lacks weights")
        return self.prepared.weight(name)

    @property
    def target(self) -> Machine | None:
        """The target of the program: the machine, or its cores of one type."""
        return self.machine.only(self.sort) if self.machine is not None and self.sort else self.machine

    def _shared_by(self) -> int:
        """Number of cores for which the program was compiled, at most those of the machine."""
        most = int(self.target.get("core.count")) if self.target is not None else 1
        return min(self.cores, most)

    @property
    def cores(self) -> int:
        """Number of cores that share the work of each kernel."""
        return int(self.core.cores)

    @property
    def prepared(self) -> _core.Graph:
        """The expanded and folded graph of lowering.

        Raises:
            UserError: for a program without its graph.
        """
        target = self.target
        if self.graph is None or target is None:
            raise user_error("a program without its graph lacks the prepared graph")
        if self._prepared is None:
            fuse = rules_text(self.options.get("fuse", "all"))
            contexts = min(int(self.options.get("contexts") or 1), int(target.get("core.contexts")))
            given = self.options.get("mapping")
            nests = [str(one) for one in given] if isinstance(given, dict) else []
            rows = self.fusion.table().rows if self.fusion.known else None
            whole = None if rows is None else {
                str(row["candidate"]) for row in rows if row["rule"] == "attention" and row["decision"] == "taken"
            }  # fmt: skip
            self._prepared = _core.prepared(
                self.graph.core, target.core, self._shared_by(), fuse, contexts, self._rule(), nests, whole
            )
        return self._prepared

    def weights(self) -> dict[str, Any]:
        """Returns the elements of all weights of the program, and caches them.

        Returns:
            Numpy arrays by the names of the program's tensors.
        """
        if self._weights is None:
            rows = [row for row in self.core.tensors() if row["role"] == "weight"]
            self._weights = {row["name"]: self.weight(row["weight"]) for row in rows}
        return self._weights

    def forget_weights(self) -> None:
        """Clears cached weights, so that the next execution reads changed weights of the graph."""
        self._prepared, self._weights = None, None

    def tensors(self) -> Table:
        """Tabulates the tensors of the program.

        Returns:
            Rows with name, dtype, shape, role.
        """
        return Table(self.core.tensors())

    def __repr__(self) -> str:
        """Name and machine."""
        return f"<Program {self.core.name} for {self.core.machine or 'any machine'}>"


def _named(machine: str) -> Machine | None:
    """The preset that a file names, or None."""
    return Machine.load(machine) if machine in Machine.names() else None


def _unpickled(
    text: str,
    graph: Graph | None,
    machine: Machine | None,
    options: dict[str, Any],
    sort: str,
    loops: tuple[Any, ...] = ({}, False, None),
    groups: list[dict[str, Any]] | None = None,
) -> Program:
    program = Program(_core.Program.from_json(text, "pickle"), graph, machine)
    program.options, program.sort = options, sort
    program.trips, program.trips_counted, program._open = loops
    program.fusion = Fusion(groups)
    return program
