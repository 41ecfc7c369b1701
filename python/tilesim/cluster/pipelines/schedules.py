"""Orders that schedules give: which pass each stage does when, for equal parts."""

from __future__ import annotations

from collections.abc import Callable

from ...base.errors import InternalError, nearest, user_error
from .order import Order, Pass

__all__ = ["PLACED", "SCHEDULES", "chunks_of", "make"]


def _gpipe(stages: int, micros: int, virtual: int) -> Order:
    row = [Pass("F", 0, one) for one in range(micros)] + [Pass("B", 0, one) for one in range(micros)]
    return [list(row) for _ in range(stages)]


def _turns(forward: list[Pass], backward: list[Pass], warm: int) -> list[Pass]:
    """Some forward passes, then one and one, then what is left."""
    row = forward[:warm]
    for one, back in enumerate(backward):
        row += forward[warm + one : warm + one + 1]
        row.append(back)
    return row


def _one_and_one(stages: int, micros: int, virtual: int) -> Order:
    forward, backward = ([Pass(kind, 0, one) for one in range(micros)] for kind in "FB")
    return [_turns(forward, backward, min(micros, stages - 1 - stage)) for stage in range(stages)]


def _interleaved(stages: int, micros: int, virtual: int) -> Order:
    """Groups of as many micro-batches as there are stages go through one chunk after the other.

    Narayanan et al., Efficient large-scale language model training on GPU clusters using Megatron-LM (2021), 2.2.
    """
    groups = range(0, micros, stages)
    chunks = range(virtual)
    forward = [Pass("F", c, one) for g in groups for c in chunks for one in range(g, min(g + stages, micros))]
    backward = [
        Pass("B", c, one) for g in groups for c in reversed(chunks) for one in range(g, min(g + stages, micros))
    ]
    order = []
    for stage in range(stages):
        warm = 2 * (stages - 1 - stage) + (virtual - 1) * stages
        order.append(_turns(forward, backward, min(warm, len(forward))))
    return order


def _zb_h1(stages: int, micros: int, virtual: int) -> Order:
    """1f1b whose weight gradients come later by as many micro-batches as there are stages before.

    Qi et al., Zero bubble pipeline parallelism (2023), schedule ZB-H1.
    """
    order = []
    for stage in range(stages):
        warm = min(stages - 1 - stage, micros)
        row = [Pass("F", 0, one) for one in range(warm)]
        for one in range(micros):
            row += [Pass("F", 0, warm + one)] if warm + one < micros else []
            row.append(Pass("I", 0, one))
            row += [Pass("W", 0, one - stage)] if one >= stage else []
        row += [Pass("W", 0, one) for one in range(max(micros - stage, 0), micros)]
        order.append(row)
    return order


class _Greedy:
    """Each stage takes the first pass of a list of wishes that it can; passes take one unit of time each.

    A weight gradient is the last wish: it fills what would be a bubble, or makes room for a micro-batch.
    """

    def __init__(self, stages: int, micros: int, wishes: tuple[tuple[str, int], ...], most: int) -> None:
        self.stages, self.micros, self.wishes, self.most = stages, micros, wishes, most
        self.chunks = 1 + max(chunk for _, chunk in wishes)
        self.done = {kind: [0] * (stages * self.chunks) for kind in "FIW"}  # passes of each part that have ended
        self.held = [0] * stages

    def part(self, stage: int, chunk: int) -> int:
        return stage if chunk == 0 else 2 * self.stages - 1 - stage

    def ready(self, kind: str, part: int) -> bool:
        number, last = self.done[kind][part], self.stages * self.chunks - 1
        if number == self.micros:
            return False
        if kind == "F":
            return part == 0 or self.done["F"][part - 1] > number
        if kind == "W":
            return self.done["I"][part] > number
        return (self.done["F"][part] if part == last else self.done["I"][part + 1]) > number

    def choose(self, stage: int) -> Pass | None:
        for kind, chunk in self.wishes:
            part = self.part(stage, chunk)
            full = self.held[stage] >= self.most - (self.chunks - 1 - chunk)  # what comes back finds a place
            if not (kind == "F" and full) and self.ready(kind, part):
                return Pass(kind, chunk, self.done[kind][part])
        return None

    def run(self) -> Order:
        order: Order = [[] for _ in range(self.stages)]
        left = 3 * self.micros * self.chunks * self.stages
        while left:
            now = [(stage, one) for stage in range(self.stages) if (one := self.choose(stage))]
            if not now:
                raise InternalError("an order without bubbles stands still")
            for stage, one in now:
                order[stage].append(one)
                self.done[one.kind][self.part(stage, one.chunk)] += 1
                self.held[stage] += {"F": 1, "W": -1}.get(one.kind, 0)
            left -= len(now)
        return order


def _zb_h2(stages: int, micros: int, virtual: int) -> Order:
    """Qi et al. (2023), ZB-H2: room for 2 stages - 1 micro-batches, and no bubble from there on."""
    return _Greedy(stages, micros, (("I", 0), ("F", 0), ("W", 0)), 2 * stages - 1).run()


def _zb_v(stages: int, micros: int, virtual: int) -> Order:
    """Two chunks as a V in the memory of 1f1b, after Qi et al., Pipeline parallelism with controllable memory (2024).

    The order is ours: the best of the wishes in any order on 2 to 8 stages of equal passes.
    """
    wishes = (("I", 0), ("F", 1), ("F", 0), ("I", 1), ("W", 0), ("W", 1))
    return _Greedy(stages, micros, wishes, 2 * stages).run()


class _BothWays:
    """One stage of DualPipe; `near` is the way whose beginning is closer to the stage."""

    def __init__(self, near: int, micros: int) -> None:
        self.row: list[Pass] = []
        self.waiting: list[Pass] = []  # weight gradients
        half = micros // 2
        self.chunks = (near, 1 - near)
        self.next = {kind: [0, half] for kind in "FI"}

    def take(self, kind: str, way: int) -> None:
        """`way` 0: the near one. A B whose weight gradient waits is written I."""
        chunk = self.chunks[way]
        table = self.next["F" if kind == "F" else "I"]
        self.row.append(Pass(kind, chunk, table[chunk]))
        if kind == "I":
            self.waiting.append(Pass("W", chunk, table[chunk]))
        table[chunk] += 1

    def weight(self) -> None:
        self.row.append(self.waiting.pop(0))


def _dualpipe(stages: int, micros: int, virtual: int) -> Order:
    """DeepSeek-AI, DeepSeek-V3 technical report (2024), 3.2.1, with the eight phases of its published code.

    A forward and a backward pass that overlap there stand one behind the other here.
    """
    order = []
    for stage in range(stages):
        out, inside = min(stage, stages - 1 - stage), stages // 2 - 1 - min(stage, stages - 1 - stage)
        one = _BothWays(int(stage >= stages // 2), micros)
        script = [("F0", 2 * inside), ("F0 F1", out + 1), ("I1 W F1", inside)]
        script += [("F0 B1 F1 B0", micros // 2 - stages + out + 1), ("B1 F1 B0", inside)]
        words = [word for text, times in script for word in text.split() * times]
        late = (out + 1) // 2  # from here on weight gradients wait
        pairs = [(("I" if turn > late or (turn == late and out % 2 == 1) else "B"),
                  ("I" if turn >= late else "B")) for turn in range(out + 1)]  # fmt: skip
        words += [word for first, second in pairs for word in (f"{first}1", f"{second}0")]
        words += ["W", "I0"] * inside
        for word in words:
            one.weight() if word == "W" else one.take(word[0], int(word[1]))
        while one.waiting:
            one.weight()
        order.append(one.row)
    return order


#: name: what makes the order, and how its chunks lie
SCHEDULES: dict[str, tuple[Callable[[int, int, int], Order], str]] = {
    "gpipe": (_gpipe, "loop"),
    "1f1b": (_one_and_one, "loop"),
    "interleaved": (_interleaved, "loop"),
    "zb-h1": (_zb_h1, "loop"),
    "zb-h2": (_zb_h2, "loop"),
    "zb-v": (_zb_v, "v"),
    "dualpipe": (_dualpipe, "both_ways"),
}
PLACED = {name: placement for name, (_, placement) in SCHEDULES.items()}


def chunks_of(schedule: str, virtual: int) -> int:
    """Chunks per stage of a named schedule.

    Args:
        schedule: its name.
        virtual: as asked for; 1: what the schedule has.

    Returns:
        Their number.

    Raises:
        UserError: for a number that it cannot have.
    """
    two = PLACED[schedule] != "loop"
    if (two and virtual not in (1, 2)) or (schedule not in ("interleaved",) and not two and virtual != 1):
        raise user_error(f"schedule {schedule} has {'two chunks' if two else 'one chunk'} per stage", place="virtual",
                         value=str(virtual), allowed="1 or 2" if two else "1",
                         suggestion="" if two else "Take schedule 'interleaved' or 'zb-v' for several")  # fmt: skip
    return 2 if two else virtual


def make(schedule: str, stages: int, microbatches: int, virtual: int) -> Order:
    """The order of a named schedule.

    Args:
        schedule: one of `SCHEDULES`.
        stages: of the pipeline.
        microbatches: of the step.
        virtual: chunks per stage, as `chunks_of` tells.

    Returns:
        Passes per stage.

    Raises:
        UserError: for an unknown name, or sizes that the schedule does not divide.
    """
    if schedule not in SCHEDULES:
        names = ", ".join(SCHEDULES)
        raise user_error("no such schedule", place="schedule", value=repr(schedule),
                         allowed=f"{names}, or an order as text: a line per stage, as 'F0 F1 B0 B1'",
                         suggestion=nearest(schedule, SCHEDULES))  # fmt: skip
    if schedule == "interleaved" and virtual > 1 and microbatches % stages:
        raise user_error("interleaved stages take whole groups of micro-batches", place="microbatches",
                         value=str(microbatches), allowed=f"multiples of stages = {stages}",
                         suggestion=_multiple(microbatches, stages))  # fmt: skip
    if schedule == "dualpipe":
        if stages % 2:
            raise user_error("dualpipe has pairs of stages", place="stages", value=str(stages), allowed="even numbers")
        if microbatches % 2 or microbatches < 2 * stages:
            raise user_error("dualpipe fills both ways", place="microbatches", value=str(microbatches),
                             allowed=f"even numbers from 2 × stages = {2 * stages} on")  # fmt: skip
    return SCHEDULES[schedule][0](stages, microbatches, virtual)


def _multiple(number: int, of: int) -> str:
    below, above = number // of * of, -(-number // of) * of
    return f"Take {below} or {above}" if below else f"Take {above}"
