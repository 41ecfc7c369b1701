"""Where candidates come from, who runs them, and what a study shows."""

from __future__ import annotations

import random
import sys
import types
from typing import Any

import pytest

import tilesim as ts


def outcome(study: ts.study.Study) -> tuple[Any, ...]:
    return (study.best.entries, [dict(row) for row in study.rows], study.result.cycles if study.result else None)


def graph() -> ts.Graph:
    b = ts.GraphBuilder("net", dtype="f32")
    x = b.linear(b.input("x", (64, 48)), 80, name="first")
    b.output(b.op("softmax", x, dim=1, name="rows"), "y")
    return b.build()


@pytest.mark.parametrize("sampler", ["model", "random"])
def test_same_for_any_number_of_workers(sampler: str) -> None:
    one = ts.tune(graph(), "edge-8", budget=20, jobs=1, sampler=sampler, seed=3)
    for jobs in (2, 4):
        assert outcome(one) == outcome(ts.tune(graph(), "edge-8", budget=20, jobs=jobs, sampler=sampler, seed=3))
    assert one.result is not None and one.baseline is not None and one.result.cycles <= one.baseline.cycles
    assert {row["kind"] for row in one.operations} == {"product", "vector"}
    assert ts.verify(ts.compile(graph(), "edge-8", mapping=one.best)).ok


def test_seeds_draw_other_nests() -> None:
    drawn = [
        {row["mapping"] for row in ts.tune("matmul:64,64,64", "edge-8", budget=10, sampler="random", seed=seed).rows}
        for seed in (1, 2)
    ]
    assert len(drawn[0]) == len(drawn[1]) == 10 and drawn[0] != drawn[1]


def test_model_beats_chance() -> None:
    """With few candidates the model's best nests are at least as fast as random ones."""
    cycles = {
        sampler: ts.tune("matmul:200,300,100,bf16", "edge-8", budget=8, sampler=sampler, seed=5).operations[0][
            "best_cycles"
        ]
        for sampler in ("model", "random")
    }
    assert cycles["model"] <= cycles["random"]


def test_a_small_space_ends() -> None:
    study = ts.tune("matmul:2,2,2", "edge-8", budget=10000, sampler="random")
    assert not study.interrupted and study.result is not None and 1 < len(study.rows) < 10000


def test_unknown_sampler() -> None:
    with pytest.raises(ts.UserError, match="model, random, optuna") as caught:
        ts.tune("matmul:8,8,8", "edge-8", budget=4, sampler="rndom")
    assert caught.value.suggestion == "random"  # type: ignore[attr-defined]


# --- optuna -------------------------------------------------------------------------------------------------------


class FakeTrial:
    """Draws as a trial would, uniformly."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def suggest_int(self, name: str, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def suggest_categorical(self, name: str, choices: list[Any]) -> Any:
        return self.rng.choice(choices)


class FakeStudy:
    """Only ask and tell; keeps what it was told."""

    def __init__(self, seed: int) -> None:
        self.rng, self.told = random.Random(seed), []  # type: tuple[random.Random, list[Any]]

    def ask(self) -> FakeTrial:
        return FakeTrial(self.rng)

    def tell(self, trial: FakeTrial, value: float | None = None, state: Any = None) -> None:
        self.told.append(value)


def test_optuna_is_asked_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a stand-in: every candidate's cycles are told, the result does not depend on the workers."""
    studies: list[FakeStudy] = []
    fake: Any = types.ModuleType("optuna")
    fake.WARNING = 30
    fake.logging = types.SimpleNamespace(set_verbosity=lambda level: None, WARNING=30)
    fake.samplers = types.SimpleNamespace(TPESampler=lambda seed, constant_liar: seed)
    fake.trial = types.SimpleNamespace(TrialState=types.SimpleNamespace(FAIL="fail"))
    fake.create_study = lambda sampler: studies.append(FakeStudy(sampler)) or studies[-1]
    monkeypatch.setitem(sys.modules, "optuna", fake)
    one = ts.tune("matmul:96,64,80", "edge-8", budget=40, sampler="optuna", seed=4, jobs=1)
    assert outcome(one) == outcome(ts.tune("matmul:96,64,80", "edge-8", budget=40, sampler="optuna", seed=4, jobs=3))
    simulated = [row["cycles"] for row in one.rows if row["cycles"] is not None]
    told = [value for value in studies[0].told if value is not None]
    assert told and simulated[-len(told) :] == told
    assert len(simulated) - len(told) <= 2  # what the default and the heuristic take is known before
    assert one.result is not None and one.baseline is not None and one.result.cycles <= one.baseline.cycles


def test_optuna_itself() -> None:
    pytest.importorskip("optuna", reason="optuna is not installed: pip install 'tilesim[tune]'")
    one, two = (ts.tune("matmul:96,64,80", "edge-8", budget=40, sampler="optuna", seed=4, jobs=jobs) for jobs in (1, 2))
    assert outcome(one) == outcome(two)


def test_without_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ts.UserError, match=r"pip install 'tilesim\[tune\]'"):
        ts.tune("matmul:96,64,80", "edge-8", budget=4, sampler="optuna")


# --- what a study shows -------------------------------------------------------------------------------------------


def test_history() -> None:
    study = ts.tune(graph(), "edge-8", budget=16)
    rows = study.history().rows
    assert len(rows) == sum(row["cycles"] is not None for row in study.rows)
    for operation in study.operations:
        own = [row["best"] for row in rows if row["operation"] == operation["operation"]]
        assert own == sorted(own, reverse=True)
        assert own[0] == operation["default_cycles"] and own[-1] == operation["best_cycles"]


def test_plots() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'tilesim[notebook]'")
    study = ts.tune(graph(), "edge-8", budget=8)
    (lines,) = study.plot("history").axes
    assert len(lines.lines) == len(study.operations)
    assert len(study.plot().axes[0].lines) == len(study.operations)
    with pytest.raises(ts.UserError, match="model, history"):
        study.plot("pie")


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, int, str]] = []
    ts.tune(graph(), "edge-8", budget=16, progress=lambda *call: seen.append(call))
    done, totals = [call[0] for call in seen], {call[1] for call in seen}
    assert done == sorted(done) and totals == {32} and seen[-1][:2] == (32, 32)
    assert {"first", "rows"} <= {call[2] for call in seen}
    ts.tune(graph(), "edge-8", budget=4, progress=True)
    assert capsys.readouterr().err == "", "nothing where standard error is no terminal"
