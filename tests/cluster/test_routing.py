"""Tokens that spread unevenly over experts: the device with the most decides."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.cluster.columns import columns
from tilesim.cluster.experts.routing import spread
from tilesim.models.layered import Layered

EVEN = ts.workloads.transformer_step(8, 1024, 16, 32000, 1024, 64, experts=(8, 2))
PLAN = ts.Plan(data=8, expert=4)


def routed(routing: Any, work: Layered = EVEN) -> Layered:
    return dataclasses.replace(work, routing=routing)


def run(routing: Any, plan: ts.Plan = PLAN, **more: Any) -> Any:
    return ts.cluster.step(routed(routing), "dgx-a100:8", plan, framework="unfitted", **more)


def test_the_fullest_device_by_hand() -> None:
    assert spread([1, 1, 1, 1], 2) == 1
    assert spread([3, 1, 1, 1], 2) == pytest.approx(4 / 3)
    assert spread([4, 0, 0, 0], 4) == 4
    assert spread([4, 0, 0, 0], 1) == 1
    assert spread([5, 1, 1, 5], 2) == 1  # uneven experts, even devices


def test_balanced_counts_are_as_none() -> None:
    assert run([7] * 8).seconds == run(None).seconds
    assert run([9, 1, 9, 1, 9, 1, 9, 1]).seconds == run(None).seconds  # two experts a device
    lone = PLAN.replace(expert=1)
    assert run([8, 0, 0, 0, 0, 0, 0, 0], lone).seconds == run(None, lone).seconds  # all experts on each device


def test_imbalance_moves_what_experts_do_and_no_more() -> None:
    """Twice the mean on one device: its products, passes and messages double; attention and gradients do not."""
    even, uneven = run(None), run([2, 2, 1, 1, 1, 1, 0, 0])
    c = columns([(routed([2, 2, 1, 1, 1, 1, 0, 0]), PLAN)])
    assert c.imbalance[0] == 2
    k = ts.cluster.step(EVEN, "dgx-a100:8", PLAN, framework="unfitted").parts["expert"]
    assert k < uneven.parts["expert"] < 2 * k  # bytes double, latency and the call do not
    assert uneven.parts["compute"] > even.parts["compute"]
    for name in ("data", "optimizer", "tensor"):
        assert uneven.parts[name] == even.parts[name]
    worse = [run([n, n, 1, 1, 1, 1, 1, 1]).seconds for n in (1, 2, 4, 8)]
    assert worse == sorted(worse) and worse[0] < worse[-1]


def test_seeds_are_choices_at_random() -> None:
    one = columns([(routed(seed), PLAN) for seed in range(200)])
    assert np.all(one.imbalance >= 1)
    again = columns([(routed(7), PLAN)])
    assert again.imbalance[0] == one.imbalance[7]
    # 4 devices of 8192 choices together each mean 2048: the largest of four normals is about one deviation above
    deviation = np.sqrt(4 * 1024 * 2 * 0.25 * 0.75) / 2048
    assert 0.7 * deviation <= np.mean(one.imbalance - 1) <= 1.4 * deviation
    few = dataclasses.replace(EVEN, sequence=16)
    assert columns([(routed(3, few), PLAN)]).imbalance[0] > 1 + 2 * deviation


def test_searches_count_it() -> None:
    heavy = routed([50, 1, 1, 1, 1, 1, 1, 1])
    study = ts.cluster.search(heavy, "dgx-a100:8", framework="unfitted")
    best = study.best
    assert best.seconds == pytest.approx(study.seconds[0], rel=1e-12)
    direct = run([50, 1, 1, 1, 1, 1, 1, 1], ts.Plan(data=8, expert=8), check_memory=False)
    assert best.seconds <= direct.seconds


def test_forms(tmp_path: Path) -> None:
    for routing in (None, 5, (1, 2, 3, 4, 5, 6, 7, 8)):
        work = routed(routing)
        work.save(tmp_path / "w.json")
        assert Layered.load(tmp_path / "w.json") == work
    given = ts.workloads.transformer_step(2, 64, 4, 100, 32, 8, experts=(2, 1), routing=[1, 3])
    assert given.routing == (1, 3)


@pytest.mark.parametrize("routing", [[1, 2], "even", -1, [0] * 8, [1.5] * 8, [-1, *[1] * 7]])
def test_routing_that_is_none(routing: Any) -> None:
    with pytest.raises(ts.UserError, match="routing"):
        routed(routing)
    with pytest.raises(ts.UserError, match="with experts"):
        ts.workloads.transformer_step(2, 64, 4, 100, 32, 8, routing=3)
