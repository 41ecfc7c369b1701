"""StableHLO's operations in all element types beside its reference interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts

pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")
from support.stablehlo_cases import CASES, interpreted


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    return interpreted(CASES, tmp_path_factory.mktemp("interpreted"))


def agrees(name: str, found: Any, wanted: Any) -> None:
    double = wanted.dtype == np.float64
    exact = wanted.dtype.kind in "iu" or name.startswith(("reduce_precision", "bitcast_convert"))
    close = 0.0 if exact else 1e-9 if double else 2e-4
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found, wanted, rtol=close, atol=close, err_msg=name)


@pytest.mark.few(2)
@pytest.mark.parametrize("operation", sorted({name.partition(" ")[0] for name in CASES}))
def test_values_of_the_interpreter(operation, results):
    for name, (text, arrays) in CASES.items():
        if name.partition(" ")[0] == operation:
            found = ts.reference(ts.from_stablehlo(text), arrays).values()
            for ours, theirs in zip(found, results[name], strict=True):
                agrees(name, np.asarray(ours), theirs)
