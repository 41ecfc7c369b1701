"""Converts DRAM parts from the form of Ramulator 2.1's resolved presets, which the reference tables have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import user_error
from ..base.kinds import as_kind

_LEVELS = {
    "Channel": "channel",
    "PseudoChannel": "pseudo_channel",
    "Rank": "rank",
    "Sid": "stack",
    "BankGroup": "bank_group",
    "Bank": "bank",
    "Row": "row",
    "Column": "column",
}
# For each controller of the reference: command bus, edges, and the level of an all-bank refresh.
_CONTROLLERS: dict[str, dict[str, str]] = {
    "GenericDDR": {"command_bus": "shared"},
    "LPDDR5": {"command_bus": "shared"},
    "HBM12": {"command_bus": "row_and_column"},
    "HBM34": {"command_bus": "row_and_column", "edges": "both"},
}


def is_reference_form(data: Mapping[str, Any]) -> bool:
    """Whether a dict is one entry of a reference file."""
    return "timing_cycles" in data and "constraints" in data


def _constraint(entry: Mapping[str, Any], place: str) -> dict[str, Any]:
    _keys(entry, {"after": [str], "before": [str], "cycles": int, "level": str}, place)
    result = {key: entry[key] for key in ("after", "before", "cycles")}
    result["level"] = _LEVELS.get(entry["level"], entry["level"])
    if entry.get("window") == 1:  # a window of 1 marks a constraint between siblings
        result["sibling"] = True
    elif "window" in entry:
        result["window"] = entry["window"]
    return result


def _keys(data: Any, kinds: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """Checks that an object has at least these keys, each with a value of its kind."""
    as_kind(data, dict, place)
    for key, kind in kinds.items():
        if key not in data:
            raise user_error("a part in the reference form lacks a key", place=place, value=f"'{key}'")
        as_kind(data[key], kind, f"{place}.{key}")
    return dict(data)


_PART = {
    "standard": str,
    "burst_bytes": int,
    "prefetch": int,
    "read_latency_cycles": int,
    "levels": {str: int},
    "timing_cycles": {str: float},
    "constraints": [dict],
    "controller": dict,
}
_CONTROLLER = {
    "impl": str,
    "read_buffer_size": int,
    "write_buffer_size": int,
    "wr_high_watermark": float,
    "wr_low_watermark": float,
}


def part_from_reference(data: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """Converts one entry of a reference file to the form of Tilesim's part files."""
    place = name or "part"
    _keys(data, _PART, place)
    controller = _keys(data["controller"], _CONTROLLER, f"{place}.controller")
    impl = controller["impl"]
    if impl not in _CONTROLLERS:
        raise user_error("unknown controller", place=place, value=f"'{impl}'", allowed=", ".join(_CONTROLLERS))
    _keys(data["timing_cycles"], {"tCK_ps": int}, f"{place}.timing_cycles")
    levels = {_LEVELS.get(key, key): count for key, count in data["levels"].items()}
    timing = {key: value for key, value in data["timing_cycles"].items() if key not in ("rate", "tCK_ps")}
    burst = "nBL_min" if "nBL_min" in timing else "nBL"
    features: dict[str, Any] = dict(_CONTROLLERS[impl])
    features["all_bank_scope"] = next((key for key in ("pseudo_channel", "rank") if key in levels), "channel")
    if impl == "LPDDR5":
        features["two_step_activate"] = "nAAD"
        features["clock_sync"] = {kind: f"{start} + nBL_min + nWCKPST" for kind, start in _SYNC.items()}
    fields = [key for key in ("row", "bank", "bank_group", "stack", "pseudo_channel", "rank") if key in levels]
    rows = enumerate(data["constraints"])
    return {
        "schema": "tilesim.dram",
        "version": 1,
        "name": name or data.get("name", data["standard"]),
        "standard": data["standard"],
        "clock_ps": data["timing_cycles"]["tCK_ps"],
        "burst_bytes": data["burst_bytes"],
        "prefetch": data["prefetch"],
        "levels": levels,
        "mapping": " ".join([*fields, "column", "offset"]),
        "features": features,
        "timing": timing,
        "burst_cycles": burst,
        "read_latency": data["read_latency_cycles"],
        "refresh_interval": "nREFI",
        **({"refresh_bank_interval": "nREFIpb"} if "nREFIpb" in timing else {}),
        "constraints": [_constraint(entry, f"{place}.constraints[{i}]") for i, entry in rows],
        "controller": {
            "read_queue": controller["read_buffer_size"],
            "write_queue": controller["write_buffer_size"],
            "write_high_watermark": controller["wr_high_watermark"],
            "write_low_watermark": controller["wr_low_watermark"],
        },
    }


_SYNC = {"read": "nCL", "write": "nCWL"}
