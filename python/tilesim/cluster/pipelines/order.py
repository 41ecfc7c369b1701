"""Orders of pipeline passes: text form, placement, legality."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...base.arguments import one_of
from ...base.errors import listed, shown, user_error

__all__ = ["PLACEMENTS", "ChunkPass", "Order", "Placement", "check", "parse", "peak_activations", "text"]

#: letter of a pass -> its meaning
KINDS = {"F": "forward", "B": "whole backward pass", "I": "input gradient", "W": "weight gradient"}
NUMBERED = "FIWB"  # the core numbers the kinds in this order
#: how the chunks of a model are placed on stages
PLACEMENTS = {
    "loop": "chunk c of stage s is part c × stages + s of the model",
    "v": "two chunks: down the stages, then up",
    "both_ways": "two copies of the model: half of the micro-batches go down, the others go up",
}
_TOKEN = re.compile(r"([A-Za-z]+)(\d{1,9})(?:\.(\d{1,9}))?")
_LABEL = re.compile(r"\s*(?:stage\s+)?(\d+)\s*:")


class ChunkPass(NamedTuple):
    """One pass of one chunk: `kind` is F, B, I or W."""

    kind: str
    chunk: int
    micro: int


Order = list[list[ChunkPass]]


def text(row: Iterable[ChunkPass]) -> str:
    """Writes the passes of a stage as text: F3 is micro-batch 3 forward, I3.1 its input gradient in chunk 1."""
    return " ".join(f"{one.kind}{one.micro}" + (f".{one.chunk}" if one.chunk else "") for one in row)


@dataclass(frozen=True)
class Placement:
    """Predecessor and successor of each chunk of each stage; a place is (stage, chunk)."""

    kind: str
    stages: int
    chunks: int
    before: dict[tuple[int, int], tuple[int, int] | None] = field(init=False, repr=False)
    after: dict[tuple[int, int], tuple[int, int] | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Finds the predecessor and the successor of each place."""
        one_of("unknown placement", "placement", self.kind, *PLACEMENTS)
        if self.kind != "loop" and self.chunks != 2:
            raise user_error(f"placement {self.kind} has two chunks per stage", place="virtual",
                             value=str(self.chunks), allowed="2")  # fmt: skip
        down = [(stage, 0) for stage in range(self.stages)]
        up = [(stage, 1) for stage in reversed(range(self.stages))]
        ways = [[(stage, chunk) for chunk in range(self.chunks) for stage in range(self.stages)]]
        ways = {"loop": ways, "v": [down + up], "both_ways": [down, up]}[self.kind]
        before: dict[tuple[int, int], tuple[int, int] | None] = {}
        after: dict[tuple[int, int], tuple[int, int] | None] = {}
        for way in ways:
            before.update(zip(way, [None, *way[:-1]], strict=True))
            after.update(zip(way, [*way[1:], None], strict=True))
        object.__setattr__(self, "before", before)
        object.__setattr__(self, "after", after)

    def adjacent(self) -> tuple[list[int], list[int]]:
        """Returns indices (chunk × stages + stage) of each place's predecessor and successor; -1 for none."""
        places = [(stage, chunk) for chunk in range(self.chunks) for stage in range(self.stages)]

        def numbers(ways: dict[tuple[int, int], tuple[int, int] | None]) -> list[int]:
            others = [ways[place] for place in places]
            return [-1 if other is None else other[1] * self.stages + other[0] for other in others]

        return numbers(self.before), numbers(self.after)

    def position(self, stage: int, chunk: int) -> int:
        """Returns the index of the model part that a place computes."""
        if self.kind == "loop" or chunk == 0:
            return chunk * self.stages + stage
        return (2 * self.stages if self.kind == "v" else self.stages) - 1 - stage

    def micros(self, chunk: int, microbatches: int) -> range:
        """Returns the micro-batches that a chunk of a stage processes."""
        half = (microbatches + 1) // 2
        if self.kind != "both_ways":
            return range(microbatches)
        return range(half) if chunk == 0 else range(half, microbatches)


def parse(given: str | Sequence[str], stages: int) -> Order:
    """Parses the order of each stage."""
    lines = given.splitlines() if isinstance(given, str) else list(given)
    if not all(isinstance(line, str) for line in lines):
        raise user_error(
            "the order is not a string", place="schedule", value=shown(given), allowed="one line of text per stage"
        )
    lines = [line for line in (line.partition("#")[0].strip() for line in lines) if line]
    if len(lines) != stages:
        raise user_error("the order needs one line per stage", place="schedule", value=f"{len(lines)} lines",
                         allowed=f"{stages} lines")  # fmt: skip
    order: Order = []
    for stage, line in enumerate(lines):
        label = _LABEL.match(line)
        if label and int(label[1]) != stage:
            raise user_error(
                "the lines are not in the order of the stages", place=f"schedule, line {stage}", value=label[0]
            )
        order.append([_parsed_pass(word, stage) for word in line[label.end() if label else 0 :].split()])
    return order


def _parsed_pass(word: str, stage: int) -> ChunkPass:
    found = _TOKEN.fullmatch(word)
    if not found or found[1] not in KINDS:
        near = "".join((found[1].upper(), word[len(found[1]) :])) if found and found[1].upper() in KINDS else ""
        kinds = ", ".join(f"{letter} ({name})" for letter, name in KINDS.items())
        raise user_error("unknown pass", place=f"schedule, stage {stage}", value=shown(word),
                         allowed=f"{kinds}, then the number of a micro-batch, then .chunk; for example F3 or I3.1",
                         suggestion=near)  # fmt: skip
    return ChunkPass(found[1], int(found[3] or 0), int(found[2]))


def check(order: Order, placement: Placement, microbatches: int) -> None:
    """Checks that each stage runs each pass once, and after its dependencies on the same stage."""
    for stage, row in enumerate(order):
        _check_stage(row, f"schedule, stage {stage}", placement, microbatches)


def _check_stage(row: list[ChunkPass], place: str, placement: Placement, microbatches: int) -> None:
    wanted = {(chunk, micro) for chunk in range(placement.chunks) for micro in placement.micros(chunk, microbatches)}
    done: set[ChunkPass] = set()
    for one in row:
        kind, chunk, micro = one
        name = text([one])
        if (chunk, micro) not in wanted:
            allowed = f"{microbatches} micro-batches in {placement.chunks} chunks, both numbered from 0"
            raise user_error("the stage does not have this pass", place=place, value=name, allowed=allowed)
        clash = {"B": "IW", "I": "B", "W": "B"}.get(kind, "") + kind
        if twice := [other for other in clash if ChunkPass(other, chunk, micro) in done]:
            what = "the pass occurs twice" if twice[0] == kind else f"the pass is already part of {twice[0]}"
            raise user_error(what, place=place, value=name)
        need = {"B": "F", "I": "F", "W": "I"}.get(kind)
        if need and ChunkPass(need, chunk, micro) not in done:
            first = text([ChunkPass(need, chunk, micro)])
            raise user_error(f"the pass comes before {first}, which it needs", place=place, value=name)
        done.add(one)
    missing = [
        ChunkPass(kind, *at)
        for at in sorted(wanted)
        for kind in ("F", "B")
        if ChunkPass(kind, *at) not in done and not (kind == "B" and ChunkPass("W", *at) in done)
    ]
    if missing:
        names = listed(text([one]) for one in missing)
        raise user_error("missing passes", place=place, value=names, allowed="I and W instead of B")


def peak_activations(row: Iterable[ChunkPass]) -> int:
    """Returns the most chunks whose activations a stage stores (from forward pass to end of weight gradient)."""
    now = most = 0
    for one in row:
        now += {"F": 1, "B": -1, "W": -1}.get(one.kind, 0)
        most = max(most, now)
    return most
