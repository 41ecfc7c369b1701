"""What a page holds of each operation: the terms of `Result.why`, a baseline's times, what a file keeps."""

from __future__ import annotations

import copy
import functools
import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.command import tilesim
from support.pages import MARKUP, many, small
from tilesim.base.view import Reason, Reasons
from tilesim.base.view.pages import parts_of

CASES: dict[str, Callable[[], ts.Result]] = {
    name: functools.cache(make)
    for name, make in {
        "bert": lambda: ts.run("bert-base", machine="tpu-v3"),
        "best": lambda: ts.run("resnet18", machine="tpu-v4", lowering="best"),
        "cores": lambda: ts.run(ts.workloads.matmul(256, 256, 256), machine="mesh-16"),
        "host": lambda: ts.run(ts.models.mlp(), machine="gemmini-16", fallback="host"),
        "estimate": lambda: ts.estimate("bert-base", "h100"),
        "ideal": lambda: ts.run(ts.workloads.matmul(64, 64, 64), machine="tpu-v3", memory="ideal"),
        "banks": lambda: ts.run(ts.workloads.matmul(64, 64, 64), machine="tpu-v3", memory="bank"),
        "markup": small,
    }.items()
}


def page(result: ts.Result, path: Path, **options: Any) -> dict[str, dict[str, Any]]:
    """What the script is given, by name."""
    result.to_html(path, advice=False, **options)
    return {part["name"]: part for part in parts_of(path.read_text(encoding="utf-8"))["parts"]}


def column(values: Any, length: int) -> list[Any]:
    """A column of a table, as the script reads it."""
    if isinstance(values, list):
        return values
    return [values["all"]] * length if "all" in values else [values["of"][i] for i in values["at"]]


@pytest.mark.parametrize("case", CASES)
def test_terms_are_those_of_why(case: str, tmp_path: Path) -> None:
    result = CASES[case]()
    parts = page(result, tmp_path / "page.html")
    table, told = parts["operations"], parts["why"]
    length = table["length"]
    names = column(table["values"]["operation"], length)
    checked = 0
    assert length == len(told["at"]) == len(result.data["operations"])
    for row in range(0, length, max(1, length // 12)):
        why = result.why(names[row])
        if set(why.kernels) != {names[row]}:  # the name of an operation of the graph too, which is several kernels
            continue
        checked += 1
        pack = told["packs"][told["at"][row]]
        shares = {
            told["terms"][term][0]: part / told["parts"] for term, part in zip(pack[::2], pack[1::2], strict=True)
        }
        assert sum(pack[1::2]) == told["parts"], "shares add up to 100 %"
        wanted = {one["term"]: one["share"] for one in why.terms.rows}
        assert shares.keys() <= wanted.keys()
        assert {term: shares.get(term, 0.0) for term in wanted} == pytest.approx(wanted, abs=1.5e-5)
        assert column(told["least"], length)[row] * len(why.kernels) == pytest.approx(why.bound_cycles, rel=1e-4)
        assert column(told["part"], length)[row] == why.bound
        assert column(told["how"], length)[row].endswith(why.attribution)
        assert column(told["peak"], length)[row] == pytest.approx(why.roofline["peak_flops_per_second"], rel=1e-4)
        moved = column(told["moved"], length)[row] * len(why.kernels)
        assert moved == pytest.approx(why.roofline["bytes"], rel=1e-4, abs=1e-3)
    assert checked >= min(length, 8)


def test_only_the_longest_are_measured_in_a_page_of_very_many(tmp_path: Path) -> None:
    parts = page(many(25_000), tmp_path / "page.html")
    told = parts["why"]
    assert sum(at >= 0 for at in told["at"]) == 20_000
    assert "longest" in told["missing"]
    assert all(sum(pack[1::2]) == told["parts"] for pack in told["packs"])


def test_shares_are_rounded_together() -> None:
    thirds = Reason([(0, 1 / 3), (1, 1 / 3), (2, 1 / 3)])
    data = Reasons("t", [("a", "", ""), ("b", "", ""), ("c", "", "")], [thirds, None, thirds], ("", "", "", ""), (1, 1))
    found = data.data() or {}
    assert sum(found["packs"][0][1::2]) == found["parts"] and len(found["packs"]) == 1
    assert found["at"] == [0, -1, 0]


def test_a_configuration_that_nobody_knows(tmp_path: Path) -> None:
    result = ts.run(ts.workloads.matmul(64, 64, 64), machine="edge-8")
    data = copy.deepcopy(result.data)
    data["configuration"] = {"some": "thing"}
    path = tmp_path / "page.html"
    ts.Result(data).to_html(path)
    assert "cannot read the configuration" in path.read_text(encoding="utf-8")


def empty() -> ts.Result:
    b = ts.GraphBuilder("nothing")
    b.output(b.input("x", [4, 4]), "y")
    return ts.run(b.build(), machine="edge-8")


# --- baselines ----------------------------------------------------------------------------------------------------

PAIRS: dict[str, tuple[Callable[[], ts.Result], Callable[[], ts.Result]]] = {
    "itself": (CASES["bert"], CASES["bert"]),
    "another machine": (CASES["bert"], lambda: ts.run("bert-base", machine="tpu-v4")),
    "an estimate": (CASES["bert"], CASES["estimate"]),
    "fused otherwise": (CASES["bert"], lambda: ts.run("bert-base", machine="tpu-v3", fuse="none")),
    "nothing in common": (small, CASES["ideal"]),
    "nothing": (small, empty),
    "of nothing": (empty, small),
    "many": (lambda: many(2_000), lambda: many(1_990)),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_differences_add_up(pair: str, tmp_path: Path) -> None:
    """The columns of the page and what the baseline alone has are the difference of the totals."""
    result, other = (make() for make in PAIRS[pair])
    parts = page(result, tmp_path / "page.html", baseline=other)
    comparison = ts.compare(other, result)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Against the baseline" in text
    only = [row["a"] for row in comparison.operations().rows if not row["kernels"][1]]
    found = 0.0
    if "operations" in parts:
        table = parts["operations"]
        assert [one["key"] for one in table["columns"]][5:8] == ["before", "difference", "change"]
        found = sum(column(table["values"]["difference"], table["length"]))
        before = [one for one in column(table["values"]["before"], table["length"]) if one is not None]
        assert sum(before) + sum(only) == pytest.approx(comparison.total(0), rel=1e-3)
    whole = comparison.total(1) - comparison.total(0)
    scale = max(comparison.total(0), comparison.total(1))
    assert found - sum(only) == pytest.approx(whole, rel=1e-3, abs=2e-5 * scale)


def test_a_baseline_on_the_command_line(tmp_path: Path) -> None:
    run = ("run", "matmul:64,64,64", "--quiet", "--machine")
    assert tilesim(*run, "edge-8", "--json", str(tmp_path / "a.json")).returncode == 0
    target = tmp_path / "r.html"
    done = tilesim(*run, "mesh-16", "--report", str(target), "--baseline", str(tmp_path / "a.json"))
    assert done.returncode == 0, done.stderr
    assert "Against the baseline" in target.read_text(encoding="utf-8")
    done = tilesim(*run, "h100", "--report", str(target), "--baseline", str(tmp_path / "a.json"))
    assert done.returncode == 0 and "estimates and simulations" in target.read_text(encoding="utf-8")
    done = tilesim("open", str(tmp_path / "a.json"), "--baseline", str(tmp_path / "a.json"), "--no-browser", "-o",
                   str(target))  # fmt: skip
    assert done.returncode == 0 and "Against the baseline" in target.read_text(encoding="utf-8")
    done = tilesim(*run, "mesh-16", "--baseline", str(tmp_path / "a.json"))
    assert done.returncode == 2 and "--html" in done.stderr
    done = tilesim(*run, "mesh-16", "--report", str(target), "--baseline", str(tmp_path / "none.json"))
    assert done.returncode == 2 and "none.json" in done.stderr


def test_why_as_a_page(tmp_path: Path) -> None:
    words = ["why", "matmul:256,256,256", "matmul", "--machine", "edge-8", "--html"]
    done = tilesim(*words, str(tmp_path / "why.html"))
    assert done.returncode == 0, done.stderr
    text = html.unescape((tmp_path / "why.html").read_text(encoding="utf-8"))
    why = ts.run(ts.workloads.matmul(256, 256, 256), machine="edge-8").why("matmul")
    for row in why.alternatives.rows:
        assert f"{row['cycles']:,}" in text and row["what"] in text
    assert all(row["term"] in text and f"{row['cycles']:,.0f}" in text for row in why.terms.rows)
    assert why.attribution in text and "http" not in text
    done = tilesim(*words, str(tmp_path / "not there" / "why.html"))
    assert done.returncode == 2 and "cannot be written" in done.stderr
    result = small()
    result.why(f"layers.0.first {MARKUP}").to_html(tmp_path / "markup.html", alternatives=False)
    text = (tmp_path / "markup.html").read_text(encoding="utf-8")
    assert MARKUP not in text and "<b>bold" not in text and "Alternatives" not in text


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_a_file_keeps_what_its_page_shows(case: str, tmp_path: Path) -> None:
    result = CASES[case]()
    result.save(tmp_path / "r.json")
    loaded = ts.Result.load(tmp_path / "r.json")
    assert loaded.data == json.loads(json.dumps(result.data)) and loaded.timing_hash() == result.timing_hash()
    own, stored = page(result, tmp_path / "a.html"), page(loaded, tmp_path / "b.html")
    for name in ("plan", "live"):
        assert own.get(name) == stored.get(name)
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "r.json").read_text()


def test_a_file_keeps_advice(tmp_path: Path) -> None:
    result = ts.run(ts.workloads.matmul(64, 64, 64), machine="edge-8")
    advice = result.explain()
    result.save(tmp_path / "r.json")
    loaded = ts.Result.load(tmp_path / "r.json")
    loaded.to_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    worth = [one for one in advice if one.worth_telling]
    assert worth and all(str(one) in text for one in worth)
    done = tilesim("run", "matmul:64,64,64", "--machine", "edge-8", "--json", str(tmp_path / "cli.json"))
    assert done.returncode == 0
    kept = json.loads((tmp_path / "cli.json").read_text())["page"]["advice"]
    assert [row["cycles"] for row in kept] == [one.cycles for one in advice]


@pytest.mark.parametrize(
    "damage",
    [
        lambda one: one["memory"]["boxes"]["first"].pop(),
        lambda one: one["memory"]["boxes"].update(last=[10**9] * len(one["memory"]["boxes"]["last"])),
        lambda one: one["memory"].update(live_bytes=[]),
        lambda one: one["memory"].update(peak_bytes="many"),
        lambda one: one["memory"].pop("shared"),
        lambda one: one["graph"]["functions"][0]["arrows"].append([0, 99]),
        lambda one: one["graph"]["functions"][0]["arrows"].append([0]),
        lambda one: one["graph"]["functions"][0]["boxes"][0].update(kernels=[77]),
        lambda one: one["graph"]["functions"][0]["boxes"].append(one["graph"]["functions"][0]["boxes"][0]),
        lambda one: one.update(graph={}),
        lambda one: one.update(more=1),
        lambda one: one.update(advice=[{"change": "x"}]),
    ],
)
def test_a_damaged_file_is_refused_or_read(damage: Callable[[dict[str, Any]], Any], tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    small().save(path)
    data = json.loads(path.read_text())
    damage(data["page"])
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ts.UserError, match=r"r\.json"):
        ts.Result.load(path)


def test_terms_are_told_in_whole_sentences() -> None:
    why = small().why("relu")
    shown = html.unescape(why._repr_html_())
    assert all(row["meaning"] in shown for row in why.terms.rows)
