"""Attention that is divided by heads over the context axis: four exchanges of a layer, all tokens of some heads."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.cluster.columns import columns
from tilesim.cluster.fabric import fabric_of
from tilesim.cluster.frameworks import Framework
from tilesim.cluster.memory import training_bytes
from tilesim.cluster.stepping import pricer
from tilesim.cluster.terms import layer_attention
from tilesim.cluster.terms import work as computed
from tilesim.cluster.training.passes import layer_passes

LAYERS, HIDDEN, HEADS, KEY_HEADS, SEQUENCE, BATCH = 4, 4096, 32, 8, 32768, 8
DEPTH = HIDDEN // HEADS
FABRIC = fabric_of("dgx-h100:8")
SHAPES = [(1, 2), (1, 8), (2, 4), (4, 2), (8, 1)]  # tensor, context


def work(attention: str = "flash", **changes: Any) -> Any:
    made = ts.workloads.transformer_step(
        LAYERS, HIDDEN, HEADS, 32000, SEQUENCE, BATCH, kv_heads=KEY_HEADS, attention=attention
    )
    return dataclasses.replace(made, **changes)


def plan(tensor: int, context: int, **more: Any) -> ts.Plan:
    return ts.Plan(tensor=tensor, context=context, data=8 // tensor // context, context_kind="all_to_all", **more)


def constants(**changes: float) -> dict[str, float]:
    return {**Framework.load("unfitted").constants, **changes}


class Recorder:
    """Stands where prices do, and keeps what was asked for; nothing takes time."""

    def __init__(self) -> None:
        self.device, self.asked = FABRIC.device, []

    def product(self, *extents: Any) -> Any:
        self.asked.append(tuple(float(np.ravel(one)[0]) for one in extents))
        return np.zeros(1)

    flash = product


@pytest.mark.parametrize(("tensor", "context"), SHAPES)
def test_a_device_attends_to_all_tokens_of_some_heads(tensor: int, context: int) -> None:
    price = Recorder()
    layer_attention(columns([(work(), plan(tensor, context))]), price, constants())
    assert price.asked == [(1, SEQUENCE, SEQUENCE, HEADS / (tensor * context), KEY_HEADS / (tensor * context), DEPTH)]
    price = Recorder()
    layer_attention(columns([(work("unfused"), plan(tensor, context))]), price, constants())
    count = HEADS / (tensor * context)
    # scores, their product with values, and the gradients of queries' and keys' products
    assert price.asked[1:] == [
        (SEQUENCE, SEQUENCE, DEPTH, count),
        (SEQUENCE, DEPTH, SEQUENCE, count),
        (SEQUENCE, DEPTH, SEQUENCE, count),
    ]


@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize(("tensor", "context"), SHAPES)
def test_four_exchanges_forward_and_four_back(tensor: int, context: int, recompute: str) -> None:
    """Of n devices each keeps 1/n of its queries, keys, values and outputs, and sends the rest over its port."""
    k = constants(call=0.0, link_step=0.0, link_share=1.0, interference=1.0)
    c = columns([(work(), plan(tensor, context, recompute=recompute))])
    forward, backward = layer_passes(c, computed(c, pricer(FABRIC.device, "bf16"), k), FABRIC, k)
    tokens = SEQUENCE / context
    wide, narrow = (tokens * heads / tensor * DEPTH * 2 for heads in (HEADS, KEY_HEADS))
    one = [(context - 1) / context * size / FABRIC.link + (context - 1) * FABRIC.latency for size in (wide, narrow)]
    exchange = 2 * sum(one) if context > 1 else 0.0
    assert forward.context[0] == pytest.approx(exchange, rel=1e-9, abs=1e-15)
    times = 2 if recompute == "full" else 1
    assert backward.context[0] == pytest.approx(times * exchange, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("context", [2, 4, 8])
def test_bytes_that_pass(context: int) -> None:
    """Without shared keys, 4 n⁻¹ of tokens times width leave for all (2309.14509, section 3.2), of which each device
    keeps its own part."""
    result = ts.cluster.step(work(kv_heads=HEADS), "dgx-h100:8", plan(8 // context, context), check_memory=False)
    rows = [row for row in result.communication if row["axis"] == "context"]
    assert {row["operation"] for row in rows} == {"all_to_all"} and {row["devices"] for row in rows} == {context}
    sent = sum(row["wire_bytes"] for row in rows if row["when"] == "forward")
    each = 4 * SEQUENCE / context * HIDDEN / (8 // context) * 2
    assert sent == pytest.approx(LAYERS * BATCH * each * (context - 1) / context, rel=1e-9)
    assert sum(row["calls"] for row in rows if row["when"] == "forward") == 4 * LAYERS * BATCH
    exposed = sum(row["exposed_seconds"] for row in rows)
    assert exposed == pytest.approx(result.parts["context"]) == pytest.approx(sum(row["seconds"] for row in rows))
    assert sum(row["seconds"] for row in result.breakdown) == pytest.approx(result.seconds)
    ring = ts.cluster.step(work(kv_heads=HEADS), "dgx-h100:8", result.plan.replace(context_kind="ring"),
                           check_memory=False)  # fmt: skip
    assert {row["operation"] for row in ring.communication if row["axis"] == "context"} == {"permute"}


@pytest.mark.parametrize(("tensor", "context"), SHAPES[:-1])
def test_flows_take_as_long_as_the_bytes(tensor: int, context: int) -> None:
    """On a switch each port sends what it sends alone: no flow is slower than the bytes over a share of the port."""
    results = [
        ts.cluster.step(work(), "dgx-h100:8", plan(tensor, context), network_model=network, check_memory=False)
        for network in ("closed", "flows")
    ]
    for result in results:
        wire = sum(row["wire_bytes"] for row in result.communication if row["axis"] == "context")
        assert result.parts["context"] >= wire / FABRIC.link
    closed, flows = (result.parts["context"] for result in results)
    assert flows == pytest.approx(closed, rel=0.15)


def test_what_is_kept_for_gradients() -> None:
    """A fused attention keeps its output in both divisions; stored scores need it in one."""
    for attention, more in (("flash", 1.0), ("unfused", 0.0)):
        for tensor, context in SHAPES:
            held = [
                float(training_bytes(columns([(work(attention), one)]), constants(dropout=0.0), 0.0).activations[0])
                for one in (plan(tensor, context), plan(tensor, context).replace(context_kind="ring"))
            ]
            output = LAYERS * SEQUENCE / context * HIDDEN / tensor * 2
            assert held[0] - held[1] == pytest.approx(more * output * (context > 1), rel=1e-9, abs=1.0)


@pytest.mark.parametrize(
    ("changes", "given", "words"),
    [
        ({}, ts.Plan(tensor=2, context=8, context_kind="all_to_all"), "key heads is not divisible"),
        ({"kv_heads": 32}, ts.Plan(tensor=8, context=8, context_kind="all_to_all"), "number of heads is not divisible"),
        ({"phase": "decode"}, ts.Plan(context=4, context_kind="all_to_all"), "by tokens"),
    ],
)
def test_what_is_not_divided(changes: dict[str, Any], given: ts.Plan, words: str) -> None:
    made = work(**changes)
    assert any(words in reason[0] for reason in given.reasons(made))
    if made.phase != "decode":
        assert not given.replace(context_kind="ring").reasons(made)
    with pytest.raises(ts.UserError, match="unknown kind of context axis"):
        ts.Plan(context=2, context_kind="ulysses")


def test_prefill_and_its_cache() -> None:
    chat = work(phase="prefill")
    ring, heads = (
        ts.cluster.step(chat, "dgx-h100:8", ts.Plan(context=8, context_kind=kind, micro_batch=1))
        for kind in ("ring", "all_to_all")
    )
    assert heads.memory["cache"] == ring.memory["cache"] and heads.memory["working"] >= ring.memory["working"]
    rows = [row for row in heads.communication if row["axis"] == "context"]
    assert sum(row["calls"] for row in rows) == 4 * LAYERS * BATCH


def test_search_and_advice_know_it(tmp_path: Any) -> None:
    """Where keys are as many as queries and tokens few, a ring passes more than attention hides."""
    short = work(sequence=4096, kv_heads=HEADS, global_batch=1)
    study = ts.cluster.search(short, "dgx-h100:8", confirm=0)
    kinds = {one.context_kind for one in study.plans}
    assert kinds == {"ring", "all_to_all"}
    for one in study.plans:
        if one.by_heads:
            assert HEADS % (one.tensor * one.context) == 0
    ring = ts.cluster.step(short, "dgx-h100:8", ts.Plan(context=8, shard="zero1"), check_memory=False)
    (row,) = (row for row in ring.advice() if row["change"] == "context_kind=all_to_all")
    other = ts.cluster.step(short, "dgx-h100:8", ring.plan.replace(context_kind="all_to_all"), check_memory=False)
    assert row["seconds"] == other.seconds < ring.seconds
    assert math.isclose(row["gain"], 1 - other.seconds / ring.seconds)
    assert "context_kind=all_to_all" in other.explain() and "all-to-all of heads" in other.explain()
    other.timeline(tmp_path / "t.json")
    assert '"heads 0"' in (tmp_path / "t.json").read_text()
