"""The instruction pipeline against closed forms worked out by hand: chains, queues, widths, states that add up."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

import tilesim as ts
from tilesim import _core

LATENCY, BEATS = 5, 4  # of float; of a register: VLEN 512, DLEN 128
CORE: dict[str, Any] = {
    "schema": "tilesim.core",
    "version": 1,
    "name": "by hand",
    "vlen": 512,
    "dlen": 128,
    "width": 2,
    "queue": 8,
    "delay": 1,
    "port_bytes": 16,
    "memory": {"latency": 6, "ports": 1},
    "scalar": {"multiply": 4, "load": 3, "mispredicted": 7, "taken": 2},
    "classes": {
        "vector": {"latency": 2},
        "float": {"latency": LATENCY},
        "divide": {"cost": 0, "element": 3, "start": 4, "at_end": True},
        "reduction": {"cost": 1, "tree": 2, "latency": 0},
    },
}


def core(**changed: Any) -> dict[str, Any]:
    """CORE with other values; a dict changes single ones of a group."""
    made = copy.deepcopy(CORE)
    for key, value in changed.items():
        made[key] = {**made.get(key, {}), **value} if isinstance(value, dict) else value
    return made


def run(text: str, times: int = 1, of: dict[str, Any] | None = None, **kind: Any) -> dict[str, Any]:
    """Cycles and states of a list."""
    return dict(_core.isa_time(json.dumps(of or CORE), text, times=times, **kind))


def each(text: str, of: dict[str, Any] | None = None, **kind: Any) -> float:
    """Cycles that one more repetition costs, once the beginning is over."""
    return (run(text, 300, of, **kind)["cycles"] - run(text, 100, of, **kind)["cycles"]) / 200


def test_first_result() -> None:
    # dispatch in cycle 0, start in cycle 1, the last of four beats starts in cycle 4 and is there 5 later
    assert run("vfadd.vv v8, v16, v24")["cycles"] == 1 + (BEATS - 1) + LATENCY


def test_dependent_chain_takes_the_latency() -> None:
    assert each("vfadd.vv v8, v8, v24") == LATENCY  # longer than its four beats
    assert each("vadd.vv v8, v8, v24") == BEATS  # its latency of 2 hides behind them: beats chain


def test_without_chaining_the_whole_result_is_waited_for() -> None:
    apart = core(chaining=False)
    assert each("vfadd.vv v8, v8, v24", apart) == (BEATS - 1) + LATENCY
    assert each("vadd.vv v8, v8, v24", apart) == (BEATS - 1) + 2


def test_independent_ones_take_the_throughput() -> None:
    assert each("\n".join(f"vfadd.vv v{8 + i}, v16, v24" for i in range(8))) == 8 * BEATS
    assert each("\n".join(f"vfadd.vv v{8 + i}, v16, v24" for i in range(8)), core(issue=2)) == 4 * BEATS


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_chaining_over_kinds_of_pipes(length: int) -> None:
    """Load, sums, store: each starts its latency after the one before; with pipes enough all overlap."""
    sums = "\n".join(f"vfadd.vv v{9 + i}, v{8 + i}, v24" for i in range(length))
    wide = core(issue=8)
    # the load's first beat is there 2 + 6 after its start
    assert run(f"vle32.v v8, (a0)\n{sums}", of=wide)["cycles"] == 1 + (2 + 6) + length * LATENCY + (BEATS - 1)
    # on one pipe the second sum waits for the first one's beats, but they are fewer than its latency
    assert run(f"vle32.v v8, (a0)\n{sums}")["cycles"] == 1 + (2 + 6) + length * LATENCY + (BEATS - 1)


def test_a_slow_producer_is_not_overtaken() -> None:
    """A producer of two cycles a beat, a consumer of one, which ends one latency after the producer's last beat."""
    slow = core(issue=2, classes={"multiply": {"cost": 2, "latency": 3}})
    last = 1 + 2 * (BEATS - 1) + 3  # the producer's last beat is there
    assert run("vmul.vv v8, v16, v24\nvadd.vv v9, v8, v24", of=slow)["cycles"] == last + 2


def test_write_after_read_and_write_after_write() -> None:
    # on three pipes: the younger one's write of a beat must not be earlier than the older one's read of it
    slow = core(issue=3, classes={"multiply": {"cost": 4, "latency": 4}})
    reads = 1 + 4 * (BEATS - 1)  # the older one reads its last beat then
    assert run("vmul.vv v8, v16, v24\nvadd.vv v16, v20, v21", of=slow)["cycles"] == reads + 4
    ready = reads + 4
    told = run("vmul.vv v8, v16, v24\nvadd.vv v8, v20, v21\nvadd.vv v9, v8, v21", of=slow)["cycles"]
    assert told == ready + 2  # the last sum reads the younger value, which is not there before the older one was
    waits = core(issue=3, classes={"multiply": {"cost": 4, "latency": 4}}, write_order="waits")
    # now the younger sum may start only so late that its last beat finds the older one's written
    assert run("vmul.vv v8, v16, v24\nvadd.vv v8, v20, v21", of=waits)["cycles"] == ready + 2


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 6])
def test_queue(depth: int) -> None:
    """Sums on one pipe: each is dispatched when the one `depth` places before it has begun."""
    sums, of = 6, core(queue=depth, issue=1, decoupled=False)
    text = "\n".join(f"vfadd.vv v{8 + i}, v16, v24" for i in range(sums)) + "\naddi a1, a1, 1\nmul a2, a1, a1"
    front = run(text, of=of)["units"]["front"]
    # sum number k starts in cycle 1 + 4k; number i is dispatched in cycle i, or when number i − depth starts
    dispatched: list[int] = []
    for number in range(sums):
        earliest = dispatched[-1] + 1 if dispatched else 0
        dispatched.append(max(earliest, 1 + BEATS * (number - depth)) if number >= depth else earliest)
    waited = dispatched[-1] - (sums - 1)
    assert front["queue"] == waited
    deeper = run(text, of=core(queue=depth + 1, issue=1, decoupled=False))["units"]["front"]["queue"]
    assert deeper < waited or waited == 0 == deeper


def test_decoupled_queues_let_loads_run_ahead() -> None:
    text = "vfadd.vv v8, v8, v24\nvfadd.vv v8, v8, v24\nvfadd.vv v8, v8, v24\nvle32.v v16, (a0)\nvse32.v v16, (a0)"
    assert each(text, core(decoupled=False)) > each(text, core(decoupled=True)) == 3 * LATENCY


def test_vl_shortens() -> None:
    assert each("vadd.vv v8, v16, v24", lmul=3) == 8 * BEATS
    assert each("vadd.vv v8, v16, v24", lmul=3, avl=1) == 1
    assert each("vadd.vv v8, v16, v24", lmul=3, avl=5) == 2  # 5 · 32 bits of 128
    assert each("vadd.vv v8, v16, v24", core(by_vl=False), lmul=3, avl=1) == 8 * BEATS
    assert each("vmv8r.v v8, v16", lmul=0, avl=1) == 8 * BEATS


def test_reductions_divides_gathers() -> None:
    assert each("vredsum.vs v8, v16, v24") == BEATS + 2 * 2  # a tree over 4 elements of a beat
    assert each("vredsum.vs v8, v16, v24", sew=8) == BEATS + 2 * 4
    assert each("vdiv.vv v8, v16, v24") == 4 + 3 * 16
    gather = core(classes={"gather": {"cost": 0, "element": 1}})
    assert each("vrgather.vv v8, v16, v24", gather) == 16
    assert each("vrgather.vv v8, v16, v24", gather, sew=8) == 64
    ordered = core(classes={"float-sum-ordered": {"cost": 0, "tree": 0, "element": 4}})
    assert each("vfredosum.vs v8, v16, v24", ordered) == 64


def test_widths_of_operands() -> None:
    assert each("vwadd.vv v8, v16, v24") == 2 * BEATS
    assert each("vnsrl.wv v8, v16, v24") == 2 * BEATS
    assert each("vmand.mm v8, v16, v24") == 1  # 16 bits


def test_memory_ports() -> None:
    assert each("vle32.v v8, (a0)") == BEATS
    assert each("vle32.v v8, (a0)", core(port_bytes=8)) == 2 * BEATS
    assert each("vle32.v v8, (a0)\nvle32.v v9, (a0)", core(loads=2)) == BEATS
    assert each("vlse32.v v8, (a0), a1", core(classes={"load-strided": {"cost": 0, "element": 1}})) == 16


def test_front_end() -> None:
    assert each("addi a1, a1, 1") == 1
    assert each("addi a1, a0, 1\naddi a2, a0, 1\naddi a3, a0, 1\naddi a4, a0, 1") == 2  # two a cycle
    assert each("mul a1, a1, a1") == 4
    assert each("ld a1, 0(a1)") == 3
    assert each("ld a1, 0(a0)\nld a2, 0(a0)") == 2  # one port
    assert each("ld a1, 0(a0)\nld a2, 0(a0)", core(memory={"ports": 2})) == 1
    assert each("vadd.vx v8, v16, a1\nmul a1, a1, a1", core(dlen=512)) == 4


def test_branches() -> None:
    """A loop that is predicted taken pays `taken`, and its end `mispredicted`."""
    text = "li a0, 100\nloop: addi a0, a0, -1\nbnez a0, loop\nli a0, 0\nli a7, 93\necall\n"
    elf = ts.isa.assemble("_start: " + text)

    def cycles(**scalar: int) -> int:
        made = ts.isa.Core("by hand", 512, core(scalar=scalar))
        found = ts.isa.run(elf, core=made, timed=True).cycles
        assert found is not None
        return found

    base = cycles(taken=2, mispredicted=7)
    assert cycles(taken=3, mispredicted=7) - base == 99
    assert cycles(taken=2, mispredicted=8) - base == 1


def test_a_scalar_result_is_waited_for() -> None:
    far = core(classes={"to-scalar": {"latency": 10}})
    # dispatch, start one later, held one cycle, there ten later; the next may go in the same cycle
    assert each("vmv.x.s a0, v8\nvadd.vx v8, v16, a0", core(dlen=512, classes={"to-scalar": {"latency": 10}})) >= 12
    assert run("vmv.x.s a0, v8\nmv a1, a0", of=far)["cycles"] == 1 + 1 + 10 + 1


MIX = [
    "vfadd.vv v8, v16, v24", "vfmacc.vv v8, v16, v24", "vmul.vx v12, v8, a1", "vredsum.vs v4, v8, v12",
    "vle32.v v16, (a0)", "vse32.v v8, (a0)", "vmseq.vv v0, v8, v16", "vadd.vv v20, v8, v16, v0.t",
    "vrgather.vv v28, v8, v16", "vslidedown.vi v24, v8, 3", "vmv.x.s a1, v8", "vfmv.s.f v4, fa0", "vcpop.m a2, v0",
    "mul a3, a2, a1", "addi a4, a4, 1", "vdiv.vv v12, v20, v24",
]  # fmt: skip


def streams(count: int, length: int = 40) -> list[str]:
    """Random lists, the same each time."""
    chance = random.Random(7)
    return ["\n".join(chance.choice(MIX) for _ in range(length)) for _ in range(count)]


@pytest.mark.parametrize("text", streams(20))
def test_states_add_up(text: str) -> None:
    for name in [*ts.isa.Core.names()]:
        told = dict(_core.isa_time(ts.isa.Core.load(name).timing, text, lmul=2, times=3))
        for unit, states in told["units"].items():
            assert sum(states.values()) == told["cycles"], (name, unit)
            assert min(states.values()) >= 0, (name, unit)


WIDER: list[dict[str, Any]] = [
    {"dlen": 256}, {"dlen": 512}, {"issue": 2}, {"queue": 16}, {"width": 4}, {"dispatch": 2}, {"loads": 2},
    {"stores": 2}, {"port_bytes": 32},
]  # fmt: skip


@pytest.mark.parametrize("change", WIDER, ids=lambda c: "-".join(map(str, *c.items())))
def test_doubling_is_never_slower(change: dict[str, Any]) -> None:
    keep = {"dlen": CORE["dlen"], "port_bytes": 16}
    for text in streams(20):
        for lmul in (0, 2):
            before = run(text, 4, core(**keep), lmul=lmul)["cycles"]
            assert run(text, 4, core(**{**keep, **change}), lmul=lmul)["cycles"] <= before


REDUCTIONS = ["vredsum.vs v4, v8, v12", "vredand.vs v4, v8, v12", "vfredusum.vs v4, v8, v12", "vfredmax.vs v4, v8, v12"]


@pytest.mark.parametrize("name", ts.isa.Core.names())
def test_a_wider_datapath_is_never_slower(name: str) -> None:
    """Of cores of files: wider beats have deeper trees, and are joined half by half where that is sooner."""
    narrow = json.loads(ts.isa.Core.load(name).timing)
    wide = {**narrow, "dlen": 2 * narrow["dlen"], "vlen": max(narrow["vlen"], 2 * narrow["dlen"])}
    narrow["vlen"], narrow["port_bytes"] = wide["vlen"], narrow["dlen"] // 8
    wide["port_bytes"] = wide["dlen"] // 8
    faster = 0
    for text in REDUCTIONS + MIX + streams(6):
        for sew, lmul, avl in ((32, 0, 1), (32, 0, 3), (32, 0, 2**40), (16, 2, 2**40), (32, 3, 9), (64, 1, 2**40)):
            if sew == 16 and "vf" in text:
                continue
            before, after = (run(text, 5, of, sew=sew, lmul=lmul, avl=avl)["cycles"] for of in (narrow, wide))
            assert after <= before, (text, sew, lmul, avl)
            faster += after < before
    assert faster > 10


def test_a_tree_joins_what_pays() -> None:
    """By hand, levels of 3 cycles and beats of 1: 512 bits of f32 in beats of 64, 128, ... take 8 + 3, 4 + 6, 2 + 9 or
    1 + 12 cycles, those of 128 the least; a core whose trees join 256 in any case takes the least of the last two."""
    classes = {"reduction": {"cost": 1, "tree": 3, "latency": 0}}

    def held(**changed: Any) -> float:
        return each("vredsum.vs v4, v8, v12", core(dlen=512, classes=classes, **changed))

    assert held() == 4 + 6
    assert held(join=256) == 2 + 9
    assert held(join=512) == 1 + 12


@pytest.mark.parametrize("kind", ["div", "fdiv.d"])
def test_dividers_take_one_division_at_a_time(kind: str) -> None:
    """By hand: independent divisions of 20 cycles follow each other by 20, or by what the core states."""
    text = "div t0, a0, a1\ndiv t1, a0, a1" if kind == "div" else "fdiv.d ft0, fa0, fa1\nfdiv.d ft1, fa0, fa1"
    key = "divide" if kind == "div" else "float-divide"
    assert each(text, core(scalar={key: 20})) == 2 * 20
    assert each(text, core(scalar={key: 20, f"{key}-interval": 6})) == 2 * 6
    assert run(text, 1, core(scalar={key: 20}))["units"]["front"]["divider"] == 19
    # the other kind of divider is free
    both = "div t0, a0, a1\nfdiv.d ft0, fa0, fa1"
    assert each(both, core(scalar={"divide": 20, "float-divide": 20})) == 20


def test_the_quick_way_through_a_loop_is_the_long_way() -> None:
    cases = [
        (text, sew, lmul, one)
        for text in ("vadd.vv v8,v16,v24", "vfmacc.vv v8,v16,v24,v0.t", "vredsum.vs v8,v16,v24", "vmv.x.s t0,v8")
        for sew in (32, 64)
        for lmul in (0, 1, 3)
        for one in (False, True)
    ]
    cases += [
        ("vwadd.vv v8,v16,v24", 16, 1, False),
        ("vfncvt.f.f.w v8,v16", 32, 0, False),
        ("vfdiv.vf v8,v16,ft0", 16, 0, False),
    ]
    for name in ts.isa.Core.names():
        timing = ts.isa.Core.load(name).timing
        assert _core.isa_loops(timing, cases) == _core.isa_loops(timing, cases, every_trip=True), name


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"classes": {"flaot": {"cost": 1}}}, "float"),
        ({"classes": {"float": {"cots": 1}}}, "cost"),
        ({"classes": {"float": {"cost": [1, 2]}}}, "four numbers"),
        ({"classes": {"float": {"latency": -1}}}, "out of range"),
        ({"queu": 3}, "queue"),
        ({"vlen": 384}, "power of two"),
        ({"width": 0}, "1"),
        ({"write_order": "never"}, "ordered, waits"),
    ],
)
def test_bad_cores(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(ts.UserError, match=told):
        run("vadd.vv v8, v16, v24", of=core(**changed))
