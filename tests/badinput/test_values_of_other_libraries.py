"""What stands for a name, a number or a truth value in other libraries does so here; what does not is named."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.base.store import Store


class Name(str, enum.Enum):
    """Texts that format as their own names."""

    MACHINE = "edge-8"
    PART = "HBM2-2000"
    NETWORK = "mesh_2x2"
    WORKLOAD = "matmul:8,8,8"


def test_enums_of_text_are_names() -> None:
    assert ts.Machine.load(Name.MACHINE).name == "edge-8"
    assert ts.memory.run(part=Name.PART, requests=4).reads == 4
    assert ts.network.topology(Name.NETWORK).nodes == 4
    assert ts.compile(Name.WORKLOAD, Name.MACHINE).core.machine == "edge-8"


@pytest.mark.parametrize("exact", [np.True_, np.bool_(False)])
def test_truth_values_of_numpy(exact: Any) -> None:
    assert ts.verify(ts.compile("matmul:8,8,8", "edge-8"), exact=exact).ok


def test_jobs_may_be_generated() -> None:
    program = ts.compile("matmul:8,8,8", "edge-8")
    made = ts.simulate((ts.Job(program, arrival=at) for at in (0, 100)), "edge-8")
    listed = ts.simulate([ts.Job(program, arrival=at) for at in (0, 100)], "edge-8")
    assert made.cycles == listed.cycles


def test_stores_take_numbers_of_numpy(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    key = store.key(size=np.int64(3))
    assert key == store.key(size=3)
    store.put({key: {"cycles": np.int64(7), "seconds": np.float64(0.5)}})
    assert store.get([key]) == {key: {"cycles": 7, "seconds": 0.5}}
    with pytest.raises(ts.UserError, match="not JSON"):
        store.put({key: np.ones(2)})


def test_the_entry_that_does_not_fit_is_named() -> None:
    with pytest.raises(ts.UserError, match=r"changes\['core.array.count'\].*\{1, 2\}"):
        ts.sweep("matmul:8,8,8", "edge-8", {"memory.channels": [1], "core.array.count": {1, 2}})


def test_passes_are_a_text() -> None:
    with pytest.raises(ts.UserError, match="passes"):
        ts.loading.load("matmul:8,8,8", passes=5)


@pytest.mark.parametrize("extent", ["x" * 100_000, [8] * 100_000 + ["a"], object()])
def test_extents_that_are_no_numbers_are_not_echoed(extent: Any) -> None:
    from tilesim.analytic.attention import attention_seconds
    from tilesim.analytic.conv import conv_seconds
    from tilesim.analytic.gemm import gemm_seconds
    from tilesim.analytic.vector import vector_seconds

    calls = [
        lambda: gemm_seconds("a100", extent, 8, 8),
        lambda: attention_seconds("a100", queries=extent),
        lambda: conv_seconds("a100", batch=1, channels=extent, filters=8, size=8, kernel=3),
        lambda: vector_seconds("a100", "softmax", extent, 8),
    ]
    for call in calls:
        with pytest.raises(ts.UserError, match="extent") as caught:
            call()
        assert len(str(caught.value)) < 1000


def _machine(directory: Path, **changes: Any) -> Path:
    settings = ts.Machine.load("mesh-16").to_dict()
    for name, value in changes.items():
        section, _, key = name.partition("_")
        settings[section][key] = value
    path = directory / "own.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


@pytest.mark.parametrize("setting", ["network_kind", "memory_part"])
@pytest.mark.parametrize("where", ["/etc/outside.json", "../outside.json", "link.json", "/dev/zero/x.json"])
def test_a_machines_file_names_no_file_elsewhere(setting: str, where: str, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "outside.json").write_text("{}", encoding="utf-8")
    (inner / "link.json").symlink_to(tmp_path / "outside.json")
    with pytest.raises(ts.UserError, match="outside its directory"):
        ts.Machine.load(_machine(inner, **{setting: where}))


def test_a_part_beside_the_machines_file(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    part = ts.memory.Part.load("HBM2-2000")
    (tmp_path / "parts" / "own.json").write_text(json.dumps(part.to_dict()), encoding="utf-8")
    machine = ts.Machine.load(_machine(tmp_path, memory_part="parts/own.json"))
    assert machine.get("memory.part") == str((tmp_path / "parts" / "own.json").resolve())
