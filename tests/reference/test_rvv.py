"""Measured vector cores: the whole table, how few numbers were fitted, and what a bad row is told."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import tilesim as ts
from support.reference import table
from tilesim import _core
from tilesim.validation.rvv import FITTED, rvv

CORES = ("saturn-256-128", "sifive-x280", "xuantie-c908", "andes-ax45mpv")
HEADER = "core,instruction,sew,lmul,vl,cycles\n"


@pytest.mark.slow  # the shipped sample is in test_samples.py
def test_whole_table() -> None:
    report = rvv(table("rvv_cycles.csv"))
    assert report["n"] == 13761
    assert report["n_unsupported"] == 0
    assert set(report["groups"]) == set(CORES)
    for group in [report, *report["groups"].values()]:
        assert group["within_10_percent"] >= 0.93
        assert group["mean_capped_error"] <= 0.05


def test_every_row_says_what_it_was_fitted_on() -> None:
    with open(table("rvv_cycles.csv"), newline="", encoding="utf-8") as text:
        seen = {row["instruction"].partition(" ")[0] for row in csv.DictReader(text)}
    assert seen == FITTED
    # a test of the list itself: instructions that the table lacks
    assert not {"vadd.vv", "vfadd.vv", "vmacc.vv", "vsll.vv"} & FITTED


@pytest.mark.parametrize("name", CORES)
def test_few_numbers_by_class(name: str) -> None:
    data = json.loads(ts.isa.Core.load(name).timing)
    numbers = 0
    for values in data["classes"].values():
        for value in values.values():
            numbers += 0 if isinstance(value, bool) else len(value) if isinstance(value, list) else 1
    assert numbers + ("bubble" in data) + ("mask_pipes" in data) <= 60
    assert data["sources"]
    assert not set(data["classes"]) & {row["name"] for row in ts.isa.instructions()}  # classes, no instructions


def test_every_vector_instruction_has_a_class_of_its_kind() -> None:
    """Neighbours cost alike: an instruction with its twin that another sign, form or direction makes."""
    classes = _core.isa_timing_classes()
    twins = [
        ("vadd.vv", "vsub.vv"), ("vmax.vv", "vminu.vv"), ("vsll.vi", "vsrl.vi"), ("vmacc.vv", "vnmsac.vv"),
        ("vmadd.vx", "vnmsub.vx"), ("vfadd.vv", "vfsub.vv"), ("vfmadd.vv", "vfnmacc.vv"), ("vmslt.vv", "vmsltu.vv"),
        ("vmfeq.vv", "vmflt.vv"), ("vredmax.vs", "vredmin.vs"), ("vredxor.vs", "vredand.vs"),
        ("vwmaccus.vx", "vwmacc.vx"), ("vnclip.wi", "vnsrl.wi"), ("vfrec7.v", "vfrsqrt7.v"), ("vcpop.m", "vfirst.m"),
        ("vmand.mm", "vmxor.mm"), ("vsbc.vvm", "vadc.vvm"), ("vmadc.vvm", "vmsbc.vvm"), ("vfmv.f.s", "vmv.x.s"),
        ("vrgatherei16.vv", "vrgather.vv"), ("vfrdiv.vf", "vfdiv.vf"), ("vfwnmacc.vv", "vfwmacc.vv"),
        ("vaadd.vv", "vsadd.vv"), ("vssra.vv", "vssrl.vv"), ("vfncvt.f.f.w", "vfncvt.rod.f.f.w"),
        ("vmv4r.v", "vmv2r.v"), ("vfwsub.wv", "vfwadd.wv"), ("vmulh.vv", "vmulhu.vv"),
    ]  # fmt: skip
    assert {pair: classes[pair[0]] for pair in twins} == {pair: classes[pair[1]] for pair in twins}
    assert len(set(classes.values())) > 40


def test_bad_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    rows = [
        ("nowhere", "vadd.vv v8,v16,v24", "8", "m1", "max", "1"),
        ("generic", "vadd.vv v8,v16,v24", "8", "m1", "max", "1"),
        ("generic", "vadd.vw v8,v16,v24", "8", "m1", "max", "1"),
        ("generic", "vadd.vv v8,v16,v24", "9", "m1", "max", "1"),
        ("generic", "vadd.vv v8,v16,v24", "8", "m3", "max", "1"),
        ("generic", "vadd.vv v8,v16,v24", "8", "m1", "7", "1"),
        ("generic", "vadd.vv v8,v16,v24", "8", "m1", "max", "-1"),
        ("generic", "vadd.vv v8,v16,v24", "64", "mf8", "max", "1"),
    ]
    lines = [f'{core},"{text}",{",".join(rest)}' for core, text, *rest in rows]
    path.write_text(HEADER + "\n".join(lines) + "\n")
    report = rvv(path)
    told = [row["status"] for row in report["rows"]]
    assert told == ["unsupported", "ok", "unsupported", "invalid", "invalid", "invalid", "invalid", "unsupported"]
    assert "vadd.vv" in report["rows"][2]["reason"]
    assert report["n_unsupported"] == 7
    assert all(row["error"] is None for row in report["rows"] if row["status"] != "ok")
    path.write_text("core,instruction\n")
    with pytest.raises(ts.UserError, match="missing column"):
        rvv(path)
