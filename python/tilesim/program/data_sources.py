"""Where the values come from that timing reads: given, computed from what was given, or what is typical."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _core
from ..base.arguments import as_array
from ..base.errors import nearest, user_error
from .mixed import MixedProgram, Turn
from .program import Program

__all__ = ["Data", "PartData", "data_of_parts", "known_data"]

MOST_FLOPS = 2e10
"""Arithmetic beyond which what timing reads is not computed from what was given: some ten seconds."""

_RAGGED = (".counts", ".offsets")  # what lowering makes of the group sizes of a ragged product, as tensors of its own


@dataclass
class Data:
    """Arrays by the names of a program's tensors, and how those came about that were not given."""

    arrays: dict[str, Any] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    lacking: dict[str, str] = field(default_factory=dict)

    def tell(self, result: dict[str, Any]) -> None:
        """Says in a result where the values came from that its simulation read.

        Args:
            result: JSON form; changed.
        """
        sources = dict(result.get("data_sources", {}))
        for name, how in list(sources.items()):
            if how == "given" and name in self.computed:
                sources[name] = self.computed[name]
            elif how.startswith("default") and name in self.lacking:
                sources[name] = f"{how} ({self.lacking[name]})"
        read = " ".join(sources.values())
        for name in self.given:
            if name not in sources and not re.search(rf"\b{re.escape(name)}\b", read):
                sources[name] = "given; timing does not depend on it"
        if sources:
            result["data_sources"] = sources


def _array(value: Any) -> Any:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else as_array(value, "tensors")


def _unknown(given: Iterable[str], known: Iterable[str], place: str) -> None:
    names = list(known)
    for name in given:
        if name not in names:
            raise user_error(
                "no tensor of the program has this name",
                place=f"tensors, {place}",
                value=f"'{name}'",
                allowed=", ".join(names[:20]) + (", ..." if len(names) > 20 else ""),
                suggestion=nearest(name, names),
            )


class _Values:
    """Values of a graph's entry function, computed by the reference kernels as far as they are asked for."""

    def __init__(self, graph: _core.Graph, given: Mapping[str, Any]) -> None:
        self.graph, self.given = graph, given
        self.operations = graph.operations("")
        self.makers = {row["name"]: op for op in self.operations for row in op["results"]}
        self.types = {row["name"]: row for op in self.operations for row in (*op["operands"], *op["results"]) if row}
        self.types |= {row["name"]: row for row in graph.inputs}

    def _needed(self, name: str) -> tuple[dict[str, Any], set[str]]:
        """Operations behind a value by name, and the values that these start from."""
        operations, leaves, todo = {}, set(), [name]
        while todo:
            value = todo.pop()
            maker = self.makers.get(value)
            if value in self.given or maker is None:
                leaves.add(value)
            elif maker["name"] not in operations:
                operations[maker["name"]] = maker
                todo += [row["name"] for row in maker["operands"] if row is not None]
        return operations, leaves

    def value(self, name: str) -> tuple[Any, str]:
        """The array and where it is from, or nothing and why."""
        if name in self.given:
            return self.given[name], "given"
        operations, leaves = self._needed(name)
        missing = sorted(leaves - set(self.given))
        if missing or name not in self.types:
            return None, f"computed from {', '.join(missing)}, not given" if missing and missing != [name] else ""
        sources = ", ".join(sorted(leaves)) or "weights and constants"
        flops = sum(sum(op["flops"].values()) for op in operations.values())
        if flops > MOST_FLOPS:
            return None, f"from {sources} it takes {flops:.1e} FLOPs, more than {MOST_FLOPS:.0e}"
        order = [op["name"] for op in self.operations if op["name"] in operations]
        part = self.graph.extract(order, sorted(leaves), [name])
        return _core.evaluate(part, [self.given[leaf] for leaf in sorted(leaves)], {})[0], f"computed from {sources}"


def _ragged(values: _Values, name: str) -> tuple[Any, str]:
    """Rows per group and before it, as the lowering of a ragged product makes them of its sizes."""
    for suffix in _RAGGED:
        op = values.makers.get(name.removesuffix(suffix)) if name.endswith(suffix) else None
        if op is None or op["kind"] != "ragged_contract":
            continue
        sizes, how = values.value(op["operands"][2]["name"])
        if sizes is None:
            return None, how or f"'{op['operands'][2]['name']}' was not given"
        counts = np.asarray(sizes).astype(np.int64)
        found = counts if suffix == ".counts" else np.cumsum(counts) - counts
        return found, f"computed from {op['operands'][2]['name']}" if how == "given" else how
    return None, ""


def _filled(arrays: dict[str, Any], graph: _core.Graph, wanted: Iterable[str], given: Mapping[str, Any]) -> Data:
    data = Data(arrays, given=tuple(given))
    values = _Values(graph, given)
    for name in wanted:
        if name in arrays:
            continue
        found, how = values.value(name) if name in values.types else _ragged(values, name)
        if found is None:
            if how:
                data.lacking[name] = how
            continue
        arrays[name], data.computed[name] = found, how
    return data


def known_data(program: Program, tensors: Mapping[str, Any]) -> Data:
    """What a simulation of a program reads of the tensors given.

    Args:
        program: a compiled program.
        tensors: arrays by name: of the program's tensors, or of values of its graph.

    Returns:
        The arrays by the program's names, those that timing reads computed from the given ones where that can be done.

    Raises:
        UserError: for a name that neither has.
    """
    if not tensors:
        return Data()
    types = {tensor["name"]: tensor for tensor in program.core.tensors()}
    given = {name: _array(value) for name, value in tensors.items()}
    if program.graph is None:
        _unknown(given, types, program.core.name)
        return Data(dict(given), given=tuple(given))
    prepared = program.prepared
    values = [row["name"] for op in prepared.operations("") for row in op["results"]]
    inputs = [row["name"] for row in (*prepared.inputs, *program.graph.core.inputs)]
    _unknown(given, dict.fromkeys([*inputs, *types, *values]), program.graph.name)
    arrays = {name: value for name, value in given.items() if name in types}
    wanted = program.core.read_tensors()
    return _filled(arrays, prepared, wanted, given) if wanted else Data(arrays, given=tuple(given))


class PartData:
    """Data of a program in parts: what each part reads of what was given for the whole."""

    def __init__(self, program: MixedProgram, given: dict[str, Any]) -> None:
        """Made by `data_of_parts`.

        Args:
            program: in parts.
            given: arrays by name.
        """
        assert program.graph is not None
        self.given = given
        self.computed: dict[str, str] = {}
        self._values = _Values(program.graph.core, given)

    def of_part(self, part: Turn) -> dict[str, Any]:
        """What a part reads, by its names.

        Args:
            part: of the machine.

        Returns:
            Given arrays, and integer inputs of the part computed from these.
        """
        assert part.program is not None
        own = {name: value for name, value in self.given.items() if name in _names_of(part)}
        if not self.given or not part.program.reads_tensors:
            return own
        for row in part.graph.core.inputs:
            if row["name"] in own or not row["dtype"].startswith(("i", "u")):
                continue
            found, how = self._values.value(row["name"])
            if found is not None:
                own[row["name"]], self.computed[row["name"]] = found, how.removeprefix("computed from ")
        return own

    def told(self, sources: Mapping[str, str]) -> dict[str, str]:
        """Sources of one part in terms of what was given for the whole.

        Args:
            sources: of the part's result.

        Returns:
            The same, without what another part computed.
        """
        told = {}
        for name, how in sources.items():
            if name in self.computed and how.startswith("given"):
                if "depend" not in how:
                    told[name] = f"computed from {self.computed[name]}"
                continue
            start, mark, rest = how.partition("computed from ")
            names = [self.computed.get(one, one) for one in rest.split(", ")]
            told[name] = start + mark + ", ".join(dict.fromkeys(names)) if mark else how
        return told


def _names_of(part: Turn) -> set[str]:
    assert part.program is not None
    return {*part.inputs, *(tensor["name"] for tensor in part.program.core.tensors())}


def data_of_parts(program: MixedProgram, tensors: Mapping[str, Any]) -> PartData:
    """What the parts of a program read of the tensors given.

    Args:
        program: in parts.
        tensors: arrays by name: of values of the whole graph, or of tensors of the parts' programs.

    Returns:
        What gives each part its own.

    Raises:
        UserError: for a name that none of them has.
    """
    given = {name: _array(value) for name, value in tensors.items()}
    data = PartData(program, given)
    known = dict.fromkeys([*data._values.types])
    for part in program.turns:
        if part.program is not None:
            known |= dict.fromkeys(sorted(_names_of(part)))
    _unknown(given, known, program.graph.name if program.graph else "")
    return data
