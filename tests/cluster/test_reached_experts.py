"""Experts that few tokens reach: counted one by one, and what a step of few tokens reads."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest

import tilesim as ts
from tilesim.cluster.columns import columns
from tilesim.cluster.terms import reached_experts


def work(experts: tuple[int, int], batch: int, phase: str = "decode", **more: Any) -> Any:
    return ts.workloads.transformer_step(
        16, 4096, 32, 32000, 1024, batch, 14336, True, 8, phase=phase, experts=experts, **more
    )


def run(experts: tuple[int, int], batch: int, **plan: Any) -> Any:
    plan = {"micro_batch": batch // plan.get("data", 1), **plan}
    cluster = f"dgx-h100:{math.prod(plan.get(name, 1) for name in ('data', 'tensor', 'context', 'pipeline'))}"
    return ts.cluster.step(work(experts, batch), cluster, ts.Plan(**plan), check_memory=False)


@pytest.mark.parametrize(("experts", "chosen", "tokens"), [(4, 1, 3), (4, 2, 1), (4, 2, 3), (5, 3, 2), (6, 6, 2)])
def test_by_all_choices(experts: int, chosen: int, tokens: int) -> None:
    """Every way in which tokens may choose, as often as another."""
    one = list(itertools.combinations(range(experts), chosen))
    ways = [len(set().union(*choice)) for choice in itertools.product(one, repeat=tokens)]
    mean = Fraction(sum(ways), len(ways))
    c = columns([(work((experts, chosen), tokens), ts.Plan(micro_batch=tokens))])
    assert reached_experts(c)[0] == pytest.approx(float(mean), rel=1e-12)


def test_on_an_axis() -> None:
    """Tokens of all its devices come together; a device has its part, and the slowest at least one."""
    many, few = work((64, 2), 32), work((64, 2), 4)
    found = reached_experts(
        columns([(many, ts.Plan(data=4, expert=4, micro_batch=8)), (few, ts.Plan(data=4, expert=4))])
    )
    assert found[0] == pytest.approx(64 / 4 * (1 - (62 / 64) ** 32), rel=1e-12)
    assert found[1] == pytest.approx(64 / 4 * (1 - (62 / 64) ** 4), rel=1e-12)
    alone = columns([(work((64, 1), 4), ts.Plan(data=4, expert=4)), (work((64, 1), 64), ts.Plan(data=64, expert=64))])
    assert reached_experts(alone)[1] == 1.0


@pytest.mark.parametrize("chosen", [1, 2, 4])
def test_one_token_reads_the_experts_that_it_chooses(chosen: int) -> None:
    """As a model that has no others, whose products are the same."""
    some, all_ = run((16, chosen), 1), run((chosen, chosen), 1)
    assert some.seconds == pytest.approx(all_.seconds, rel=1e-12)


def test_more_tokens_read_more_until_all_are_read() -> None:
    one = 3 * 4096 * 14336 * 2 / 3.35e12 * 16  # seconds of an expert's bytes in every layer
    times = [run((16, 2), batch).seconds for batch in (1, 2, 4, 8, 16, 32, 64)]
    assert times == sorted(times)
    for batch, seconds in zip((1, 2, 4, 8, 16, 32, 64), times, strict=True):
        assert seconds >= 16 * (1 - (14 / 16) ** batch) * one
    assert times[0] < 4 * one < 15 * one < times[-1]


def test_steps_of_many_tokens_reach_all() -> None:
    c = columns([(work((8, 2), 8, "train"), ts.Plan(data=8, expert=expert)) for expert in (1, 8)])
    assert reached_experts(c).tolist() == [8.0, 1.0]
    dense = ts.workloads.transformer_step(4, 256, 4, 100, 16, 1, phase="decode")
    assert reached_experts(columns([(dense, ts.Plan())]))[0] == 1.0
