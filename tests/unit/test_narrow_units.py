"""Constants of a family on a device whose units have fewer lanes."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tilesim as ts
from tilesim.analytic.families import family
from tilesim.analytic.gemm import estimator, gemm_seconds


def test_half_the_lanes_are_at_work_for_more_of_the_time() -> None:
    entry = family("ada").find("gemm", "bf16")
    assert entry is not None
    l40s, geforce = (estimator(name, "bf16").entry for name in ("l40s", "rtx-4090"))
    assert l40s.constants["efficiency"] == entry.constants["efficiency"]
    assert geforce.constants["efficiency"] == min(1.0, 2 * entry.constants["efficiency"])
    assert "512 here" in geforce.provenance["efficiency"]
    assert estimator("l4", "bf16").entry.constants["efficiency"] == entry.constants["efficiency"]


def test_never_beyond_the_peak() -> None:
    device = ts.Device.load("rtx-4090")
    for extent in (1024, 4096, 16384):
        peak = 2 * extent**3 / device.rate("bf16").flops_per_second
        assert float(gemm_seconds(device, extent, extent, extent, "bf16")) > peak


@pytest.mark.parametrize("lanes", [1.0, 0.8, 0.5, 0.25])
def test_fewer_lanes_are_never_quicker(lanes: float) -> None:
    whole = ts.Device.load("l40s")
    rates = {key: replace(rate, flops_per_second=lanes * rate.flops_per_second) for key, rate in whole.matrix.items()}
    fields = {name: getattr(whole, name) for name in whole.__dataclass_fields__}
    fewer = type(whole)(**{**fields, "matrix": rates})
    own, less = (float(gemm_seconds(one, 4096, 4096, 4096, "bf16")) for one in (whole, fewer))
    assert less >= own * 0.995  # a power limit that is met less sharply may give half a percent
