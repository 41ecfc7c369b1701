"""Steps side by side."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts


def program() -> Any:
    b = ts.GraphBuilder("two products", dtype="bf16")
    x = b.input("x", (256, 512))
    up, down = b.input("up", (512, 1024)), b.input("down", (1024, 512))
    b.output(b.matmul(b.apply("silu", b.matmul(x, up)), down), "y")
    return ts.partition(b.build(), {"d": 4}, {"up": (None, "d"), "down": ("d", None)})


def check_sums(found: Any) -> None:
    for letter, result in zip(found.letters, found.results, strict=True):
        assert sum(row[letter] for row in found.breakdown()) == pytest.approx(result.seconds)
    for at, letter in enumerate(found.letters[1:], 1):
        differences = [row[found.column("difference", letter)] for row in found.breakdown()]
        assert sum(differences) == pytest.approx(found.results[at].seconds - found.results[0].seconds, abs=1e-12)


def test_plans_clusters_and_overlap() -> None:
    plan = ts.Plan(tensor=8, pipeline=8, recompute="selective", sequence=True)
    work = ts.workloads.layered("gpt3-175b", batch=64)
    a = ts.cluster.step(work, "dgx-h100:64", plan)
    b = ts.cluster.step(work, "dgx-h100:64", plan.replace(virtual=2))
    c = ts.cluster.step(work, "dgx-a100:64", plan, overlap="none")
    two, three = ts.compare(a, b), ts.compare(a, b, c, names=["one", "two", "three"])
    check_sums(two)
    check_sums(three)
    assert [row["what"] for row in two.differences()] == ["plan"]
    assert {row["what"] for row in three.differences()} == {"plan", "cluster", "device", "overlap"}
    assert two.names == [a.plan.text(), b.plan.text()]
    (row,) = (row for row in two.table() if row["figure"] == "seconds")
    assert (row["a"], row["b"], row["b/a"]) == (a.seconds, b.seconds, b.seconds / a.seconds)
    assert sum(row["share"] for row in two.breakdown()) == pytest.approx(1.0)
    assert next(iter(two.breakdown()))["part"] == "bubble" and "bubble" in two.headline()
    assert "b (two) against a (one)" in str(three) and "faster" in two.headline()
    assert "c (three) against a (one)" in three.headline() and "slower" in three.headline().split("\n")[1]
    json.dumps(three.to_dict(), allow_nan=False)


def test_a_step_beside_itself() -> None:
    one = ts.cluster.step("llama-3-8b", "dgx-h100:64", ts.Plan(data=64, shard="zero2"))
    found = ts.compare(one, one)
    assert found.headline() == "b (the same step) against a (the same step): no difference"
    assert all(row["difference"] == 0 and row["share"] == 0 for row in found.breakdown()) and not found.check(0).rows
    assert found.names == ["the same step"] * 2 and not list(found.differences())


def test_predictors(tmp_path: Path) -> None:
    spmd = program()
    closed = ts.cluster.step(spmd, "dgx-h100:4")
    table = tmp_path / "t.csv"
    rows = [f"segment {row['segment']},{2 * row['seconds']}" for row in closed.segments]
    table.write_text("\n".join(["what,seconds", *rows]) + "\n")
    measured = ts.cluster.step(spmd, "dgx-h100:4", predictor=f"table:{table}")
    found = ts.compare(closed, measured)
    check_sums(found)
    (row,) = (row for row in found.breakdown() if row["part"] == "compute")
    assert row["b"] == pytest.approx(2 * row["a"])
    assert found.names == ["closed", f"table:{table}"]
    link = {"kind": "full", "size": 4, "bandwidth_bytes_per_second": 5e10, "latency_seconds": 1e-6}
    chips = ts.Cluster("tpu-v3", [link])
    engine = ts.cluster.step(spmd, chips, predictor="engine")
    assert ts.compare(closed, measured, engine).names[2] == "custom, engine"
    check_sums(ts.compare(closed, measured, engine))


def test_what_is_no_step() -> None:
    one = ts.cluster.step("llama-3-8b", "dgx-h100:64", ts.Plan(data=64, shard="zero2"))
    b = ts.GraphBuilder("g", dtype="bf16")
    b.output(b.matmul(b.input("x", (64, 64)), b.input("w", (64, 64))), "y")
    other = ts.estimate(b.build(), "h100")
    with pytest.raises(ts.UserError, match="only with cluster steps"):
        ts.compare(one, other)
    with pytest.raises(ts.UserError):
        ts.compare(other, one)
    with pytest.raises(ts.UserError, match="a wrong number of names"):
        ts.compare(one, one, names=["a"])


def pair(tmp_path: Path) -> tuple[Any, Any, str, str]:
    """A step of a plan and one of a program, with their files."""
    plan = ts.Plan(tensor=8, pipeline=8, recompute="selective", sequence=True)
    found = ts.cluster.step("gpt3-175b", "dgx-h100:64", plan), ts.cluster.step(program(), "dgx-h100:4")
    files = str(tmp_path / "plan.json"), str(tmp_path / "program.json")
    for one, file in zip(found, files, strict=True):
        one.save(file)
    return *found, *files


def test_saved_steps_stand_beside_others(tmp_path: Path) -> None:
    a, b, *files = pair(tmp_path)
    for one, file in zip((a, b), files, strict=True):
        saved = ts.cluster.StepResult.load(file)
        found = ts.compare(one, saved)
        check_sums(found)
        assert not list(found.differences()) and not found.check(0).rows
        assert str(ts.compare(saved, one)) == str(found)


#: fields that no file holds: they run a step again
ALIVE = {"again", "fabric", "others", "passes", "pipe", "replayed"}


def test_a_loaded_step_is_a_step(tmp_path: Path) -> None:
    """Of the same class, with every figure of the live one; what would run it again says that it was loaded."""
    for live, file in zip(*(pair(tmp_path)[at : at + 2] for at in (0, 2)), strict=True):
        saved = ts.cluster.StepResult.load(file)
        assert type(saved) is type(live) and repr(saved) == repr(live)
        assert saved.to_dict() == json.loads(json.dumps(live.to_dict()))
        for name in {one for one in dir(live) if not one.startswith("_")} - ALIVE:
            mine, theirs = getattr(live, name), getattr(saved, name)
            if name in ("breakdown", "segments", "exchanges"):
                assert json.loads(json.dumps(mine.rows)) == theirs.rows
            elif name == "workload":
                assert mine == theirs if live.plan else (mine.name, mine.devices) == (theirs.name, theirs.devices)
            elif not callable(mine):
                assert json.loads(json.dumps(mine, default=str)) == json.loads(json.dumps(theirs, default=str)), name
        assert saved.explain().split("\n")[:3] == live.explain().split("\n")[:3]
        assert not saved.advice().rows and "cannot be repeated" in str(saved.advice())
        if live.plan is None:
            with pytest.raises(ts.UserError, match="cannot be repeated"):
                saved.timeline(tmp_path / "t.json")
        saved.save(tmp_path / "again.json")
        again = ts.cluster.StepResult.load(tmp_path / "again.json")
        for one in (again, copy.deepcopy(saved), pickle.loads(pickle.dumps(saved))):
            assert one.to_dict() == saved.to_dict() and repr(one) == repr(saved)


@pytest.mark.parametrize("tolerance", [0, 0.02, "5%", "50%", "300%"])
def test_what_changed_by_more(tolerance: Any) -> None:
    plan = ts.Plan(tensor=8, pipeline=8, recompute="selective", sequence=True)
    results = [ts.cluster.step("gpt3-175b", "dgx-h100:64", plan.replace(virtual=virtual)) for virtual in (1, 2, 4)]
    found = ts.compare(*results)
    share = float(tolerance[:-1]) / 100 if isinstance(tolerance, str) else tolerance

    def figures(result: Any) -> dict[str, float]:
        named = {"time": result.seconds, "peak_bytes": result.peak_bytes}
        for row in result.breakdown:
            named[f"{row['part']} ({row['dimension']})" if row["dimension"] else row["part"]] = row["seconds"]
        return named

    before = figures(results[0])
    wanted = set()
    for letter, result in zip("bc", results[1:], strict=True):
        after = figures(result)
        for name in before | after:
            old, new = before.get(name, 0.0), after.get(name, 0.0)
            if new > old * (1 + share) or new < old * (1 - share):
                wanted.add((letter, "total" if name in ("time", "peak_bytes") else "part", name, old, new))
    rows = found.check(tolerance).rows
    assert {(row["result"], row["kind"], row["name"], row["before"], row["after"]) for row in rows} == wanted
    with pytest.raises(ts.UserError, match="not a tolerance"):
        found.check(2)


def test_page_and_commands(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from tilesim.cli.main import app

    a, b, one, two = pair(tmp_path)
    found = ts.compare(a, b)
    found.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Parts" in page and "bubble" in page and "Largest differences" in page and found._repr_html_()
    run = CliRunner()
    done = run.invoke(
        app, ["compare", one, two, "--html", str(tmp_path / "c.html"), "--json", str(tmp_path / "c.json")]
    )
    assert done.exit_code == 0 and "b (program) against a (plan)" in done.output
    assert "Parts" in (tmp_path / "c.html").read_text(encoding="utf-8")
    written = json.loads((tmp_path / "c.json").read_text())
    assert written["schema"] == "tilesim.cluster_comparison" and written["totals"][0]["a"] == a.seconds
    assert run.invoke(app, ["check", one, "--against", one]).exit_code == 0
    assert run.invoke(app, ["check", two, "--against", one]).exit_code == 1
    how = ["cluster", "compare", "llama-3-8b", "--cluster", "dgx-h100:64"]
    done = run.invoke(app, [*how, "--plan", "data=64,shard=zero2", "--plan", "data=64,shard=zero3", "--json", "-"])
    names = json.loads(done.output)["names"]
    assert names == {"a": "data=64,shard=zero2, megatron", "b": "data=64,shard=zero3, fsdp"}
    refused = run.invoke(app, how)
    assert refused.exit_code and "at least two steps" in str(refused.exception)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": "tilesim.plan"}, "another schema"),
        ({"version": 9}, "version"),
        ({"seconds": "1"}, "seconds"),
        ({"mfu": -1}, "mfu"),
        ({"devices": 0}, "devices"),
        ({"breakdown": [{"part": "compute"}]}, "breakdown"),
        ({"breakdown": []}, "breakdown"),
        ({"exposed_seconds": 1e9}, "by the other figures"),
        ({"plan": {"schema": "tilesim.plan", "version": 1, "tensr": 2}}, "unknown key"),
        ({"network": None}, "network"),
        ({"parts": {"compute": "1"}}, "parts"),
        ({"classes": {}}, "classes"),
        ({"fits": 1}, "fits"),
        *(
            ({key: value}, f"{key}: invalid value in a saved step")
            for key in ("notes", "provenance")
            for value in (None, "text", 3, [3], {"a": 3})
        ),
        ({"overlap": ...}, "missing key"),
    ],
)
def test_files_that_are_no_steps(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    *_, plan, program = pair(tmp_path)
    file = program if "notes" in change else plan
    data = json.loads(Path(file).read_text()) | change
    Path(file).write_text(json.dumps({key: value for key, value in data.items() if value is not ...}))
    with pytest.raises(ts.UserError, match=words):
        ts.cluster.StepResult.load(file)
