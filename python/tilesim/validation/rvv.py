"""Compares the instruction pipeline with measured cores in cycles per vector instruction."""

from __future__ import annotations

import os
from typing import Any

from .. import _core
from .._core import UserError
from ..base.errors import nearest, shown, user_error
from ..base.files import read_text
from ..base.paths import configs_dir
from ..base.progress import followed
from ..base.validation import envelope, positive, read_cases

__all__ = ["rvv"]

_COLUMNS = ("core", "instruction", "sew", "lmul", "vl", "cycles")
_LMULS = {"mf8": -3, "mf4": -2, "mf2": -1, "m1": 0, "m2": 1, "m4": 2, "m8": 3}
_CAP = 0.5  # largest error of a row in the capped mean
_TOLERANCE = 0.1
_TOGETHER = 256  # rows per call of the core
_Row = dict[str, Any]
_FITTED = """
vadc:vim,vvm,vxm vand:vi,vv,vx vcompress:vm vdiv:vv,vx vdivu:vv,vx vfclass:v vfcvt:rtz.x.f.v,rtz.xu.f.v,x.f.v
vfdiv:vf,vv vfirst:m vfmacc:vf,vv vfmax:vf,vv vfmin:vf,vv vfmsac:vf,vv vfmsub:vf,vv vfmv:s.f
vfncvt:f.x.w,rod.f.f.w,rtz.x.f.w vfnmadd:vf,vv vfnmsub:vf,vv vfredmax:vs vfredmin:vs vfredosum:vs vfrsqrt7:v
vfrsub:vf vfsgnj:vf,vv vfsgnjn:vf,vv vfsgnjx:vf,vv vfslide1down:vf vfslide1up:vf vfsqrt:v vfsub:vf,vv
vfwadd:vf,vv,wf,wv vfwcvt:f.f.v,f.x.v,f.xu.v,xu.f.v vfwmacc:vf,vv vfwmsac:vf,vv vfwnmsac:vf,vv vfwredosum:vs
vfwredusum:vs vid:v viota:m vmandn:mm vmaxu:vv,vx vmfge:vf,vv vmfgt:vf,vv vmfle:vf,vv vmflt:vf,vv vmin:vv,vx
vminu:vv,vx vmnand:mm vmnor:mm vmorn:mm vmsbc:vv,vvm,vx,vxm vmsbf:m vmseq:vi,vv,vx vmsgt:vi,vx vmsif:m
vmsle:vi,vv,vx vmsltu:vv,vx vmsof:m vmul:vv,vx vmulhsu:vv,vx vmulhu:vv,vx vmv:s.x,v.i,v.v,v.x,x.s vmv1r:v
vmv2r:v vmv8r:v vmxnor:mm vmxor:mm vnmsac:vv,vx vnsra:wi,wv,wx vnsrl:wi,wv,wx vor:vi,vv,vx vredand:vs vredmax:vs
vredmin:vs vredor:vs vredsum:vs vrem:vv,vx vremu:vv,vx vrgather:vi,vv,vx vrsub:vi,vx vsadd:vi,vv,vx
vsext:vf2,vf4,vf8 vslide1down:vx vslide1up:vx vslidedown:vi,vx vslideup:vi,vx vsmul:vv,vx vssrl:vi,vv,vx
vssub:vv,vx vsub:vv,vx vwaddu:vv,vx,wv,wx vwmacc:vv,vx vwmaccsu:vv,vx vwmul:vv,vx vwmulsu:vv,vx vwredsum:vs
vwredsumu:vs vwsub:vv,vx,wv,wx vxor:vi,vv,vx vzext:vf2,vf4,vf8
"""
FITTED = frozenset(
    f"{stem}.{form}" for stem, _, forms in (w.partition(":") for w in _FITTED.split()) for form in forms.split(",")
)
"""Instructions of the rows to which the cores' numbers were fitted."""


def _case(row: _Row) -> tuple[str, int, int, bool]:
    """Parses a row into instruction text, SEW, log2 of LMUL, and whether vl is 1."""
    sew, lmul, vl = (str(row[column] or "").strip() for column in ("sew", "lmul", "vl"))
    if sew not in ("8", "16", "32", "64"):
        raise user_error("sew is not an element width", value=shown(row["sew"]), allowed="8, 16, 32, 64")
    if lmul not in _LMULS:
        raise user_error("lmul is not a register group", value=shown(row["lmul"]), allowed=", ".join(_LMULS))
    if vl not in ("max", "1"):
        raise user_error("vl was not measured", value=shown(row["vl"]), allowed="max, 1")
    text = str(row["instruction"] or "").strip()
    if not text or "\n" in text or ";" in text or ":" in text:
        raise user_error(
            "the row does not name one instruction", value=shown(row["instruction"]), allowed="vadd.vv v8,v16,v24"
        )
    return text, int(sew), _LMULS[lmul], vl == "1"


def _names() -> list[str]:
    return sorted(path.stem for path in (configs_dir() / "cores").glob("*.json"))


def _core_text(name: str) -> tuple[str, str]:
    names = _names()
    if name not in names:
        suggestion = nearest(name, names)
        what = "unknown core"
        raise user_error(what, value=shown(name), allowed=", ".join(names), suggestion=suggestion)
    path = str(configs_dir() / "cores" / f"{name}.json")
    return read_text(path), path


def _predict(name: str, rows: list[_Row]) -> None:
    """Fills the predictions of one core into its rows, `_TOGETHER` rows per call."""
    ready: list[tuple[_Row, tuple[str, int, int, bool]]] = []
    try:
        core, path = _core_text(name)
    except UserError as error:
        for row in rows:
            row.update(status="unsupported", reason=str(error))
        return
    for row in rows:
        try:
            row["measured_cycles"] = positive(row, "cycles")
            ready.append((row, _case(row)))
        except UserError as error:
            row.update(status="invalid", reason=str(error), measured_cycles=None)
    parts = [ready[start : start + _TOGETHER] for start in range(0, len(ready), _TOGETHER)]
    for part in followed(parts):
        told = _core.isa_loops(core, [case for _, case in part], file=path)
        for (row, _), cycles in zip(part, told, strict=True):
            if isinstance(cycles, str):
                row.update(status="unsupported", reason=cycles)
                continue
            row["predicted_cycles"] = cycles
            row["error"] = cycles / row["measured_cycles"] - 1


def _accuracy(rows: list[_Row]) -> dict[str, float]:
    """Returns the share of rows within 10 %, and the mean error capped at 50 %; failed rows count as 50 %."""
    errors = [abs(row["error"]) if row["status"] == "ok" else 1.0 for row in rows]
    n = max(len(errors), 1)
    capped = sum(min(error, _CAP) for error in errors) / n
    return {"within_10_percent": sum(error <= _TOLERANCE for error in errors) / n, "mean_capped_error": capped}


def rvv(cases: str | os.PathLike[str]) -> dict[str, Any]:
    """Runs every row's measuring loop on the pipeline model.

    The loop has eight copies of the instruction on rotated registers, addi and bnez, and runs 512 times.
    """
    rows: list[_Row] = []
    for given in read_cases(cases, _COLUMNS):
        row: _Row = {**given, "status": "ok", "reason": "", "measured_cycles": None, "predicted_cycles": None}
        row.update({"error": None, "fitted": str(given["instruction"] or "").partition(" ")[0] in FITTED})
        rows.append(row)
    by_core: dict[str, list[_Row]] = {}
    for row in rows:
        by_core.setdefault(str(row["core"] or ""), []).append(row)
    for name, members in by_core.items():
        _predict(name, members)
    settings = {"copies": 8, "trips": 512, "cores": sorted(by_core)}
    report = envelope("rvv", settings, rows, lambda row: str(row["core"] or ""))
    for name, members in by_core.items():
        report["groups"][name].update(_accuracy(members))
    return {**report, **_accuracy(rows)}
