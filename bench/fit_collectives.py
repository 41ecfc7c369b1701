"""Fits the constants of configs/libraries/nccl.json: `fit_collectives.py TABLE [GENERATION … | nodes] [--write]`.

Per generation of links one robust fit of the log error over its rows in one node; then the few constants between nodes
and of single calls. Says the error as fitted, with every other size left out, with four devices left out, and with
constants carried to another generation or device. With --write the library's file gets the constants.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from tilesim.analytic.families import pack_keys
from tilesim.cluster import library
from tilesim.cluster.libraries import model as library_model
from tilesim.validation.collective import CollectiveCase, cases_of, key_of

FILE = Path(__file__).resolve().parents[1] / "configs" / "libraries" / "nccl.json"
PRIOR = 0.02  # weight of a constant's start: holds what the rows do not show
START: dict[str, float] = {
    "call_seconds": 6e-6, "ll_step_seconds": 1e-6, "spread_seconds": 1e-6, "spread_step_seconds": 0.2e-6,
    "spread_bytes": 4e3, "ll_share": 0.3, "ll128_step_seconds": 3e-6, "ll128_share": 0.55,
    "simple_call_seconds": 14e-6, "simple_step_seconds": 7e-6, "simple_share": 0.78, "copy_share": 1.5,
    "sum_cost_one_byte": 0.06, "nvls_call_seconds": 25e-6, "nvls_fill_seconds": 80e-6, "nvls_fill_bytes": 24e6,
    "nvls_share": 0.65, "peer_call_seconds": 7e-6, "peer_step_seconds": 1e-6, "peer_spread_seconds": 2e-6,
    "peer_simple_call_seconds": 14e-6, "peer_share": 0.7, "peer_copy_share": 3.0,
    "peer_fill_seconds": 40e-6, "peer_fill_bytes": 16e6,
    "socket_share": 0.22, "sockets_share": 0.06,
}  # fmt: skip
NODES = {
    "node_ll_step_seconds": 15e-6,
    "node_simple_step_seconds": 25e-6,
    "node_ll_share": 0.4,
    "node_simple_share": 0.9,
}
TORCH_CALL = 15e-6  # launch of one call; every row with it has several nodes, so it does not show beside their steps
LACKS = {
    "nvlink3": ("nvls", "socket"),
    "nvlink4": ("socket",),
    "nvlink5": ("socket",),
    "pcie": ("nvls", "ll128"),
}


@dataclass
class Rows:
    """Rows as arrays of calls, one query per operation and width of elements."""

    cases: list[CollectiveCase]

    def __post_init__(self) -> None:
        groups: dict[tuple[str, bool], list[int]] = {}
        for index, case in enumerate(self.cases):
            groups.setdefault((case.op, case.dtype == "i8"), []).append(index)
        self.measured = np.array([case.measured_ms * 1e-3 for case in self.cases])
        self.torch = np.array([case.protocol == "torch" for case in self.cases], dtype=float)
        self.queries = []
        for (op, narrow), members in groups.items():
            own = [self.cases[index] for index in members]
            arrays = [
                np.array([getattr(case, name) for case in own], dtype=float)
                for name in ("bytes", "devices", "nodes", "link", "node_link")
            ]
            self.queries.append((np.array(members), library_model.Query(op, *arrays, one_byte=narrow)))

    def predicted(self, constants: Callable[[CollectiveCase], dict[str, float]] | dict[str, float]) -> Any:
        """Seconds of every row; constants alike for all rows, or by generation."""
        result = np.zeros(len(self.cases))
        for members, query in self.queries:
            if callable(constants):
                kinds = np.array([self.cases[index].generation for index in members])
                for kind in dict.fromkeys(kinds):
                    own = kinds == kind
                    result[members[own]] = library_model.seconds(
                        constants(self.cases[members[own][0]]), _part(query, own)
                    )
            else:
                result[members] = library_model.seconds(constants, query)
        return result


def _part(q: library_model.Query, own: Any) -> library_model.Query:
    arrays = (getattr(q, name)[own] for name in ("bytes", "devices", "nodes", "rate", "node_rate"))
    return library_model.Query(q.op, *arrays, one_byte=q.one_byte)


def minimised(
    residuals: Callable[[dict[str, float]], Any], start: dict[str, float], tries: int = 3
) -> dict[str, float]:
    """Constants with the least robust error, positive, shares of a link below one."""
    names = list(start)
    begin = np.log([start[name] for name in names])
    top = [0.0 if name.endswith("_share") and "copy" not in name else np.log(1e9) for name in names]
    draw, best = np.random.default_rng(7), None

    def loss(values: Any) -> Any:
        constants = dict(zip(names, np.exp(values), strict=True))
        return np.concatenate([residuals(constants), PRIOR * (values - begin)])

    for attempt in range(tries):
        first = np.minimum(begin + (0.2 * draw.normal(size=len(names)) if attempt else 0.0), np.array(top) - 1e-6)
        found = least_squares(
            loss, first, loss="soft_l1", f_scale=0.1, bounds=(np.full(len(names), -np.inf), top), max_nfev=80
        )
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None
    return {name: float(f"{value:.4g}") for name, value in zip(names, np.exp(best.x), strict=True)}


def fitted(cases: list[CollectiveCase], generation: str, beliefs: dict[str, float], tries: int = 3) -> dict[str, float]:
    """Constants of a generation from rows in one node."""
    rows = Rows(cases)
    start = {key: value for key, value in START.items() if not key.startswith(LACKS[generation])}
    if generation != "pcie":
        start = {key: value for key, value in start.items() if not key.startswith("socket")}
    fixed = {**NODES, **beliefs}

    def residuals(constants: dict[str, float]) -> Any:
        return np.log(rows.predicted({**fixed, **constants}) / rows.measured)

    return minimised(residuals, start, tries)


def errors(cases: list[CollectiveCase], constants: Any) -> Any:
    """Relative error of every row."""
    rows = Rows(cases)
    return rows.predicted(constants) / rows.measured - 1


def mean(values: Any) -> str:
    """Mean absolute error, and of how many."""
    return f"{np.mean(np.abs(values)):6.1%} of {len(values):3d}" if len(values) else "–"


def by(cases: list[CollectiveCase], values: Any, key: Callable[[CollectiveCase], str]) -> str:
    """Mean absolute errors by a key."""
    keys = [key(case) for case in cases]
    parts = []
    for one in dict.fromkeys(keys):
        own = np.abs(values[np.array([name == one for name in keys])])
        parts.append(f"{one} {np.mean(own):.1%}")
    return ", ".join(parts)


def halves(cases: list[CollectiveCase]) -> tuple[list[CollectiveCase], list[CollectiveCase]]:
    """Every other size of the table, in order, and the rest."""
    place = {size: index for index, size in enumerate(sorted({case.bytes for case in cases}))}
    return [c for c in cases if place[c.bytes] % 2 == 0], [c for c in cases if place[c.bytes] % 2]


def one_generation(
    name: str, cases: list[CollectiveCase], beliefs: dict[str, float]
) -> tuple[dict[str, float], list[dict[str, float]]]:
    """Fits a generation and says how well it holds on what was left out; constants of all rows, and of each half."""
    found = fitted(cases, name, beliefs, 2)
    full = {**NODES, **beliefs, **found}
    residual = errors(cases, full)
    print(f"{name:8} as fitted {mean(residual)}: {by(cases, residual, lambda c: f'{c.op} {c.devices}')}")
    first, second = halves(cases)
    parts = [fitted(train, name, beliefs, 1) for train in (first, second)]
    out = [errors(test, {**NODES, **beliefs, **part}) for part, test in zip(parts, (second, first), strict=True)]
    print(f"{'':8} sizes left out: even {mean(out[1])}, odd {mean(out[0])}; both {mean(np.concatenate(out))}")
    test = [c for c in cases if c.devices == 4]
    own = {**NODES, **beliefs, **fitted([c for c in cases if c.devices != 4], name, beliefs, 1)}
    print(f"{'':8} 4 devices left out: {mean(errors(test, own))}")
    for device in dict.fromkeys(c.device for c in cases):
        test = [c for c in cases if c.device == device]
        rest = [c for c in cases if c.device != device]
        if len(rest) > len(test):
            own = {**NODES, **beliefs, **fitted(rest, name, beliefs, 1)}
            print(f"{'':8} {device} left out: {mean(errors(test, own))}", flush=True)
    return found, parts


def between(cases: list[CollectiveCase], constants: dict[str, dict[str, float]]) -> dict[str, float]:
    """The constants between nodes and of single calls."""
    rows = Rows(cases)

    def predicted(own: dict[str, float], which: Rows) -> Any:
        times = which.predicted(lambda case: {**constants[case.generation], **own})
        return times + which.torch * TORCH_CALL

    def fit(which: Rows) -> dict[str, float]:
        return minimised(lambda own: np.log(predicted(own, which) / which.measured), NODES)

    found = fit(rows)
    residual = predicted(found, rows) / rows.measured - 1
    print(f"nodes    as fitted {mean(residual)}: {by(cases, residual, lambda c: f'{c.device} {c.devices}/{c.nodes}')}")
    first, second = halves(cases)
    for train, test in ((first, second), (second, first)):
        which = Rows(test)
        print(f"{'':8} sizes left out: {mean(predicted(fit(Rows(train)), which) / which.measured - 1)}")
    for device in dict.fromkeys(c.device for c in cases):
        which = Rows([c for c in cases if c.device == device])
        own = fit(Rows([c for c in cases if c.device != device]))
        print(f"{'':8} {device} left out: {mean(predicted(own, which) / which.measured - 1)}")
    return found


def carried(inside: dict[str, list[CollectiveCase]], constants: dict[str, dict[str, float]]) -> None:
    """Errors with the constants of another generation."""
    for name, cases in inside.items():
        for other in constants:
            if other != name and "pcie" not in (name, other):
                beliefs = {key: value for key, value in constants[name].items() if key.startswith("believed")}
                residual = errors(cases, {**constants[other], **beliefs})
                large = residual[np.array([c.bytes >= 4 << 20 for c in cases])]
                print(f"{name:8} with constants of {other}: {mean(residual)}; from 4 MiB {mean(large)}")


def rows_of(table: str) -> Iterable[CollectiveCase]:
    """The rows that can be used."""
    return (case for case in cases_of(table) if case.status == "ok")


def refit(entry: dict[str, Any], name: str, own: list[CollectiveCase], table: str) -> None:
    """Puts the constants of a generation, of all rows and of each half of the sizes, into its entry."""
    entry["constants"], entry["halves"] = one_generation(name, own, library.beliefs(entry))
    entry["provenance"] = f"fitted on {len(own)} rows of {Path(table).name}, one node"
    entry["seen"] = {
        "devices": max(c.devices for c in own),
        "bytes_from": int(min(c.bytes for c in own)),
        "bytes_to": int(max(c.bytes for c in own)),
    }


def main() -> int:
    """Fits, says, writes."""
    table, *names = (word for word in sys.argv[1:] if not word.startswith("--"))
    data = json.loads(FILE.read_text(encoding="utf-8"))
    cases = list(rows_of(table))
    inside = {
        name: [case for case in cases if case.generation == name and case.nodes == 1] for name in data["generations"]
    }
    for name in inside:
        if not names or name in names:
            refit(data["generations"][name], name, inside[name], table)
    if not names or "nodes" in names:
        entries = data["generations"].items()
        constants = {name: {**NODES, **library.beliefs(entry), **entry["constants"]} for name, entry in entries}
        carried(inside, constants)
        outside = [case for case in cases if case.nodes > 1]
        data["nodes"]["constants"] = {**between(outside, constants), "torch_call_seconds": TORCH_CALL}
        source = f"fitted on {len(outside)} rows of {Path(table).name}, several nodes"
        data["nodes"]["provenance"] = f"{source}; torch_call_seconds is assumed: it does not show beside steps of nodes"
    data["fitted_rows"] = pack_keys(key_of(case.row) for case in cases)
    if "--write" in sys.argv:
        FILE.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
