"""The files that the product writes follow their published schemas."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import jsonschema
import pytest

import tilesim as ts
from tilesim.base.paths import configs_dir
from tilesim.validation import tables as validate


def validator(schema: dict[str, object]) -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8"])
@pytest.mark.parametrize("timeline", [False, True])
def test_result(machine: str, timeline: bool, tmp_path: Path) -> None:
    result = ts.simulate(ts.compile(ts.models.mlp(), machine), timeline=timeline)
    validator(ts.Result.schema()).validate(result.data)
    result.save(tmp_path / "result.json")
    validator(ts.Result.schema()).validate(json.loads((tmp_path / "result.json").read_text(encoding="utf-8")))
    assert result.data["versions"]["tilesim"] == ts.__version__


@pytest.mark.parametrize("level", ["instruction", "live"])
def test_result_of_a_level(level: str, tmp_path: Path) -> None:
    result = ts.simulate(ts.compile(ts.models.mlp(), "edge-8"), level=level)
    validator(ts.Result.schema()).validate(result.data)
    result.save(tmp_path / "result.json")
    read = ts.Result.load(tmp_path / "result.json")
    assert read.cycles == result.cycles and read.data.get("live") == result.data.get("live")
    assert ("live" in read.data) == (level == "live")


def test_result_schema_refuses_what_is_not_a_result() -> None:
    data = ts.simulate(ts.compile(ts.models.mlp(), "tpu-v3")).data
    for change in ({"cycles": -1}, {"extra": 1}, {"bottleneck_share": 2.0}, {"units": [{"unit": "x"}]}):
        assert list(validator(ts.Result.schema()).iter_errors({**copy.deepcopy(data), **change}))


def test_validation_file(tmp_path: Path) -> None:
    cases = tmp_path / "cases.csv"
    cases.write_text("workload,measured_cycles\ngemm_256x256x256,4000\nnonsense,1\n", encoding="utf-8")
    schema = json.loads((configs_dir() / "schemas" / "validation.json").read_text(encoding="utf-8"))
    report = validate.tpu_v3(cases)
    validator(schema).validate(report)
    assert [row["status"] for row in report["rows"]] == ["ok", "invalid"]
    report["rows"][1]["error"] = 0.5
    assert list(validator(schema).iter_errors(report))
