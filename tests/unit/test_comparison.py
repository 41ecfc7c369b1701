"""Results side by side: sums that must agree, matching by what kernels compute, odd and refused cases, `check`."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import math
import random
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.compared_results import Tags, by_hand, row
from tilesim.results.comparison import Comparison
from tilesim.results.headlines import letters
from tilesim.results.matching import joined, matches, same_names

run = functools.cache(ts.run)  # of networks by name: several tests look at one result


@pytest.fixture(scope="module")
def simulated() -> ts.Result:
    return run("bert-base", machine="tpu-v3")


@pytest.fixture(scope="module")
def template() -> ts.Result:
    return ts.run(ts.workloads.matmul(64, 64, 64), machine="edge-8")


def exact(comparison: Comparison) -> None:
    """Every column adds up to its total, in whole cycles; differences and shares to those of the totals."""
    rows = comparison.operations().rows
    for index, letter in enumerate(comparison.letters):
        hertz = comparison.results[index].data["hertz"]
        whole = comparison.results[index].cycles
        if comparison.unit == "cycles":
            assert sum(one[letter] for one in rows) == whole
        else:
            cycles = [round(Fraction(one[letter]) * hertz) for one in rows]
            assert sum(cycles) == whole
    for letter in comparison.letters[1:]:
        tail = "" if len(comparison.letters) == 2 else f"_{letter}"
        total = comparison.total(comparison.letters.index(letter)) - comparison.total(0)
        differences = [one[f"difference{tail}"] for one in rows]
        if comparison.unit == "cycles":
            assert sum(differences) == total
        assert math.fsum(differences) == pytest.approx(total, rel=1e-12, abs=1e-15)
        if total:
            assert math.fsum(one[f"share{tail}"] for one in rows) == pytest.approx(1)


# --- sums ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["machine", "lowering", "fuse", "dtype", "closed form", "three"])
def test_rows_add_up_to_the_totals(what: str, simulated: ts.Result) -> None:
    others = {
        "machine": lambda: [run("bert-base", machine="tpu-v4")],
        "lowering": lambda: [run("bert-base", machine="tpu-v3", lowering="best")],
        "fuse": lambda: [run("bert-base", machine="tpu-v3", lowering="best", fuse="none")],
        "dtype": lambda: [ts.run(ts.models.build("bert-base", dtype="bf16"), machine="tpu-v3")],
        "closed form": lambda: [ts.estimate("bert-base", "h100")],
        "three": lambda: [run("bert-base", machine="tpu-v4"), ts.estimate("bert-base", "h100")],
    }[what]()
    comparison = ts.compare(simulated, *others)
    exact(comparison)
    assert comparison.unit == ("cycles" if what in ("lowering", "fuse", "dtype") else "s")
    for one in comparison.results:  # every operation is in one row alone
        kernels = {name for kernel in one.data["operations"] for name in kernel["operation"]}
        listed = {name for found in comparison.operations().rows for name in found["operations"]}
        assert kernels <= listed


def test_random_groupings_are_matched_by_origin(template: ts.Result) -> None:
    """Kernels of each result compute every operation once: then every row has the same operations in each result, and
    no finer division has (by trying all unions of intervals, which need no sets that grow together)."""
    random_ = random.Random(3)
    for _ in range(60):
        names = [f"op{i}" for i in range(random_.randint(1, 12))]
        results, cuts = [], []
        for _ in range(random_.randint(2, 4)):
            own = sorted({0, len(names), *(random_.randint(0, len(names)) for _ in range(4))})
            cuts.append(set(own))
            parts = [names[a:b] for a, b in itertools.pairwise(own)]
            random_.shuffle(parts)
            results.append(by_hand([row(p[-1], random_.randint(0, 99), p) for p in parts], template))
        comparison = ts.compare(*results)
        exact(comparison)
        common = sorted(set.intersection(*cuts))
        wanted = {frozenset(names[a:b]) for a, b in itertools.pairwise(common)}
        assert {frozenset(one["operations"]) for one in comparison.operations().rows} == wanted


def test_equal_kernels_stay_apart_where_they_recompute_the_same(template: ts.Result) -> None:
    """Two kernels that both recompute `add` are two rows where all results have them, one where another has it once."""
    two = [row("mean", 5, ["add", "mean"]), row("variance", 7, ["add", "variance"])]
    apart = [row("add", 4), row("mean", 3), row("variance", 6)]
    a, b, c = by_hand(two, template), by_hand(copy.deepcopy(two), template), by_hand(apart, template)
    assert sorted(one["operation"] for one in ts.compare(a, b).operations().rows) == ["mean", "variance"]
    (joined,) = ts.compare(a, c).operations().rows
    assert (joined["a"], joined["b"], joined["difference"], joined["kernels"]) == (12, 13, 1, [2, 3])
    assert len(ts.compare(a, b, c).operations()) == 1


def test_layers_of_a_closed_form_meet_the_function_that_runs_them() -> None:
    function = [row("attn", 60, ["attn.scores", "attn.softmax"], 3), row("mlp", 30, ["mlp"], 3), row("head", 5)]
    flat = [row(f"layer.{i}.{part}", 9) for i in range(3) for part in ("attn", "mlp")] + [row("head", 2)]
    first, other = same_names(function, flat)
    found = {frozenset(m.operations): (m.cycles(0), m.cycles(1)) for m in matches([function, flat], [first, other])}
    assert sorted(found.values()) == [(5, 2), (30, 27), (60, 27)]
    short = flat[2:]  # one layer fewer than the function's runs: another network, which is not guessed at
    assert not any(name.startswith("layer") for name in same_names(function, short)[1])


# --- words --------------------------------------------------------------------------------------------------------


def test_the_headline_names_where_the_difference_lies(template: ts.Result) -> None:
    a = by_hand([row("intermediate.dense", 300_000), row("output.dense", 200_000), row("norm", 10_000)], template)
    b = by_hand([row("intermediate.dense", 180_000), row("output.dense", 158_000), row("norm", 10_000)], template)
    comparison = ts.compare(a, b, names=["tpu-v3", "tpu-v4"])
    assert comparison.headline() == (
        "b (tpu-v4) against a (tpu-v3): 1.47 × faster; 120 of 162 thousand cycles in intermediate.dense"
    )
    shares = {one["operation"]: one["share"] for one in comparison.operations().rows}
    assert shares == {
        "intermediate.dense": pytest.approx(120 / 162),
        "output.dense": pytest.approx(42 / 162),
        "norm": 0,
    }
    assert "1 operation (repeated layers folded) with equal times" in str(comparison)
    assert "slower" in ts.compare(b, a).headline() and "faster" not in ts.compare(b, a).headline()


def test_what_is_taken_back_is_said(template: ts.Result) -> None:
    a = by_hand([row("x", 1000), row("y", 1000)], template)
    assert "1,000 cycles in x, less 400 cycles in others" in (
        ts.compare(a, by_hand([row("x", 0), row("y", 1400)], template)).headline()
    )
    elsewhere = by_hand([row("x", 777), row("y", 1000)], template, hertz=3 * template.data["hertz"])
    thrice = by_hand([row("x", 333), row("y", 3000)], template, hertz=3 * template.data["hertz"])
    assert re.search(r"faster; all \S+ [µn]s in x$", ts.compare(a, thrice).headline())
    assert "faster" in ts.compare(a, elsewhere).headline()
    equal = ts.compare(a, by_hand([row("x", 900), row("y", 1100)], template))
    assert "the same total time; the largest difference of a part is 100 cycles in" in equal.headline()
    assert all(math.isnan(one["share"]) for one in equal.operations().rows)
    json.loads(json.dumps(equal.to_dict(), allow_nan=False))


def test_repeated_layers_are_one_row(template: ts.Result) -> None:
    a = by_hand([row(f"layer.{i}.mlp", 10) for i in range(50)] + [row("head", 3)], template)
    b = by_hand([row(f"layer.{i}.mlp", 8) for i in range(50)] + [row("head", 3)], template)
    comparison = ts.compare(a, b)
    (layers, head) = comparison.folded()
    assert (layers["operation"], layers["layers"], layers["difference"], layers["a"]) == (
        "layer.*.mlp",
        50,
        -100,
        500,
    )
    assert (head["operation"], head["layers"]) == ("head", 1)
    assert "layer.*.mlp (50 layers)" in comparison.headline()


def test_what_tells_results_apart(simulated: ts.Result) -> None:
    other = run("bert-base", machine="tpu-v3", lowering="best")
    comparison = ts.compare(simulated, other)
    assert comparison.names == ["native", "best"]
    assert {one["what"] for one in comparison.differences().rows} >= {"lowering"}
    changed = ts.Machine.load("tpu-v3").replace({"core.vector.issue": 1})
    rows = ts.compare(simulated, ts.run("bert-base", machine=changed)).differences().rows
    assert {"what": "core.vector.issue", "a": "2", "b": "1"} in rows


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_lines_fit(width: int, simulated: ts.Result) -> None:
    others = [run("bert-base", machine="tpu-v4"), ts.estimate("bert-base", "h100")]
    for comparison in (ts.compare(simulated, others[0]), ts.compare(simulated, *others, *others)):
        assert max(map(len, comparison.text(width).splitlines())) <= width


# --- pages --------------------------------------------------------------------------------------------------------


def test_a_page_loads_nothing_and_escapes_names(template: ts.Result, tmp_path: Path) -> None:
    names = ["<b>bold</b>", "[red]x[/red]", "&amp;", "n" * 5000, '"quoted"']
    a = by_hand([row(name, 100 + i) for i, name in enumerate(names)], template)
    b = by_hand([row(name, 90) for name in names], template)
    comparison = ts.compare(a, b, names=["<i>before</i>", "after"])
    comparison.to_html(tmp_path / "page.html")
    for text in ((tmp_path / "page.html").read_text(encoding="utf-8"), comparison._repr_html_()):
        body = text.partition('<script type="application/json"')[0] + ("</body></html>" if "<html" in text else "")
        tags = Tags(body)
        assert all(link.startswith("#") for link in tags.links) and not {"b", "script", "img"} & set(tags.seen)
        words = "".join(tags.words)
        assert "<b>bold</b>" in words and "[red]x[/red]" in words and "<i>before</i>" in words
        assert "http" not in text and "<b>bold" not in text and "<i>before" not in text
    assert "[red]x[/red]" in str(comparison) and max(map(len, str(comparison).splitlines())) <= 100


def test_many_operations(template: ts.Result, tmp_path: Path) -> None:
    """Five thousand names that do not fold: all in the rows, the largest on the page, the others in a sum."""
    random_ = random.Random(1)
    letters_of = ["".join(random_.choices("abcdefghij", k=12)) for _ in range(5_000)]
    names = list(dict.fromkeys(letters_of))
    a = by_hand([row(name, 10) for name in names], template)
    b = by_hand([row(name, 11) for name in names], template)
    comparison = ts.compare(a, b)
    exact(comparison)
    assert f"spread over {len(names):,} operations, at most 1 cycle in" in comparison.headline()
    comparison.to_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(text) < 3_000_000 and f"and {len(names) - 2000:,} more: b − a +{len(names) - 2000:,} cycles" in text


# --- odd cases ----------------------------------------------------------------------------------------------------


def test_a_result_with_itself(simulated: ts.Result) -> None:
    comparison = ts.compare(simulated, simulated)
    assert "no difference" in comparison.headline() and not comparison.check(0).rows
    assert all(one["difference"] == one["share"] == 0 for one in comparison.operations().rows)


def test_results_without_time_and_without_operations(template: ts.Result) -> None:
    nothing, zero = by_hand([], template), by_hand([row("x", 0)], template)
    one = by_hand([row("x", 7)], template)
    for pair in ((nothing, nothing), (nothing, zero), (zero, one), (one, zero), (zero, zero), (nothing, one)):
        comparison = ts.compare(*pair)
        exact(comparison)
        assert (
            comparison.headline()
            and str(comparison)
            and comparison._repr_html_()
            and comparison.check("5%") is not None
        )
    assert [one["change"] for one in ts.compare(zero, one).check().rows] == [math.inf, math.inf]
    assert [one["change"] for one in ts.compare(one, zero).check().rows] == [-1, -1]


def test_cycles_of_no_operation_have_a_row(template: ts.Result) -> None:
    comparison = ts.compare(by_hand([row("x", 5)], template, 9), by_hand([row("x", 6)], template, 17))
    exact(comparison)
    rest = {one["operation"]: one["difference"] for one in comparison.operations().rows}
    assert rest == {"(outside of operations)": 7, "x": 1}


def test_programs_that_know_no_operations_are_matched_by_kernel(template: ts.Result) -> None:
    comparison = ts.compare(by_hand([row("k", 5, [])], template), by_hand([row("k", 9, [])], template))
    assert [one["difference"] for one in comparison.operations().rows] == [4]


def test_results_read_from_files(simulated: ts.Result, tmp_path: Path) -> None:
    other = run("bert-base", machine="tpu-v4")
    simulated.save(tmp_path / "a.json")
    other.save(tmp_path / "b.json")
    read = ts.compare(ts.Result.load(tmp_path / "a.json"), ts.Result.load(tmp_path / "b.json"))
    assert read.operations().rows == ts.compare(simulated, other).operations().rows


def test_a_machine_with_a_host_and_one_with_cores() -> None:
    graph = ts.workloads.matmul(256, 256, 256)
    one = ts.run(graph, machine="edge-8")
    hosted = ts.run(graph, machine="edge-8", place={ts.compare(one, one).operations().rows[0]["operations"][0]: "host"})
    cores = ts.run(graph, machine=ts.Machine.load("edge-8").replace({"core.count": 2}))
    for other in (hosted, cores):
        exact(ts.compare(one, other))


def test_graphs_that_share_a_part(template: ts.Result) -> None:
    a = by_hand([row("x", 30), row("y", 70)], template)
    b = by_hand([row("x", 20), row("z", 60)], template)
    comparison = ts.compare(a, b)
    exact(comparison)
    assert comparison.notes == [
        "1 of 3 operations of a and b matched: 30.0 % of a, 25.0 % of b by time; the others have separate rows"
    ]
    other = ts.compare(a, by_hand([row("w", 1)], template))
    exact(other)
    assert "no operation in common" in other.notes[0] and len(other.operations()) == 3


def test_refused() -> None:
    result = ts.run("matmul:8,8,8", machine="edge-8")
    with pytest.raises(ts.UserError, match="compare needs at least two results"):
        ts.compare(result)
    with pytest.raises(ts.UserError, match="a wrong number of names"):
        ts.compare(result, result, names=["a"])
    with pytest.raises(ts.UserError, match="not a result"):
        ts.compare(result, "b.json")  # type: ignore[arg-type]


def test_letters_go_on() -> None:
    first = [letter for letter, _ in zip(letters(), range(30), strict=False)]
    assert first[:2] == ["a", "b"] and first[25:28] == ["z", "aa", "ab"]


def test_operations_of_one_name_in_functions_with_other_runs_are_apart() -> None:
    """ "add" of the entry and "add" of a layer are two operations: what fuses the one does not join the other."""

    def one(name: str, operations: list[str], count: int, cycles: int) -> dict[str, Any]:
        return {"name": name, "operation": operations, "count": count, "exclusive": cycles}

    first = [one("norm", ["add", "norm"], 1, 5), one("dense", ["dense", "add"], 12, 70)]
    other = [one("add", ["add"], 1, 2), one("norm", ["norm"], 1, 4), one("dense", ["dense", "add"], 12, 60)]
    found = matches([first, other])
    assert [[match.cycles(0), match.cycles(1)] for match in found] == [[5, 6], [70, 60]]
    assert "norm of a is in 2 kernels of b: add, norm" in joined(found[0], "ab") and not joined(found[1], "ab")
    alone = matches([first[1:], other[2:]])
    assert len(alone) == 1


def test_a_row_of_several_kernels_says_why() -> None:
    results = [run("gpt2", machine="tpu-v3", **more) for more in ({}, {"lowering": "best"})]
    for found in ts.compare(*results).operations().rows:
        assert bool(found["joined"]) == (max(found["kernels"]) > 1)
    apart = [run("bert-base", machine="tpu-v3", fuse=how) for how in ("all", "none")]
    rows = ts.compare(*apart).operations().rows
    assert not any({"attention.output.dense", "output.dense"} <= set(each["operations"]) for each in rows)
