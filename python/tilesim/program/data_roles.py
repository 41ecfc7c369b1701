"""Finds the tensors whose values affect timing, their roles (rows per group, table indices), and their values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _core
from ..base.errors import nearest, user_error
from .distributions import GroupRows, Indices, Lengths

__all__ = ["DISTRIBUTIONS", "MOST_FLOPS", "Role", "Roles", "Values", "attention_data", "check_counts"]

MOST_FLOPS = 2e10
"""Most FLOPs to compute values for timing from given ones: some ten seconds."""

DISTRIBUTIONS = {"counts": GroupRows, "indices": Indices}
"""Names for all tensors of a role, unless a tensor has that name."""

Role = GroupRows | Indices


def _qualified(function: str, name: str) -> str:
    return f"{function}.{name}" if function else name


class Values:
    """Values by name: given values, values that reference kernels compute, and results of a program's steps.

    Attributes:
        given: arrays by name.
        labels: sources of given arrays that the caller did not pass.
        types: dtype and shape of the graph's values by name.
    """

    def __init__(self, graph: _core.Graph | None, program: _core.Program | None, given: Mapping[str, Any]) -> None:
        """Stores the given values."""
        self.graph, self.program, self.given = graph, program, dict(given)
        self.labels: dict[str, str] = {}
        self.operations = graph.operations("") if graph is not None else []
        self.makers = {row["name"]: op for op in self.operations for row in op["results"]}
        self.types = {row["name"]: row for op in self.operations for row in (*op["operands"], *op["results"]) if row}
        self.types |= {row["name"]: row for row in graph.inputs} if graph is not None else {}
        self.tensors = {row["name"]: row for row in program.tensors()} if program is not None else {}
        self._steps: dict[str, Any] = {}

    def add(self, name: str, array: Any, how: str) -> None:
        """Adds a value with its source."""
        row = self.tensors.get(name) or self.types.get(name)
        dtype = {"i32": np.int32, "u32": np.uint32, "i64": np.int64}.get(row["dtype"], np.int64) if row else np.int64
        self.given[name], self.labels[name] = array.astype(dtype), how

    def step(self, name: str) -> Any:
        """Returns the step that computes a tensor of the program which the graph lacks."""
        if name not in self._steps:
            known = self.program is None or name in self.types
            found = None if known or self.program is None else self.program.step_that_stores(name)
            if found is not None and name in self._results(found[1]):
                found = None
            self._steps[name] = found
        return self._steps[name]

    def _results(self, function: str) -> set[str]:
        if self.graph is None or not function:
            return set(self.makers)
        return {_qualified(function, row["name"]) for op in self.graph.operations(function) for row in op["results"]}

    def inputs(self, name: str) -> list[Any]:
        """Returns the rows of a step's integer operands."""
        step = self.step(name)
        rows = step[0].tensors() if step is not None else []
        return [row for row in rows if row["role"] == "input" and row["dtype"].startswith(("i", "u"))]

    def _needed(self, name: str) -> tuple[dict[str, Any], set[str]]:
        """Returns the operations that compute a value, by name, and the inputs on which these depend."""
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

    def _how(self, name: str) -> str:
        return f"{name} ({self.labels[name]})" if name in self.labels else name

    def value(self, name: str) -> tuple[Any, str]:
        """Returns a value, computed if necessary, and its source."""
        if name in self.given:
            return self.given[name], self.labels.get(name, "given")
        if name not in self.types:
            return self._computed(name)
        operations, leaves = self._needed(name)
        missing = sorted(leaves - set(self.given))
        if missing:
            return None, f"computed from {', '.join(missing)}, which are not given" if missing != [name] else ""
        sources = ", ".join(self._how(leaf) for leaf in sorted(leaves)) or "weights and constants"
        flops = sum(sum(op["flops"].values()) for op in operations.values())
        if flops > MOST_FLOPS:
            return None, f"from {sources} with {flops:.1e} FLOPs, more than {MOST_FLOPS:.0e}"
        assert self.graph is not None
        order = [op["name"] for op in self.operations if op["name"] in operations]
        part = self.graph.extract(order, sorted(leaves), [name])
        return _core.evaluate(part, [self.given[leaf] for leaf in sorted(leaves)], {})[0], f"computed from {sources}"

    def _computed(self, name: str) -> tuple[Any, str]:
        """Computes a tensor of the program by its step; for an alias, computes the tensor whose bytes it shares."""
        row = self.tensors.get(name)
        if row is not None and row["alias_of"]:
            found, how = self.value(row["alias_of"])
            whole = found is not None and np.asarray(found).size == math.prod(row["shape"])
            return (np.asarray(found).reshape(row["shape"]), how) if whole else (None, how)
        step = self.step(name)
        if step is None:
            return None, ""
        arrays, sources = {}, []
        for own in step[0].tensors():
            if own["role"] != "input":
                continue
            found, how = self.value(own["name"])
            if found is None:
                return None, how or f"'{own['name']}' was not given"
            arrays[own["name"]] = np.asarray(found)
            sources.append(self._how(own["name"]) if how == "given" or own["name"] in self.labels else how)
        made = _core.execute(step[0], arrays)
        text = ", ".join(dict.fromkeys(source.removeprefix("computed from ") for source in sources))
        return made[name], f"computed from {text}" if text else "computed from constants"


def attention_data(graph: _core.Graph, given: Mapping[str, Any], usual: bool = False) -> dict[str, Any]:
    """Returns the lengths and page tables of a graph's attentions that the given values determine."""
    wanted = _core.usual_attention_data(graph)
    if not wanted:
        return {}
    values = Values(graph, None, given)
    found = {name: values.value(name)[0] for name in wanted} if given else {}
    known = {name: np.asarray(array) for name, array in found.items() if array is not None}
    return {**wanted, **known} if usual else known


class Roles:
    """Roles of the tensors whose values affect timing, derived from the operations that read these."""

    def __init__(self, program: Any, values: Values) -> None:
        """Finds the roles of a compiled program."""
        self._graph = program.prepared if program.graph is not None else None
        self._values = values
        self._experts: dict[str, tuple[str, float]] = {}  # by operation: rows per group, bytes of a group's matrix
        self._known: dict[str, tuple[str, Role]] = {}  # tensor that timing reads -> its source tensor and role
        for tensor, _, function, operations in program.core.data_reads():
            found = self._read(tensor, function, operations)
            if found is not None:
                self._known[tensor] = found

    def _read(self, tensor: str, function: str, operations: tuple[str, ...]) -> tuple[str, Role] | None:
        if self._graph is None:
            return None
        inputs = self._values.inputs(tensor)
        step = self._values.step(tensor)
        if step is not None:
            function, operations = step[1], step[2]
        behind = inputs[0]["name"] if len(inputs) == 1 else tensor
        for op in self._graph.operations(function):
            if op["name"] in operations:
                for number in range(len(op["operands"])):
                    role = self._role(op, number, function)
                    row = op["operands"][number]
                    if role is not None and self._is(row, behind, function, len(inputs) == 1):
                        if isinstance(role, GroupRows):
                            matrix = op["operands"][1]
                            bits = _core.dtype_bits(matrix["dtype"]) * math.prod(matrix["shape"][1:])
                            self._experts[op["name"]] = behind, bits / 8
                        return behind, role
        return None

    def _is(self, row: Any, tensor: str, function: str, alone: bool) -> bool:
        """Whether an operand is the tensor, or (if `alone`) has as many elements."""
        if _qualified(function, row["name"]) == tensor or row["name"] == tensor:
            return True
        own = self._values.tensors.get(tensor)
        return alone and own is not None and math.prod(own["shape"]) == math.prod(row["shape"])

    def _role(self, op: Any, number: int, function: str) -> Role | None:
        kind, rows, attributes = op["kind"], op["operands"], op["attributes"]
        if number >= len(rows) or rows[number] is None:
            return None
        shape = tuple(rows[number]["shape"])
        if kind == "ragged_contract" and number == 2:
            total = rows[0]["shape"][0]
            return GroupRows(total, shape[0], self._chosen(rows[2]["name"], total, shape[0], function))
        if kind == "attention" and number in (4, 5):
            k = rows[1]["shape"]
            if number == 5:
                return Indices(shape, (k[0],))
            pages = rows[5]["shape"][1] if len(rows) > 5 and rows[5] is not None else 1
            return Lengths(shape, (attributes.get("kv_len", k[2] * pages) + 1,))
        if number != 1:
            return None
        if kind in ("embedding", "embedding_bag"):
            return Indices(shape, (rows[0]["shape"][0],))
        if kind in ("gather", "scatter"):
            axes = attributes.get("start_index_map") or attributes.get("scatter_dims_to_operand_dims") or []
            sizes = attributes.get("slice_sizes") or [1] * len(rows[0]["shape"])
            vector = attributes.get("index_vector_dim", len(shape))
            limits = tuple(rows[0]["shape"][axis] - sizes[axis] + 1 for axis in axes)
            return Indices(shape, limits, vector if vector < len(shape) else None) if limits else None
        return None

    def _chosen(self, name: str, rows: int, groups: int, function: str) -> int:
        """Returns the number of groups that a router chooses per row; 0 without a router."""
        assert self._graph is not None
        makers = {row["name"]: op for op in self._graph.operations(function) for row in op["results"]}
        seen, todo = set(), [name]
        while todo:
            op = makers.get(todo.pop())
            if op is None or op["name"] in seen:
                continue
            seen.add(op["name"])
            shape = op["operands"][0]["shape"] if op["operands"] and op["operands"][0] else []
            chosen = op["attributes"].get("k", 0) if op["kind"] == "top_k" else 0
            if chosen and shape and shape[-1] == groups and math.prod(shape[:-1]) * chosen == rows:
                return int(chosen)
            todo += [row["name"] for row in op["operands"] if row is not None]
        return 0

    def by_word(self, word: str) -> dict[str, Role]:
        """Returns the tensors with the role that `word` names."""
        found = {behind: role for behind, role in self._known.values() if type(role) is DISTRIBUTIONS[word]}
        if not found:
            raise user_error(
                "the timing of this program does not depend on such a tensor",
                place="tensors",
                value=f"'{word}'",
                allowed=", ".join(self.names()) or "nothing",
            )
        return found

    def names(self) -> list[str]:
        """Names of the tensors that accept a distribution."""
        return list(dict.fromkeys(behind for behind, _ in self._known.values()))

    def of(self, name: str) -> Role:
        """Returns a tensor's role in the first operation whose timing depends on it, through integer operations."""
        direct = self._known.get(name)
        if direct is not None and direct[0] == name:
            return direct[1]
        behind = next((role for own, role in self._known.values() if own == name), None) or self._followers(name)
        if behind is None:
            raise user_error(
                "a distribution applies only to rows per group and to indices of a table",
                place="tensors",
                value=f"'{name}'",
                allowed=", ".join([*self.names(), *DISTRIBUTIONS]),
                suggestion=nearest(name, self.names()) or "Give an array",
            )
        return behind

    def _followers(self, name: str) -> Role | None:
        """Follows the entry's operations that compute integers from a tensor."""
        row = self._values.types.get(name)
        if row is None or not row["dtype"].startswith(("i", "u")):
            return None
        reached = {name}
        for op in self._values.operations:
            for number, operand in enumerate(op["operands"]):
                if operand is None or operand["name"] not in reached:
                    continue
                role = self._role(op, number, "")
                if isinstance(role, Indices):
                    return Indices(tuple(row["shape"]), role.limits[:1]) if len(role.limits) == 1 else None
                if role is not None and tuple(row["shape"]) == (role.groups,):
                    return role
                reached |= {one["name"] for one in op["results"] if one["dtype"].startswith(("i", "u"))}
        return None

    def further_bytes(self) -> dict[str, float]:
        """Bytes of the matrices of all groups but one, if rows per group are known."""
        found = {}
        for name, (behind, each) in self._experts.items():
            counts, _ = self._values.value(behind)
            if counts is not None:
                found[name] = max(0, int(np.count_nonzero(np.asarray(counts))) - 1) * each
        return found

    def counts(self) -> dict[str, GroupRows]:
        """Returns the tensors with rows per group: those of the graph, and those of the program derived from them."""
        found = {behind: role for behind, role in self._known.values() if isinstance(role, GroupRows)}
        made = {name: role for name, (_, role) in self._known.items() if name.endswith(".counts")}
        return found | {name: role for name, role in made.items() if isinstance(role, GroupRows)}


def check_counts(roles: Roles, values: Values) -> None:
    """Checks that the groups together have at most all rows."""
    for name, role in roles.counts().items():
        found, how = values.value(name)
        if found is None or np.asarray(found).shape != (role.groups,):
            continue
        counts = np.asarray(found).astype(np.int64)
        place = f"tensors, {name}" + (f" ({how})" if how != "given" else "")
        if (counts < 0).any():
            where = int(np.argmax(counts < 0))
            value = f"{counts[where]} of group {where}"
            raise user_error("a group has a negative number of rows", place=place, value=value, allowed="0 or more")
        if int(counts.sum()) > role.rows:
            raise user_error(
                "the groups have too many rows together",
                place=place,
                value=str(int(counts.sum())),
                allowed=f"at most {role.rows} in {role.groups} groups",
            )
