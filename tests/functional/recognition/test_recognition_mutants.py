"""What differs from a pattern in one place stays as it is, or has the values of the graph before the pass."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilesim as ts
from support import pattern_mutants
from tilesim import _core
from tilesim.graph import passes

#: passes that compute with numbers or drop what changes nothing; the others recognise patterns
GENERAL = ("constants", "no_ops", "common_subexpressions")
RULES = [name for name in passes() if name not in (*GENERAL, "activations")]
RULES += [f"activations {function}" for function in _core.recognised_functions()]
POINTWISE = ("elementwise", "convert", "constant")
BOUNDS = {"float64": 1e-6, "float32": 2e-5, "bfloat16": 0.04, "float16": 0.01}
SAMPLE = 8  # mutants of each pattern in a normal run


def rules(changes: Any) -> list[str]:
    """Names of the rules that made changes, as often as they did."""
    named = [row for row in changes if row["pass"] not in GENERAL]
    return [f"activations {row['after']}" if row["pass"] == "activations" else row["pass"] for row in named]


def numbers_of(graph: ts.Graph) -> list[float]:
    """Constants of one element."""
    found = []
    for op in graph.operations():
        if op["kind"] == "constant" and graph.weight(op["attributes"]["reference"]).size == 1:
            found.append(float(graph.weight(op["attributes"]["reference"]).ravel()[0]))
    return [value for value in found if np.isfinite(value)]


def hides(graph: ts.Graph) -> bool:
    """Whether products read what a select leaves out."""
    names = [op["attributes"].get("function", op["kind"]) for op in graph.operations()]
    return "contract" in names and "select" in names


def specials(graph: ts.Graph, dtype: Any) -> np.ndarray:
    """The ends of the range, zeros, and each number of the graph with its neighbours. Products of two tensors may leave
    the range on the way, grouped one way or the other: there without its ends."""
    limits = ml_dtypes.finfo(dtype)
    ends = [float(limits.max), float(limits.max) / 3, float(limits.tiny)] if len(graph.inputs) == 1 else []
    values = [0.0, 1.0, 1e4, np.inf, 88.0, 89.5, *ends]
    for number in numbers_of(graph):
        values += [number, number * (1 + 4e-7), number * (1 - 4e-7), number * 1.02, number * 0.98, number + 1]
    with np.errstate(over="ignore"):
        return np.array([*values, *(-value for value in values), np.nan]).astype(dtype)


def draws(graph: ts.Graph) -> list[dict[str, np.ndarray]]:
    """Inputs: random ones, large ones, some infinite or NaN; of functions of single elements all that is special."""
    random = np.random.default_rng(1)
    pointwise = all(op["kind"] in POINTWISE for op in graph.operations())
    # attention skips hidden keys, a product counts 0 times what they hold: infinities and NaN are not compared there
    masked = any(row["dtype"] == "bool" or row["name"] == "mask" for row in graph.inputs) or hides(graph)
    # scores that are rounded to bf16 are another softmax where they are large
    steep = any(row["dtype"] == "bf16" for row in graph.inputs) and not pointwise
    found = []
    for kind in ("plain", "large", "special", "sprinkled"):
        if (kind == "special" and not pointwise) or (kind == "sprinkled" and masked) or (kind == "large" and steep):
            continue
        given = {}
        for position, row in enumerate(graph.inputs):
            shape, dtype = row["shape"], row["dtype"]
            if dtype == "bool":
                value = random.random(shape) < 0.6
            elif dtype == "i8":
                value = random.integers(-128, 128, shape).astype(np.int8)
            elif dtype == "i32":  # lengths of sequences, too long and none among them
                value = random.integers(-1, 9, shape).astype(np.int32)
            else:
                own = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}[dtype]
                value = random.standard_normal(shape) * (4 if kind == "large" else 1)
                if row["name"] == "mask":
                    value[random.random(shape) < 0.4] = -np.inf
                if kind == "sprinkled":
                    value[random.random(shape) < 0.05] = [np.inf, -np.inf, np.nan][position % 3]
                value = value.astype(own)
                if kind == "special":  # more than the tensor holds: one after the other
                    value = np.roll(specials(graph, own), -7 * position)
            given[row["name"]] = value
        if kind != "special":
            found.append(given)
            continue
        size = int(np.prod(graph.inputs[0]["shape"]))
        for first in range(0, max(value.size for value in given.values()), size):
            part = {}
            for row in graph.inputs:
                every = np.resize(np.roll(given[row["name"]], -first), int(np.prod(row["shape"])))
                part[row["name"]] = every.reshape(row["shape"])
            found.append(part)
    return found


def equal(wanted: np.ndarray, got: np.ndarray, given: dict[str, np.ndarray], pointwise: bool) -> str:
    """Empty, or where two results differ. A spelling may leave the dtype's range where its value is near the end."""
    assert wanted.dtype == got.dtype and wanted.shape == got.shape
    if not np.issubdtype(wanted.dtype, np.floating) and wanted.dtype != ml_dtypes.bfloat16:
        return "" if (wanted == got).all() else f"{wanted} and {got}"
    bound, limits = BOUNDS[str(wanted.dtype)], ml_dtypes.finfo(wanted.dtype)
    a, b = wanted.astype(np.float64), got.astype(np.float64)
    scale = np.abs(a[np.isfinite(a)]).max(initial=0) * np.ones(a.shape)
    if pointwise:
        xs = [np.minimum(np.abs(x.astype(np.float64)), 16.0) for x in given.values() if x.shape == a.shape]
        with np.errstate(invalid="ignore"):
            scale = np.fmax(np.where(np.isfinite(a), np.abs(a), 0), float(limits.tiny))
            for x in xs:
                scale = np.fmax(scale, x)
    with np.errstate(invalid="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= bound * scale)
        left = np.isinf(a) & (np.abs(b) >= float(limits.max) / 8) & (np.sign(a) == np.sign(b))
        left |= np.isinf(a) & np.isinf(b) & (not pointwise)  # a number divided by a zero of either sign
    wrong = ~(same | left)
    return f"{a[wrong][:3]} became {b[wrong][:3]}" if wrong.any() else ""


def keeps_values(label: str, graph: ts.Graph) -> list[str]:
    """Runs all passes, compares with the graph before them; the rules that changed something."""
    after = graph.copy()
    made = rules(ts.optimize(after, list(passes())))
    pointwise = all(op["kind"] in POINTWISE for op in graph.operations())
    for given in draws(graph) if made else []:
        before, now = ts.reference(graph, given), ts.reference(after, given)
        for name in before:
            found = equal(before[name], now[name], given, pointwise)
            assert not found, f"{label}: {made}: {found}"
    return made


def test_every_rule_has_a_pattern_and_mutants_that_it_leaves_alone():
    """A new rule without a pattern here fails."""
    made: dict[str, list[str]] = {}
    for name in pattern_mutants.BASES:
        for rule in set(rules(ts.optimize(pattern_mutants.plain(name), list(passes())))):
            made.setdefault(rule, []).append(name)
    assert sorted(made) == sorted(RULES)
    for rule, names in made.items():
        assert sum(1 for name in names for _ in pattern_mutants.mutants(name)) >= 10, rule


def run(name: str, chosen: Any) -> tuple[int, int]:
    """How many mutants are graphs, and in how many of them some rule of the pattern found nothing."""
    whole = keeps_values(name, pattern_mutants.plain(name))
    count, refused = 0, 0
    for index, (label, build) in enumerate(pattern_mutants.mutants(name)):
        if not chosen(index):
            continue
        try:
            graph = build()
        except (ts.UserError, ts.Unsupported):
            continue
        count += 1
        made = keeps_values(f"{name}: {label}", graph)
        refused += any(made.count(rule) < whole.count(rule) for rule in whole)
    return count, refused


@pytest.mark.parametrize("name", pattern_mutants.BASES)
def test_a_sample_of_mutants(name):
    total = sum(1 for _ in pattern_mutants.mutants(name))
    random = np.random.default_rng([total, *name.encode()])
    picked = set(random.choice(total, min(SAMPLE, total), replace=False).tolist()) if total else set()
    run(name, picked.__contains__)


@pytest.mark.slow
@pytest.mark.parametrize("name", pattern_mutants.BASES)
def test_all_mutants(name):
    count, refused = run(name, lambda _: True)
    recognised = rules(ts.optimize(pattern_mutants.plain(name), list(passes())))
    if recognised and set(recognised) - {"transposes", "layers", "known_masks"}:
        assert refused >= count / 4, f"{refused} of {count} mutants were left alone"
