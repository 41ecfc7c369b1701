"""Collects the values on which timing depends: given, drawn, computed, or typical."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _core
from ..base.arguments import as_array
from ..base.errors import nearest, path_text, shown, user_error
from .data_roles import DISTRIBUTIONS, Roles, Values, check_counts
from .distributions import Distribution, GroupRows
from .mixed import MixedProgram, Turn
from .program import Program
from .sparse_times import SparsePlan, sparse_cores, tile_times

__all__ = ["Data", "PartData", "ValueTrace", "data_of_parts", "opened", "tensors_that_timing_reads"]


class ValueTrace(dict[str, Any]):
    """Arrays by name, from a file with all values on which timing depends."""

    file = ""


def opened(tensors: Any) -> dict[str, Any]:
    """Converts the argument `tensors` to a dict."""
    if isinstance(tensors, Mapping):
        return tensors if isinstance(tensors, ValueTrace) else dict(tensors)
    if not isinstance(tensors, (str, os.PathLike)):
        allowed = '{"sizes": array}, {"counts": "zipf:1.1"}, "trace.npz"'
        raise user_error(
            "tensors is not a dict of arrays by name", place="tensors", value=shown(tensors), allowed=allowed
        )
    path = path_text(tensors)
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise ValueError("an array without a name")
        with loaded as file:
            trace = ValueTrace({name: file[name] for name in file.files})
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, OSError) and error.strerror:
            raise user_error(error.strerror.lower(), place=path, allowed="a file of numpy.savez") from None
        raise user_error("not an .npz file", place=path, value=str(error), allowed="a file of numpy.savez") from None
    trace.file = os.path.basename(path)
    return trace


@dataclass
class Data:
    """Arrays by the names of a program's tensors, with their sources."""

    arrays: dict[str, Any] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)
    further: dict[str, float] = field(default_factory=dict)

    def further_bytes(self, operations: Iterable[Mapping[str, Any]]) -> float:
        """Returns the bytes that a bound without data omits: matrices of all experts but one."""
        runs: dict[str, int] = {}
        for row in operations:
            for name in row["operation"] if isinstance(row["operation"], (list, tuple)) else [row["operation"]]:
                runs[name] = runs.get(name, 0) + int(row["count"])
        return sum(bytes_ * runs.get(name, 0) for name, bytes_ in self.further.items())

    def tell(self, result: dict[str, Any]) -> None:
        """Adds the sources of values to a result."""
        sources = dict(result.get("data_sources", {}))
        for name, how in list(sources.items()):
            if how == "given" and name in self.computed:
                sources[name] = self.computed[name]
            elif how.startswith("default") and self.missing.get(name):
                sources[name] = f"{how} ({self.missing[name]})"
        read = " ".join(sources.values())
        for name in self.given:
            if name not in sources and not re.search(rf"\b{re.escape(name)}\b", read):
                sources[name] = "given; timing does not depend on it"
        if sources:
            result["data_sources"] = sources


def _array(value: Any) -> Any:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else as_array(value, "tensors")


def _unknown(given: Iterable[str], allowed: Iterable[str], place: str) -> None:
    names = list(allowed)
    for name in given:
        if name not in names:
            raise user_error(
                "unknown tensor of the program",
                place=f"tensors, {place}",
                value=f"'{name}'",
                allowed=", ".join(names[:20]) + (", ..." if len(names) > 20 else ""),
                suggestion=nearest(name, names),
            )


def _parted(tensors: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Distribution]]:
    """Splits tensors into arrays and distributions, by name."""
    texts = {name: value for name, value in tensors.items() if isinstance(value, str)}
    drawn = {name: Distribution.of(text, f"tensors, {name}") for name, text in texts.items()}
    return {name: _array(value) for name, value in tensors.items() if name not in texts}, drawn


def _check_distributions(given: Iterable[str], values: Values) -> None:
    for name in given:
        if name in DISTRIBUTIONS and name not in values.types and name not in values.tensors:
            raise user_error(
                f"'{name}' takes a distribution for all {name} of a program",
                place=f"tensors, {name}",
                value="an array",
                allowed='a distribution ("uniform", "zipf:1.1", "balanced"), or arrays by the names of tensors',
            )


def _draw(roles: Roles, drawn: Mapping[str, Distribution], seed: int, values: Values) -> None:
    """Draws values: first those named by tensor, then those named by role."""
    for name, distribution in sorted(drawn.items(), key=lambda item: (item[0] in DISTRIBUTIONS, item[0])):
        word = name in DISTRIBUTIONS and name not in values.types
        targets = roles.by_word(name) if word else {name: roles.of(name)}
        for target, role in targets.items():
            if word and target in values.given:
                continue
            array = distribution.draw(role, seed, target)
            how = f"{distribution}, seed {seed}"
            if isinstance(role, GroupRows) and role.chosen and distribution.name != "balanced":
                how += f", {role.chosen} of {role.groups} for each row"
            values.add(target, array, how)


def tensors_that_timing_reads(program: Program, tensors: Mapping[str, Any], seed: int = 0) -> Data:
    """Collects the given tensors that a program's simulation reads."""
    if not tensors and not isinstance(tensors, ValueTrace):
        return Data()
    given, drawn = _parted(tensors)
    types = {tensor["name"]: tensor for tensor in program.core.tensors()}
    graph = program.prepared if program.graph is not None else None
    values = Values(graph, program.core, given)
    _check_distributions(given, values)
    if isinstance(tensors, ValueTrace):
        values.labels.update(dict.fromkeys(given, f"trace {tensors.file}"))
    if program.graph is None:
        _unknown([*given, *drawn], types, program.core.name)
    else:
        prepared = program.prepared
        results = [row["name"] for op in prepared.operations("") for row in op["results"]]
        inputs = [row["name"] for row in (*prepared.inputs, *program.graph.core.inputs)]
        named = [*given, *(name for name in drawn if name not in DISTRIBUTIONS)]
        _unknown(named, dict.fromkeys([*inputs, *types, *results, *DISTRIBUTIONS]), program.graph.name)
        _core.check_attention_data(program.graph.core, given)
    reads = [row for row in program.core.data_reads() if types.get(row[0], {}).get("role") != "weight"]
    data = Data(given=tuple(name for name in tensors if name not in DISTRIBUTIONS or name in values.types))
    timed = _sparse_tiles(program, values)
    if not reads and not timed:
        for name in drawn:
            raise user_error(
                "the timing of this program does not depend on data", place=f"tensors, {name}", value=str(drawn[name])
            )
        data.arrays = {name: value for name, value in given.items() if name in types}
        return data
    roles = Roles(program, values)
    _draw(roles, drawn, seed, values)
    check_counts(roles, values)
    data.further = roles.further_bytes()
    data.arrays = {name: value for name, value in values.given.items() if name in types}
    data.computed = {name: how for name, how in values.labels.items() if name in types}
    for name, (array, how) in timed.items():
        data.arrays[name], data.computed[name] = array, how
    _fill(data, values, [read[0] for read in reads if read[0] not in data.arrays])
    if isinstance(tensors, ValueTrace):
        _complete(tensors, [name for name in data.missing if name not in data.arrays])
    return data


def _sparse_tiles(program: Program, values: Values) -> dict[str, tuple[Any, str]]:
    """Returns cycles of tiles on sparse cores if given arrays have zeros in addition to those of weights."""
    if program.graph is None or program.machine is None:
        return {}
    planned = [op for op in values.operations if "sparse_plan" in op["attributes"]]
    cores = sparse_cores(program.machine.only(program.sort) if program.sort else program.machine) if planned else None
    found: dict[str, tuple[Any, str]] = {}
    for op in planned:
        own = op["attributes"]
        name, plan = own["sparse"], SparsePlan.of(own["sparse_plan"])
        if cores is None or not own.get("sparse_data") or f"{name}.cycles" not in values.tensors:
            continue
        operands, sources = [], []
        for side, row in zip("ab", op["operands"][:2], strict=True):
            array, how = values.value(row["name"])
            if array is None:
                break
            axis = int(own.get(f"{side}_contract", [1 if side == "a" else 0])[0])
            pattern = np.asarray(array) != 0
            operands.append(pattern.T if axis != (1 if side == "a" else 0) else pattern)
            if how != "computed from weights and constants":
                sources.append(row["name"] if how == "given" else how.removeprefix("computed from "))
        if len(operands) == 2 and sources:
            made = tile_times(cores, *plan.parts(operands[0], operands[1]), plan.tiles, plan.hold)
            how = f"computed from {', '.join(dict.fromkeys(sources))}"
            found.update({f"{name}.{part}": (one, how) for part, one in zip(("cycles", "products"), made, strict=True)})
    return found


def _fill(data: Data, values: Values, wanted: Iterable[str]) -> None:
    """Computes the values `wanted` from known values."""
    for name in wanted:
        found, how = values.value(name)
        if found is None:
            data.missing[name] = how
        else:
            data.arrays[name], data.computed[name] = found, how


def _complete(trace: ValueTrace, lacking: Iterable[str]) -> None:
    names = list(lacking)
    if names:
        raise user_error(
            "the trace lacks tensors that timing reads",
            place=f"tensors, {trace.file}",
            value=", ".join(names[:20]),
            allowed="its arrays: " + (", ".join(list(trace)[:20]) or "nothing"),
            suggestion="Add them or their inputs, or pass tensors= by name",
        )


class PartData:
    """The values that each part of a program reads."""

    def __init__(self, program: MixedProgram, given: dict[str, Any]) -> None:
        """Stores the parts; use `data_of_parts`."""
        assert program.graph is not None
        self.given = given
        self.computed: dict[str, str] = {}
        arrays = {name: value for name, value in given.items() if not isinstance(value, str)}
        self._values = Values(program.graph.core, None, arrays)

    def of_part(self, part: Turn) -> dict[str, Any]:
        """Returns the values of a part by the part's names."""
        assert part.program is not None
        names = _names_of(part) | set(DISTRIBUTIONS)
        own = {name: value for name, value in self.given.items() if name in names}
        if not self.given or not part.program.core.data_reads():
            return own
        for row in part.graph.core.inputs:
            if row["name"] in own or not row["dtype"].startswith(("i", "u")):
                continue
            found, how = self._values.value(row["name"])
            if found is not None:
                own[row["name"]], self.computed[row["name"]] = found, how.removeprefix("computed from ")
        return own

    def sources(self, sources: Mapping[str, str]) -> dict[str, str]:
        """Returns the sources of a part with the names of the complete program."""
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
    """Collects the given tensors that the parts of a program read."""
    given = {name: value if isinstance(value, str) else _array(value) for name, value in tensors.items()}
    data = PartData(program, given)
    known = dict.fromkeys([*data._values.types, *DISTRIBUTIONS])
    for part in program.turns:
        if part.program is not None:
            known |= dict.fromkeys(sorted(_names_of(part)))
    _unknown(given, known, program.graph.name if program.graph else "")
    return data
