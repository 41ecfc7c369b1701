"""Who doubles a width of a core makes no loop of dependent vector instructions slower."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import tilesim as ts
from tilesim import _core

TWO = ["vfadd.vv", "vfmul.vv", "vadd.vv", "vmul.vv", "vfmax.vv", "vsll.vv", "vfmacc.vv", "vfsgnj.vv"]
LOOPS = 40  # of each width and core; 2,000 were tried


class Loop:
    """Load, two to four instructions that depend on each other, store; now and then two loads or stores."""

    def __init__(self, chance: random.Random) -> None:
        self.lmul, self.avl = chance.choice((0, 1, 2, 3)), chance.choice((2**40, 2**40, 1, 3, 7, 19))
        self.chance = chance
        group = 1 << self.lmul
        self.registers = [f"v{i}" for i in range(8 if group == 8 else group, 32, group)]
        self.live = [chance.choice(self.registers)]
        self.lines = [f"vle32.v {self.live[0]}, (a0)"]
        if chance.random() < 0.4:
            self.live.append(chance.choice(self.registers))
            self.lines.append(f"vle32.v {self.live[-1]}, (a1)")
        for _ in range(chance.randint(2, 4)):
            self.operate()
        self.lines.append(f"vse32.v {self.live[-1]}, (a2)")
        if chance.random() < 0.3:
            self.lines.append(f"vse32.v {chance.choice(self.live)}, (a3)")
        self.lines += ["addi a0, a0, 64", "addi a2, a2, 64"]
        if chance.random() < 0.5:
            self.lines.insert(0, f"vsetvli t0, a4, e32, m{group}, ta, ma")
        self.text = "\n".join(self.lines)

    def operate(self) -> None:
        """One that reads what is there."""
        chance, last = self.chance, self.live[-1]
        kind, other = chance.random(), chance.choice(self.registers)
        to = chance.choice([name for name in self.registers if name != last] or self.registers)
        if kind < 0.85 or self.lmul == 3:
            to = chance.choice(self.registers)
            self.lines.append(f"{chance.choice(TWO)} {to}, {chance.choice(self.live[-2:])}, {other}")
        elif kind < 0.89:
            self.lines.append(f"vfsqrt.v {to}, {last}")
        elif kind < 0.93:
            self.lines.append(f"{chance.choice(['vfredusum.vs', 'vredsum.vs'])} {to}, {last}, {other}")
        elif kind < 0.96:
            self.lines += [f"vmseq.vv v0, {last}, {other}", f"vadd.vv {to}, {last}, {other}, v0.t"]
        else:
            self.lines.append(f"vslidedown.vi {to}, {last}, 3")
        self.live.append(to)


def loops(seed: int, count: int) -> list[Loop]:
    """The same each time."""
    chance = random.Random(seed)
    return [Loop(chance) for _ in range(count)]


def cycles(of: dict[str, Any], loop: Loop, times: int = 64) -> int:
    told = _core.isa_time(json.dumps(of), loop.text, times=times, lmul=loop.lmul, avl=loop.avl)
    return int(told["cycles"])


def widths(narrow: dict[str, Any]) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Pairs of cores, the second with twice of something."""
    port = narrow.get("port_bytes", narrow["dlen"] // 8)
    # the same registers and memory port for both datapaths, or a port that grows with them
    base = {**narrow, "vlen": max(narrow["vlen"], 2 * narrow["dlen"]), "port_bytes": port}
    wide = {**base, "dlen": 2 * narrow["dlen"]}
    found = [("dlen", base, wide), ("dlen and port", base, {**wide, "port_bytes": 2 * port})]
    found.append(("port", {**narrow, "port_bytes": port // 2}, {**narrow, "port_bytes": port}))
    for key, usual in (("queue", 8), ("issue", 1), ("width", 2), ("dispatch", 1), ("loads", 1), ("stores", 1)):
        found.append((key, narrow, {**narrow, key: 2 * narrow.get(key, usual)}))
    lanes = [{"arithmetic": 1, "special": 1}, {"arithmetic": 1, "special": 2}]
    found.append(("special", {**narrow, "pipes": lanes[0]}, {**narrow, "pipes": lanes[1]}))
    return found


@pytest.mark.parametrize("name", ts.isa.Core.names())
def test_chained_loops(name: str) -> None:
    """Of cores whose pipes all do the same. Where one does what another cannot (xuantie-c908), instructions take a pipe
    by who comes first: one that comes sooner may now and then take the only pipe of another."""
    narrow = json.loads(ts.isa.Core.load(name).timing)
    alike = all(of.get("pipes", 255) == 255 for of in narrow.get("classes", {}).values())
    assert alike == (name != "xuantie-c908")
    slower, faster, tried = [], 0, 0
    for width, before, after in widths(narrow):
        for loop in loops(11, LOOPS):
            took, takes = cycles(before, loop), cycles(after, loop)
            tried, faster = tried + 1, faster + (takes < took)
            if takes > took:
                slower.append((takes / took, width, loop.lmul, loop.avl, loop.text))
    assert faster > tried / 20
    if alike:
        assert not slower
    assert len(slower) <= tried / 200 and all(ratio[0] < 1.25 for ratio in slower), slower


def test_a_fast_instruction_before_a_slow_store() -> None:
    """By hand. Stores take two cycles a beat, sums one. A sum writes what the store before it still reads: its first
    beat may be written when the first is read, and only the later ones wait. On a datapath of half the width both take
    a cycle a beat."""
    core = {"schema": "tilesim.core", "version": 1, "name": "by hand", "vlen": 512, "width": 8, "dispatch": 8}
    core |= {"classes": {"vector": {"latency": 2}}, "issue": 4, "memory": {"latency": 2}}
    text = "vse32.v v8, (a0)\nvadd.vv v8, v16, v24\nvadd.vv v12, v8, v24"

    def took(dlen: int, port_bytes: int) -> int:
        made = {**core, "dlen": dlen, "port_bytes": port_bytes}
        return int(_core.isa_time(json.dumps(made), text, times=1, lmul=2)["cycles"])

    # a store begins in cycle 1 and reads beat k of 8 in 1 + 2k; sums of 256 bits write theirs 2 after their start in 1,
    # the last one not before 15, when the store reads it; so the second sum has its last one 2 later
    assert took(256, 16) == 15 + 2
    assert took(128, 16) == 1 + 15 + 2 + 2  # beats of 128 bits one a cycle: 16 of them


def test_a_port_narrower_than_a_beat_takes_the_bytes_there_are() -> None:
    """One element of 4 bytes passes a port of 16 in a cycle, whatever a beat is; 20 bytes in two."""
    for dlen in (128, 256, 512):
        core = {"schema": "tilesim.core", "version": 1, "name": "by hand", "vlen": 512, "dlen": dlen, "port_bytes": 16}
        for avl, each in ((1, 1), (4, 1), (5, 2), (16, 4)):
            text = "vle32.v v8, (a0)\nvle32.v v9, (a0)\nvle32.v v10, (a0)\nvle32.v v11, (a0)"
            long, short = (
                int(_core.isa_time(json.dumps(core), text, times=times, avl=avl)["cycles"]) for times in (300, 100)
            )
            assert (long - short) / 800 == each, (dlen, avl)
