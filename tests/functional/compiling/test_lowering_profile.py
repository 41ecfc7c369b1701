"""The lowering profile is a setting like others: read and checked with the machine, saved as it was, obeyed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tilesim as ts

MACHINES = Path(__file__).resolve().parents[3] / "configs" / "machines"
WITH_PROFILE = sorted(path for path in MACHINES.glob("*.json") if "lowering" in json.loads(path.read_text("utf-8")))


@pytest.mark.parametrize("path", WITH_PROFILE, ids=lambda path: path.stem)
def test_presets_keep_their_profile_to_the_letter(path: Path, tmp_path: Path) -> None:
    written = json.loads(path.read_text("utf-8"))["lowering"]
    machine = ts.Machine.load(path)
    kept = json.loads(machine.core.to_json())["lowering"]
    assert json.dumps(kept) == json.dumps(written)  # order too
    again = tmp_path / "again.json"
    again.write_text(machine.core.to_json(), "utf-8")
    assert ts.Machine.load(again).core.to_json() == machine.core.to_json()
    assert ts.Machine.load(again).core.hash() == machine.core.hash()


def test_there_are_presets_with_a_profile() -> None:
    assert len(WITH_PROFILE) >= 5


def test_machines_without_a_profile_have_none() -> None:
    assert "lowering" not in json.loads(ts.Machine.load("edge-8").core.to_json())


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        (("product", "panel_byts"), 5, "panel_bytes"),
        (("products",), {}, "product"),
        (("product", "window_columns"), 0, "1 to"),
        (("product", "window_columns"), "wide", "lowering.product.window_columns"),
        (("convolution", "images"), 2.5, "lowering.convolution.images"),
        (("fusion", "resident_rows"), "no", "lowering.fusion.resident_rows"),
        (("fusion",), [], "lowering.fusion"),
    ],
)
def test_mistakes_are_found_when_the_machine_is_loaded(
    where: tuple[str, ...], value: object, said: str, tmp_path: Path
) -> None:
    data = json.loads((MACHINES / "tpu-v3.json").read_text("utf-8"))
    inner = data["lowering"]
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(data, indent=1), "utf-8")
    with pytest.raises(ts.UserError) as error:
        ts.Machine.load(path)
    assert said in str(error.value) and "wrong.json" in str(error.value)


def nest(machine: ts.Machine) -> list[int]:
    """Tiles of rows, columns and depth of one product."""
    graph = ts.workloads.matmul(2048, 2048, 1024, dtype="bf16")
    products, _ = ts._core.mapping_choices(graph.core, machine.core)
    return list(products[0]["nest"]["tiles"])


@pytest.mark.parametrize("columns", [128, 256])  # two of 512 have no room beside the panel
def test_windows_are_as_wide_as_the_profile_says(columns: int) -> None:
    machine = ts.Machine.load("tpu-v3").replace({"lowering.product.window_columns": columns})
    assert columns in nest(machine)


def test_panels_are_as_large_as_the_profile_says() -> None:
    """2048 rows of 1024 bf16 are 4 MiB: whole in panels of 8 MiB, in four parts of 512 rows in panels of 1 MiB."""
    base = ts.Machine.load("tpu-v3")
    assert 2048 in nest(base)
    assert 512 in nest(base.replace({"lowering.product.panel_bytes": 1 << 20}))


def test_one_setting_makes_a_section() -> None:
    machine = ts.Machine.load("edge-8").replace({"lowering.product.window_columns": 64})
    section = json.loads(machine.core.to_json())["lowering"]
    assert section == {"product": {"panel_bytes": 8 << 20, "window_columns": 64, "split_rows_above": 512}}
