"""Plans: what they divide, what is said where they do not, their JSON and text forms."""

from __future__ import annotations

import dataclasses
import json
import random
from functools import partial
from pathlib import Path

import pytest

import tilesim as ts
from tilesim.models.layered import Layered

SMALL = ts.workloads.transformer_step(8, 512, 8, 1000, 256, 32, dtype="f16", attention="unfused")


def test_devices_multiply() -> None:
    assert ts.Plan(tensor=2, pipeline=4, data=8, context=2).devices == 128
    assert ts.Plan(data=4, expert=4).devices == 4  # experts lie on the data axis


def test_forms_give_the_plan_back(tmp_path: Path) -> None:
    plan = ts.Plan(tensor=8, pipeline=16, data=2, virtual=4, shard="zero1", recompute="selective", sequence=True)
    assert plan.schedule == "interleaved"
    assert ts.Plan.load(plan.text()) == plan
    plan.save(tmp_path / "plan.json")
    assert ts.Plan.load(tmp_path / "plan.json") == plan
    assert ts.Plan.load(str(tmp_path / "plan.json")) == plan
    assert json.loads((tmp_path / "plan.json").read_text())["schema"] == "tilesim.plan"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"tensor": 0}, "tensor"),
        ({"tensor": 2.5}, "tensor"),
        ({"sequence": 2}, "sequence"),
        ({"shard": "zero4"}, "zero3"),
        ({"recompute": "ful"}, "full"),
        ({"schedule": "1f1"}, "1f1b"),
        ({"virtual": 2}, "pipeline"),
        ({"virtual": 2, "pipeline": 2, "schedule": "gpipe"}, "interleaved"),
    ],
)
def test_values_that_are_none(values: dict[str, object], told: str) -> None:
    with pytest.raises(ts.UserError, match=told):
        ts.Plan(**values)  # type: ignore[arg-type]


def test_text_that_is_none() -> None:
    with pytest.raises(ts.UserError, match="Did you mean 'pipeline'"):
        ts.Plan.load("pipelin=2")
    with pytest.raises(ts.UserError, match="name=value"):
        ts.Plan.load("tensor")
    with pytest.raises(ts.UserError, match="tensor"):
        ts.Plan.load("tensor=many")


@pytest.mark.parametrize(
    ("plan", "place", "told"),
    [
        (ts.Plan(tensor=3), "tensor", "heads is not divisible"),
        (ts.Plan(data=5), "data", "global batch is not divisible"),
        (ts.Plan(data=4, micro_batch=3), "micro_batch", "allowed: divisors of 8: 1, 2, 4, 8"),
        (ts.Plan(context=3), "context", "sequence is not divisible"),
        (ts.Plan(tensor=8, context=64, sequence=True), "tensor × context", "sequence is not divisible"),
        (ts.Plan(pipeline=9), "pipeline", "more stages than layers"),
        (ts.Plan(pipeline=2, virtual=3), "virtual", "layers is not divisible"),
        (ts.Plan(data=2, expert=2), "expert", "has no experts"),
    ],
)
def test_what_does_not_divide(plan: ts.Plan, place: str, told: str) -> None:
    with pytest.raises(ts.UserError, match=told) as caught:
        plan.check(SMALL)
    assert caught.value.place == place


def test_experts_divide() -> None:
    mixture = ts.workloads.transformer_step(8, 512, 8, 1000, 256, 32, experts=(8, 2))
    ts.Plan(data=4, expert=4).check(mixture)
    with pytest.raises(ts.UserError, match="experts is not divisible"):
        ts.Plan(data=3 * 4, expert=3).check(dataclasses.replace(mixture, global_batch=36))
    with pytest.raises(ts.UserError, match="data axis is not divisible"):
        ts.Plan(data=2, expert=4).check(mixture)


def test_devices_differ() -> None:
    with pytest.raises(ts.UserError, match=r"tensor 2 × pipeline 1 × data 4 × context 1 = 8; allowed: 16"):
        ts.Plan(tensor=2, data=4).check(SMALL, 16)


def test_workload_counts_parameters_and_flops_by_hand() -> None:
    plain = ts.workloads.transformer_step(2, 64, 4, 100, 32, 6)
    layer = 12 * 64 * 64 + (3 * 64 + 256 + 6 * 64)  # four projections and two products of 4 h; biases, two norms
    assert plain.layer_parameters == layer
    assert plain.parameters == 2 * layer + 100 * 64
    tokens = 6 * 32
    forward = 2 * tokens * (2 * (12 * 64 * 64 + 2 * 16 * 64) + 100 * 64)
    assert plain.flops == 3 * forward
    gated = ts.workloads.transformer_step(2, 64, 4, 100, 32, 6, ffn=96, gated=True, kv_heads=2)
    assert gated.layer_parameters == 64 * 128 + 64 * 64 + 3 * 64 * 96 + 128 + 96 + 6 * 64


def test_workload_forms(tmp_path: Path) -> None:
    SMALL.save(tmp_path / "w.json")
    assert Layered.load(tmp_path / "w.json") == SMALL
    value = SMALL.to_dict()
    with pytest.raises(ts.UserError, match="Did you mean 'hidden'"):
        Layered.from_dict({**value, "hiden": 4})
    with pytest.raises(ts.UserError, match="'vocab'"):
        Layered.from_dict({key: one for key, one in value.items() if key != "vocab"})
    with pytest.raises(ts.UserError, match="version"):
        Layered.from_dict({**value, "version": 9})
    with pytest.raises(ts.UserError, match="schema"):
        Layered.from_dict([1])


@pytest.mark.parametrize(
    ("values", "place"),
    [({"layers": 0}, "layers"), ({"kv_heads": 3}, "kv_heads"), ({"dtype": "f17"}, "dtype"), ({"phase": "x"}, "phase")],
)
def test_workloads_that_are_none(values: dict[str, object], place: str) -> None:
    sizes: dict[str, object] = dict(layers=8, hidden=512, heads=8, vocab=1000, sequence=256, global_batch=32)
    with pytest.raises(ts.UserError, match=place):
        ts.workloads.transformer_step(**{**sizes, **values})  # type: ignore[arg-type]


def test_widths_that_heads_do_not_divide(tmp_path: Path) -> None:
    """Nobody says how wide a head is: a rounded size would be another model, of other bytes and FLOPs."""
    rng = random.Random(7)
    for _ in range(20):
        heads = rng.randrange(1, 9)
        hidden = heads * rng.randrange(1, 9) + rng.randrange(heads)
        sizes = dict(layers=2, hidden=hidden, heads=heads, vocab=100, sequence=16, global_batch=8)
        file = tmp_path / "work.json"
        file.write_text(json.dumps({"schema": "tilesim.workload", "version": 1, **sizes}))
        makers = (partial(ts.workloads.transformer_step, **sizes), partial(Layered.load, file))
        for make in makers:
            if hidden % heads == 0:
                assert make().head_size * heads == hidden
                continue
            with pytest.raises(ts.UserError, match=f"hidden: the width .*{hidden}, {heads} heads.*head_size"):
                make()
        given = ts.workloads.transformer_step(**sizes, head_size=21)
        assert given.head_size == 21
        given.save(file)
        assert Layered.load(file) == given
    with pytest.raises(ts.UserError, match=r"work\.json"):
        file.write_text(json.dumps({"schema": "tilesim.workload", "version": 1, **sizes, "hidden": 0}))
        Layered.load(file)


def test_plans_that_say_something_twice() -> None:
    for text, place in (
        ("tensor=8,tensor=4", "tensor"),
        ("data=2,tensor=2,data=2", "data"),
        ("shard=zero1, shard=none", "shard"),
    ):
        with pytest.raises(ts.UserError, match=f"{place}: the plan has a name twice.*{text}.*each name once"):
            ts.Plan.load(text)
    assert ts.Plan.load("tensor=8,,data=4,") == ts.Plan(tensor=8, data=4)


def test_experts_that_are_none() -> None:
    for experts in ((2, 3), (4,), (4, 0)):
        with pytest.raises(ts.UserError, match="experts"):
            ts.workloads.transformer_step(8, 512, 8, 1000, 256, 32, experts=experts)


@pytest.mark.parametrize("phase", ["train", "prefill", "decode"])
def test_no_sequence_is_quicker_than_its_layers(phase: str) -> None:
    """Each micro-batch passes all layers one after the other, however they are dealt to stages."""
    for batch in (1, 3, 8):
        work = ts.workloads.transformer_step(32, 1024, 8, 32000, 512, batch, phase=phase)
        alone = dataclasses.replace(work, global_batch=1)
        least = ts.cluster.step(alone, "dgx-h100:1", ts.Plan(), framework="unfitted").parts["compute"]
        for virtual in (1, 2, 4):
            plan = ts.Plan(pipeline=8, virtual=virtual, schedule="interleaved" if virtual > 1 else "1f1b")
            if virtual > 1 and batch % 8:
                with pytest.raises(ts.UserError, match="whole groups of micro-batches"):
                    ts.cluster.step(work, "dgx-h100:8", plan)
                continue
            assert ts.cluster.step(work, "dgx-h100:8", plan, framework="unfitted").seconds >= 0.99 * least
        study = ts.cluster.search(work, "dgx-h100:8", framework="unfitted", confirm=0)
        for found in study.plans:
            assert found.virtual == 1 or (batch // found.data // found.micro_batch) % found.pipeline == 0
