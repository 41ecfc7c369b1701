"""How well the numbers of configs/cores hold for instructions that were not seen: `fit_cores.py TABLE.csv [core ...]`.

For each instruction of the table (all its forms together) its rows are left out, the numbers of its timing class are
fitted again on the rows that remain (a search along one number after the other, from the shipped values), and the rows
left out are predicted. Where no other instruction has the class, the class is taken out of the file: it costs what its
parent does. Errors count as 50 % at most.
"""

from __future__ import annotations

import copy
import csv
import json
import sys
from collections.abc import Iterator
from typing import Any

import tilesim as ts
from tilesim import _core
from tilesim.validation.rvv import _case

STEPS = (-4.0, -1.0, -0.5, 0.5, 1.0, 4.0)
FACTORS = (0.5, 0.8, 0.9, 1.1, 1.25, 2.0)


def stem(text: str) -> str:
    """The instruction without its form: vadd of "vadd.vv v8,v16,v24"."""
    return text.partition(".")[0]


def errors(core: dict[str, Any], rows: list[dict[str, Any]]) -> list[float]:
    """Capped errors of rows."""
    told = _core.isa_loops(json.dumps(core), [row["case"] for row in rows])
    return [
        min(0.5, abs(t / row["measured"] - 1)) if isinstance(t, float) else 0.5
        for t, row in zip(told, rows, strict=True)
    ]


def numbers(values: dict[str, Any]) -> Iterator[tuple[str, int | None, float]]:
    """Name, place in a list, value."""
    for key, value in values.items():
        if isinstance(value, list):
            yield from ((key, i, one) for i, one in enumerate(value))
        elif not isinstance(value, bool):
            yield key, None, value


def refitted(core: dict[str, Any], name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The core with the class's own numbers fitted on `rows`."""
    best = copy.deepcopy(core)
    if name not in best["classes"]:
        return best
    least = sum(errors(best, rows))
    for key, place, value in list(numbers(best["classes"][name])):
        for other in [value * factor for factor in FACTORS] + [value + step for step in STEPS]:
            trial = copy.deepcopy(best)
            if place is None:
                trial["classes"][name][key] = other
            else:
                trial["classes"][name][key][place] = other
            try:
                total = sum(errors(trial, rows))
            except ts.UserError:  # a number that is not allowed
                continue
            if total < least - 1e-9:
                best, least = trial, total
    return best


def main() -> int:
    """One line per core."""
    with open(sys.argv[1], newline="", encoding="utf-8") as text:
        table = [{**row, "measured": float(row["cycles"])} for row in csv.DictReader(text)]
    classes = _core.isa_timing_classes()
    for name in sys.argv[2:] or dict.fromkeys(row["core"] for row in table):
        core = json.loads(ts.isa.Core.load(name).timing)
        rows = [{**row, "case": _case(row)} for row in table if row["core"] == name]
        for row in rows:
            row["class"] = classes.get(row["instruction"].partition(" ")[0], "float-compare")
        left, alone = [], 0
        for one in dict.fromkeys(stem(row["instruction"]) for row in rows):
            out = [row for row in rows if stem(row["instruction"]) == one]
            made = core
            for kind in {row["class"] for row in out}:
                rest = [row for row in rows if row["class"] == kind and stem(row["instruction"]) != one]
                if rest:
                    made = refitted(made, kind, rest)
                elif kind in made["classes"]:
                    made = {**made, "classes": {key: value for key, value in made["classes"].items() if key != kind}}
                    alone += 1
            left += errors(made, out)
        seen = errors(core, rows)
        for what, all_errors in (("fitted", seen), ("one instruction left out", left)):
            near = sum(error <= 0.1 for error in all_errors) / len(all_errors)
            print(f"{name:<15} {what:<25} {near:6.1%} within 10 %, mean {sum(all_errors) / len(all_errors):.2%}")
        print(f"{'':<15} {alone} classes had no other instruction")
    return 0


if __name__ == "__main__":
    sys.exit(main())
