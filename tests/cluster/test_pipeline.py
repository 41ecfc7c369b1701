"""Pipelines: orders are legal, memory and times as the forms and a search of the longest path say."""

import bisect
import functools
import itertools
import json
import random
import re

import pytest

import tilesim as ts

ONE = {"forward": 1e-3, "backward_input": 1e-3, "backward_weight": 1e-3}
TIMES = {"forward": 3e-3, "backward_input": 4e-3, "backward_weight": 2e-3}
PICO = 10**12
CASES = {
    "gpipe": [(p, m, 1) for p in range(1, 9) for m in range(1, 17)],
    "1f1b": [(p, m, 1) for p in range(1, 9) for m in range(1, 17)],
    "interleaved": [(p, m, v) for p in range(1, 9) for v in range(1, 5) for m in range(1, 17) if v == 1 or m % p == 0],
    "zb-h1": [(p, m, 1) for p in range(1, 9) for m in range(1, 17)],
    "zb-h2": [(p, m, 1) for p in range(1, 9) for m in range(1, 17)],
    "zb-v": [(p, m, 2) for p in range(1, 9) for m in range(1, 17)],
    "dualpipe": [(p, m, 2) for p in (2, 4, 6, 8) for m in range(2 * p, 17, 2)],
}


@functools.cache
def equal(name, p, m, v):
    """Of equal parts; whole backward passes of 36 ms, so that chunks divide them."""
    whole = {"forward": 12e-3, "backward_input": 12e-3, "backward_weight": 24e-3}
    return build(name, p, m, v, **(ONE if name.startswith("zb") or name == "dualpipe" else whole))


def build(name, p, m, v, **times):
    return ts.cluster.pipeline(name, p, m, 1 if name in ("zb-v", "dualpipe") else v, **(times or TIMES))


def words(result):
    """Per stage (kind, micro-batch, chunk), read from the text."""
    return [
        [(k, int(n), int(c or 0)) for k, n, c in re.findall(r"([FBIW])(\d+)(?:\.(\d+))?", row)] for row in result.order
    ]


def chain(name, p, v):
    """Places (stage, chunk) in the order of the model, one list per way through it."""
    down, up = [(s, 0) for s in range(p)], [(s, 1) for s in reversed(range(p))]
    if name == "zb-v":
        return [down + up]
    if name == "dualpipe":
        return [down, up]
    return [[(s, c) for c in range(v) for s in range(p)]]


def longest_path(orders, ways, cost, transfer):
    """Ends of all passes by relaxation of every edge until nothing moves; None where it never ends."""
    nodes = {(s, *one): cost(s, one) for s, row in enumerate(orders) for one in row}
    edges = [((s, *a), (s, *b), 0) for s, row in enumerate(orders) for a, b in itertools.pairwise(row)]
    for way in ways:
        for (s, c), (t, d) in itertools.pairwise(way):
            lag = transfer if s != t else 0
            for s0, k, n, c0 in nodes:
                if (s0, c0, k) == (s, c, "F") and (t, "F", n, d) in nodes:
                    edges.append(((s0, k, n, c0), (t, "F", n, d), lag))
                if (s0, c0) == (t, d) and k in "BI":
                    edges += [((s0, k, n, c0), (s, other, n, c), lag) for other in "BI" if (s, other, n, c) in nodes]
    ends = dict(nodes)
    for _ in range(len(nodes) + 1):
        moved = False
        for a, b, lag in edges:
            if ends[a] + lag + nodes[b] > ends[b]:
                ends[b], moved = ends[a] + lag + nodes[b], True
        if not moved:
            return ends
    return None


@pytest.mark.parametrize("name", CASES)
def test_orders_are_legal_and_hold_what_they_say(name):
    for p, m, v in CASES[name]:
        result = equal(name, p, m, v)
        ways = chain(name, p, v)
        half = m // 2
        micros = {c: range(m) for c in range(v)} if name != "dualpipe" else {0: range(half), 1: range(half, m)}
        held = []
        for row in words(result):
            at = {one: i for i, one in enumerate(row)}
            assert len(at) == len(row)
            for c, numbers in micros.items():
                for n in numbers:
                    whole = ("B", n, c) in at
                    gradient = at["B" if whole else "I", n, c]
                    assert at["F", n, c] < gradient
                    assert whole or gradient < at["W", n, c]
                    assert whole != (("I", n, c) in at)
            spans = [(at["F", n, c], at.get(("W", n, c), at.get(("B", n, c)))) for c, ns in micros.items() for n in ns]
            parts = 1 if name == "dualpipe" else v
            ends = sorted(end for _, end in spans)  # held when a forward pass begins: begun, less what has ended
            most = max(i + 1 - bisect.bisect(ends, begin) for i, begin in enumerate(sorted(b for b, _ in spans)))
            held.append(-(-most // parts))
        assert result.held == held, (p, m, v)
        assert len(ways[0]) == (2 * p if name == "zb-v" else p * (v if name != "dualpipe" else 1))
        limit = {
            "gpipe": m, "1f1b": min(m, p), "interleaved": min(m, p + -(-(p - 1) // v)), "zb-h1": min(m, p),
            "zb-h2": min(m, 2 * p - 1), "zb-v": min(m, p), "dualpipe": p + 1,
        }[name]  # fmt: skip
        assert max(held) <= limit, (p, m, v)
        if name != "zb-h2" or m >= 2 * p - 1:
            assert max(held) == limit, (p, m, v)


@pytest.mark.parametrize("name", CASES)
def test_forms_of_equal_parts(name):
    for p, m, v in CASES[name]:
        result = equal(name, p, m, v)
        seconds, period = round(result.seconds * 1e6), round(result.period_seconds * 1e6)
        if name in ("gpipe", "1f1b"):
            assert seconds == period == (m + p - 1) * 48_000
            assert round(result.bubble_seconds * 1e6) == (p - 1) * 48_000
        elif name == "interleaved":
            assert seconds == m * 48_000 + (p - 1) * 48_000 // v
        elif name == "zb-h2" and m >= 2 * p - 1:
            assert (period, seconds) == (m * 3000, m * 3000 + (p - 1) * 1000)
        elif name == "zb-h1" and m >= p:
            assert seconds == m * 3000 + (p - 1) * 1000  # (p - 1)(F + I - W)
        if p == 1:
            assert seconds == period == m * (48_000 if name in ("gpipe", "1f1b", "interleaved") else 3000)


def test_bubbles_of_zb_v_lie_where_the_table_says():
    """From p - 1 to 2 p passes of a chunk above m(F + B)."""
    for p in (2, 3, 4, 6, 8, 12, 16):
        for m in range(p, 4 * p + 1, max(1, p // 6)):
            result = equal("zb-v", p, m, 2)
            assert round(result.period_seconds * 1e6) <= round(result.seconds * 1e6)
            above = (round(result.seconds * 1e6) - m * 3000) / 500  # passes of a chunk
            assert p - 1 <= above <= 2 * p, (p, m)


@pytest.mark.parametrize("name", CASES)
def test_one_micro_batch_goes_down_and_up(name):
    for p in range(1, 9) if name != "dualpipe" else ():
        result = build(name, p, 1, 1, forward=6e-3, backward_input=4e-3, backward_weight=2e-3)
        last = 2 if name.startswith("zb") else 2 * p  # a weight gradient that nobody waits for
        assert round(result.seconds * 1e6) == (10 * p + last) * 1000 or (name == "zb-v" and p > 1)


def test_times_are_those_of_the_longest_path():
    draw = random.Random(7)
    for name, p, m, v in [
        ("gpipe", 3, 4, 1), ("1f1b", 4, 6, 1), ("interleaved", 3, 6, 3), ("zb-h1", 4, 5, 1), ("zb-h2", 3, 6, 1),
        ("zb-v", 4, 5, 2), ("dualpipe", 4, 8, 2), ("1f1b", 1, 3, 1), ("interleaved", 1, 3, 2), ("zb-v", 1, 3, 2),
    ]:  # fmt: skip
        table = {k: [[draw.randrange(1, 10**6) for _ in range(v)] for _ in range(p)] for k in "FIW"}
        table["B"] = [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(table["I"], table["W"], strict=True)]
        seconds = {k: [[one / PICO for one in row] for row in table[k]] for k in "FIW"}
        result = build(name, p, m, v, forward=seconds["F"], backward_input=seconds["I"], backward_weight=seconds["W"],
                       transfer=77_777e-12)  # fmt: skip
        ends = longest_path(
            words(result), chain(name, p, v), lambda s, one, table=table: table[one[0]][s][one[2]], 77_777
        )
        assert round(result.seconds * PICO) == max(ends.values()), name
        busy = [row["busy_seconds"] for row in result.table()]
        assert round(max(busy) * PICO) == round((result.seconds - result.bubble_seconds) * PICO)


def test_own_orders_and_their_deadlocks():
    draw = random.Random(3)
    seen = set()
    for _ in range(150):
        p, m, v = draw.choice([(2, 2, 1), (3, 2, 1), (2, 2, 2), (2, 3, 1)])
        rows = []
        for _ in range(p):
            row = [(k, n, c) for k in "FB" for n in range(m) for c in range(v)]
            draw.shuffle(row)
            swap = {}
            for i, (_, n, c) in enumerate(row):  # F before B
                swap.setdefault((n, c), []).append(i)
                row[i] = ("F" if len(swap[n, c]) == 1 else "B", n, c)
            rows.append(row)
        text = "\n".join(" ".join(f"{k}{n}.{c}" for k, n, c in row) for row in rows)
        ends = longest_path(rows, chain("own", p, v), lambda s, one: 1000, 0)
        seen.add(ends is None)
        if ends is None:
            with pytest.raises(ts.UserError, match=r"deadlock between stages: [FB][\d.]+ of stage \d waits"):
                ts.cluster.pipeline(text, p, m, v, forward=v * 1e-9, backward_input=v * 1e-9)
            continue
        result = ts.cluster.pipeline(text, p, m, v, forward=v * 1e-9, backward_input=v * 1e-9)
        assert round(result.seconds * PICO) == max(ends.values())
    assert seen == {True, False}


def test_what_waits_is_named():
    with pytest.raises(ts.UserError) as error:
        ts.cluster.pipeline("F0 B0 F1 B1\nF1 B1 F0 B0", 2, 2, forward=1, backward_input=1)
    for text in ("B0 of stage 0 waits for B0 of stage 1", "F1 of stage 1 waits for F1 of stage 0"):
        assert text in str(error.value)


def test_the_text_of_a_schedule_is_an_order():
    for name, p, m, v, placement in (
        ("interleaved", 2, 4, 2, None),
        ("zb-v", 3, 5, 2, "v"),
        ("dualpipe", 4, 8, 2, "both_ways"),
    ):
        first = build(name, p, m, v)
        again = ts.cluster.pipeline(first.order, p, m, v, **TIMES, placement=placement)
        assert (again.order, again.seconds, again.held) == (first.order, first.seconds, first.held)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schedule": "1f1bb"}, "Did you mean '1f1b'"),
        ({"schedule": "interleaved", "virtual": 2, "microbatches": 6}, "multiples of stages = 4"),
        ({"schedule": "gpipe", "virtual": 2}, "one chunk per stage"),
        ({"schedule": "dualpipe", "stages": 3}, "even number of stages"),
        ({"schedule": "dualpipe", "microbatches": 6}, "from 2 × stages = 8"),
        ({"stages": 0}, "stages"),
        ({"microbatches": 2.5}, "microbatches"),
        ({"forward": -1}, "forward, stage 0"),
        ({"forward": [1, 2]}, "the number of stages"),
        ({"backward_input": [1, 2, float("nan"), 3]}, "backward_input, stage 2"),
        ({"transfer": "soon"}, "transfer"),
        ({"schedule": "F0 B0\nF0 B0", "stages": 2, "microbatches": 2}, "missing"),
        ({"schedule": "F0 B0 X1\nF0 B0", "stages": 2, "microbatches": 1}, "unknown pass"),
        ({"schedule": "B0 F0\nF0 B0", "stages": 2, "microbatches": 1}, "comes before F0"),
        ({"schedule": "F0 W0 I0", "stages": 1, "microbatches": 1}, "comes before I0"),
        ({"schedule": "F0 F0 B0", "stages": 1, "microbatches": 1}, "occurs twice"),
        ({"schedule": "F0 B0 W0", "stages": 1, "microbatches": 1}, "part of B"),
        ({"schedule": "F0 B0 F1 B1", "stages": 1, "microbatches": 1}, "does not have this pass"),
        ({"schedule": "F0 B0", "stages": 2, "microbatches": 1}, "one line per stage"),
        ({"schedule": "gpipe", "most_held": 3}, "stage 0: a stage holds too many"),
        ({"schedule": "F0 B0", "stages": 1, "microbatches": 1, "placement": "ring"}, "placement"),
    ],
)  # fmt: skip
def test_bad_input(arguments, message):
    given = {"schedule": "1f1b", "stages": 4, "microbatches": 8, "forward": 1, "backward_input": 1, **arguments}
    with pytest.raises(ts.UserError, match=re.escape(message)):
        ts.cluster.pipeline(**given)


def test_timeline_and_table(tmp_path):
    result = build("1f1b", 3, 4, 1)
    result.timeline(tmp_path / "t.json")
    events = [one for one in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if one["ph"] == "X"]
    assert len(events) == 3 * 4 * 2
    assert max(one["ts"] + one["dur"] for one in events) == pytest.approx(result.seconds * 1e6)
    assert [row["stage"] for row in result.table()] == [0, 1, 2]
    with pytest.raises(ts.UserError, match="json"):
        result.timeline(tmp_path / "t.pftrace")
