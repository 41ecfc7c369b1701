"""Passes of micro-batches on stages, as trace events."""

from __future__ import annotations

from typing import Any

__all__ = ["events", "passes"]

MOST = 200_000  # events of a file


def _order(stage: int, stages: int, count: int, gpipe: bool) -> list[tuple[str, int]]:
    """Passes of one stage: all forward first, or one forward and one backward in turn after a warm-up."""
    if gpipe:
        return [("F", one) for one in range(count)] + [("B", one) for one in range(count)]
    warm = min(count, stages - stage)
    order = [("F", one) for one in range(warm)]
    for one in range(count):
        order.append(("B", one))
        if warm + one < count:
            order.append(("F", warm + one))
    return order


def passes(stages: int, count: int, forward: float, backward: float, gpipe: bool) -> list[tuple[int, str, int, float]]:
    """When each pass of equal stages starts.

    Args:
        stages: of the pipeline.
        count: micro-batches.
        forward: seconds of a stage's forward pass.
        backward: of its backward pass.
        gpipe: all forward passes first; else 1f1b.

    Returns:
        Stage, "F" or "B", micro-batch, seconds of the start, in no order of time.
    """
    orders = [_order(stage, stages, count, gpipe) for stage in range(stages)]
    done: dict[tuple[int, str, int], float] = {}
    free, at = [0.0] * stages, [0] * stages
    found = []
    waiting = list(range(stages))
    while waiting:
        left = []
        for stage in waiting:
            while at[stage] < len(orders[stage]):
                kind, one = orders[stage][at[stage]]
                before = (stage - 1, "F", one) if kind == "F" else (stage + 1, "B", one)
                first = (kind == "F" and stage == 0) or (kind == "B" and stage == stages - 1)
                if not first and before not in done:
                    break
                start = max(free[stage], 0.0 if first else done[before])
                free[stage] = done[stage, kind, one] = start + (forward if kind == "F" else backward)
                found.append((stage, kind, one, start))
                at[stage] += 1
            if at[stage] < len(orders[stage]):
                left.append(stage)
        waiting = left
    return found


def _forward_events(stages: int, count: int, forward: float) -> list[dict[str, Any]]:
    """Micro-batches that go through stages without coming back, as many as a file holds."""
    return [
        {"ph": "X", "pid": stage, "tid": 0, "name": f"forward {one}", "ts": (stage + one) * forward * 1e6,
         "dur": forward * 1e6}
        for one in range(min(count, MOST // stages))
        for stage in range(stages)
    ]  # fmt: skip


def _ordered_events(result: Any) -> list[dict[str, Any]]:
    """Passes as their schedule orders them, then what the step ends with."""
    pipe, rows, last = result.pipe, [], 0.0
    kinds = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}
    for stage, order in enumerate(pipe.passes):
        for one, start, end in zip(order, pipe.times.starts[stage], pipe.times.ends[stage], strict=True):
            name = f"{kinds[one.kind]} {one.micro}"
            rows.append(
                {"ph": "X", "pid": stage, "tid": 0, "name": name, "ts": start / 1e6, "dur": (end - start) / 1e6}
            )
            last = max(last, end / 1e6)
    rows = rows[:MOST]
    update = result.parts["optimizer"] * 1e6
    return rows + [
        {"ph": "X", "pid": stage, "tid": 0, "name": "optimizer", "ts": last, "dur": update}
        for stage in range(pipe.stages)
    ]


def events(result: Any) -> list[dict[str, Any]]:
    """Trace events of a result, times in microseconds.

    Args:
        result: a StepResult.

    Returns:
        One process per stage; stages are taken as equal, with passes as long as the slowest one's.
    """
    plan = result.plan
    count = result.workload.global_batch // (plan.data * plan.micro_batch)
    rows: list[dict[str, Any]] = [
        {"ph": "M", "pid": stage, "name": "process_name", "args": {"name": f"stage {stage}"}}
        for stage in range(plan.pipeline)
    ]
    forward, backward = result.stage["forward"], result.stage["backward"]
    if result.workload.phase != "train":
        return rows + _forward_events(plan.pipeline, count, forward)
    if result.pipe is not None:
        return rows + _ordered_events(result)
    if plan.virtual == 1 and 2 * count * plan.pipeline <= MOST:
        last = 0.0
        for stage, kind, one, start in passes(plan.pipeline, count, forward, backward, plan.schedule == "gpipe"):
            length = forward if kind == "F" else backward
            name = f"{'forward' if kind == 'F' else 'backward'} {one}"
            rows.append({"ph": "X", "pid": stage, "tid": 0, "name": name, "ts": start * 1e6, "dur": length * 1e6})
            last = max(last, start + length)
        rest = [("gradients", result.seconds - last - result.parts["optimizer"])]
        rest += [("optimizer", result.parts["optimizer"])]
        at = last
        for name, length in rest:
            for stage in range(plan.pipeline):
                rows.append(
                    {"ph": "X", "pid": stage, "tid": 0, "name": name, "ts": at * 1e6, "dur": max(0.0, length) * 1e6}
                )
            at += max(0.0, length)
        return rows
    at = 0.0  # interleaved, or too many passes: the parts of the critical stage one after the other
    for name, value in result.parts.items():
        for stage in range(plan.pipeline):
            rows.append({"ph": "X", "pid": stage, "tid": 0, "name": name, "ts": at * 1e6, "dur": value * 1e6})
        at += value
    return rows
