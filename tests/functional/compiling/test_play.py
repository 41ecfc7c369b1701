"""Turning settings: what sliders offer, what follows, and what is refused in place."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

import tilesim as ts
from tilesim.machine.settings import all_settings, find_setting
from tilesim.study.playing import positions


def matmul(n: int = 64) -> ts.Graph:
    return ts.workloads.matmul(n, n, n, dtype="bf16")


def test_a_turn_is_the_same_as_a_run() -> None:
    play, machine = ts.study.play(matmul(), "edge-8"), ts.Machine.load("edge-8")
    first = play.set("core.arrays", 2)
    second = play.set("memory.bandwidth", "1 GB/s")
    by_hand = machine.replace({"core.arrays": 2, "memory.bandwidth": "1 GB/s"})
    assert first is not None and second is play.result
    assert first.cycles == ts.run(matmul(), machine=machine.replace({"core.arrays": 2})).cycles
    assert play.result.cycles == ts.run(matmul(), machine=by_hand).cycles
    assert play.machine.core.hash() == by_hand.core.hash()
    assert play.table().rows == [
        {"setting": "core.array.count", "start": machine.get("core.arrays"), "now": 2},
        {"setting": "memory.bandwidth", "start": machine.get("memory.bandwidth"), "now": "1 GB/s"},
    ]
    assert play.reset().cycles == play.result.cycles == ts.run(matmul(), machine=machine).cycles
    assert len(play.table()) == 0


def test_options_go_along() -> None:
    play = ts.study.play(matmul(), "edge-8", memory="ideal")
    result = play.set("memory.bandwidth", "1 GB/s")
    by_hand = ts.Machine.load("edge-8").replace({"memory.bandwidth": "1 GB/s"})
    assert result is not None and result.cycles == ts.run(matmul(), machine=by_hand, memory="ideal").cycles
    with pytest.raises(ts.UserError, match="Did you mean 'memory'"):
        ts.study.play(matmul(), "edge-8", memry="ideal")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("core.array.rows", -3, "core.array.rows: out of range"),
        ("core.array.rows", None, "core.array.rows"),
        ("memory.bandwidth", "9 TB", "unknown unit"),
        ("core.aray.rows", 4, "Did you mean 'core.array.rows'"),
        ("memory.kind", "<b>bnk</b>", "memory.kind"),
    ],
)
def test_what_is_wrong_is_said_in_place(path: str, value: Any, message: str) -> None:
    play = ts.study.play(matmul(), "edge-8")
    before = play.result
    assert play.set(path, value) is None
    assert message in play.error and play.result is before
    assert "<b>bnk" not in play.html() and 'class="error"' in play.html()
    assert play.set("core.arrays", 2) is not None  # a value that is none is not kept
    assert play.error == "" and 'class="error"' not in play.html()


def test_what_contradicts_is_kept_until_the_other_is_turned() -> None:
    play = ts.study.play(matmul(), "edge-8")
    assert play.set("memory.cache.line", "64 B") is None and "no cache" in play.error
    assert play.set("memory.regions", 3) is None
    play.reset()
    assert play.set("core.scratchpad.bytes", "64 B") is None and play.error  # nothing fits
    assert play.set("core.arrays", 2) is None  # still nothing
    assert play.set("core.scratchpad.bytes", "1 MiB") is not None
    assert play.machine.get("core.arrays") == 2


def test_positions_are_legal_and_hold_the_machines_own() -> None:
    for name in ts.Machine.names():
        machine = ts.Machine.load(name)
        for path, setting in all_settings().items():
            try:
                value = machine.get(path)
            except ts.UserError:  # the machine lacks the section
                continue
            if isinstance(value, (list, dict)):
                continue
            offered = positions(setting, value)
            assert value in offered and len(offered) <= 24
            if setting.is_number:
                numbers = [setting.number(one) for one in offered]
                assert numbers == sorted(set(numbers))  # type: ignore[type-var]
                assert setting.low is not None and setting.high is not None
                assert all(setting.low <= one <= setting.high or one == setting.number(value) for one in numbers)  # type: ignore[operator]


def test_ends_of_a_slider() -> None:
    setting = find_setting("memory.bandwidth")
    offered = positions(setting, "450 GB/s", (100e9, 2e12))
    assert offered == ["100 GB/s", "200 GB/s", "400 GB/s", "450 GB/s", "800 GB/s", "1600 GB/s", "2000 GB/s"]
    play = ts.study.play(matmul(), "edge-8", {"core.arrays": (1, 4)})
    assert play.settings == {"core.array.count": [1, 2, 4]}
    for ends in ((4, 1), (1,), ("1 GB/s", "2 GB/s"), None, 5):
        if ends is None:
            continue
        with pytest.raises(ts.UserError, match=r"core\.array\.count|settings"):
            ts.study.play(matmul(), "edge-8", {"core.arrays": ends})  # type: ignore[dict-item]
    for path, message in (("core.array.rates", "no slider"), ("core.aray", "unknown setting")):
        with pytest.raises(ts.UserError, match=message):
            ts.study.play(matmul(), "edge-8", [path])


def test_what_a_slider_leaves_out_is_said() -> None:
    """Ends beyond what any machine takes; all of them beyond; a machine whose own value lies elsewhere."""
    most = find_setting("core.array.count").high
    assert most is not None
    play = ts.study.play(matmul(), "edge-8", {"core.arrays": (1, 1000), "memory.bandwidth": ("1 GB/s", "2 GB/s")})
    assert max(play.settings["core.array.count"]) == most < 1000
    count, bandwidth = play.notes
    assert "core.array.count" in count and "1 to 1000" in count and f"1 to {most:g}" in count
    own = play.start.get("memory.bandwidth")
    assert own in play.settings["memory.bandwidth"] and own in bandwidth and "1 GB/s to 2 GB/s" in bandwidth
    assert count in play.html() and count in repr(play)
    assert play.set("core.arrays", 1000) is None and "out of range" in play.error and play.error in repr(play)
    with pytest.raises(ts.UserError, match=rf"core\.array\.count.*100 to 200.*0 to {most:g}"):
        ts.study.play(matmul(), "edge-8", {"core.arrays": (100, 200)})
    assert ts.study.play(matmul(), "edge-8", {"core.arrays": (1, 4)}).notes == []
    many = ts.study.play(ts.workloads.softmax(16, 16), "dense-sparse-2")
    assert [note for note in many.notes if all(f"cores.{sort}.count" in note for sort in many.machine.sorts)]


def test_sorts_of_cores_and_no_products() -> None:
    play = ts.study.play(ts.workloads.softmax(16, 16), "dense-sparse-2")
    assert "core.count" not in play.settings
    assert "<circle" in play.html()  # of its vector operations
    sort = next(iter(play.machine.sorts))
    assert ts.study.play(matmul(), "dense-sparse-2", [f"cores.{sort}.count"]).settings.keys() == {f"cores.{sort}.count"}


def test_the_picture() -> None:
    """The shares that it shows are those of the result, names are no markup, points are kernels with products."""
    play = ts.study.play("bert-base", "tpu-v3")
    text = play.html()
    shares = [float(one.replace(",", "")) for one in re.findall(r'(?:class="text">|more: )([\d.,]+) %', text)]
    assert len(shares) == 9 and abs(sum(shares) - 100) < 0.1 * len(shares)
    rows = play.result.data["operations"]
    drawn = [row for row in rows if row["multiply_adds"] + row["vector_operations"] and row["load_bytes"]]
    assert text.count("<circle") == len(drawn)
    assert play.result.bottleneck in text and len(text) < 100_000
    odd = ts.GraphBuilder("<script>x")
    odd.output(odd.matmul(odd.input("a", [8, 8]), odd.weight("w", [8, 8]), name="<b>[red]"), "y")
    assert (
        "<script>" not in ts.study.play(odd.build(), "edge-8").html()
        and "<b>[red]" not in ts.study.play(odd.build(), "edge-8").html()
    )


def test_sliders() -> None:
    pytest.importorskip("ipywidgets")
    play = ts.study.play(
        matmul(), "edge-8", ["core.arrays", "memory.bandwidth", "core.vector.packs_narrow", "memory.kind"]
    )
    controls, view = play.widget().children
    arrays, bandwidth, flag, kind, button = controls.children
    arrays.value = 2
    assert play.machine.get("core.arrays") == 2 and "core.arrays 2" in view.value
    bandwidth.value = play.settings["memory.bandwidth"][0]
    flag.value = not flag.value
    kind.value = "ideal"
    assert play.machine.get("memory.kind") == "ideal" and not play.error
    shown = view.value
    play.before.data["machine"] = "start"
    button.click()
    assert play.result is play.before and arrays.value == play.start.get("core.arrays") and view.value != shown


def test_without_ipywidgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    play = ts.study.play(matmul(), "edge-8")
    with pytest.raises(ts.UserError, match=r"pip install 'tilesim\[notebook\]'"):
        play.widget()
    assert play.set("core.arrays", 2) is not None
