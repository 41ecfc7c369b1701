"""bitcast to elements of another width: their bytes along a last axis, on machines too. numpy's view is the oracle."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts
from tilesim.base.dtypes import NUMPY

PAIRS = [("f32", "u8"), ("u8", "i32"), ("f64", "f32"), ("f32", "f64"), ("c128", "f64"), ("f64", "c128"), ("i64", "u16")]


@pytest.mark.singly
@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("shape", [(3,), (5, 8), (4, 33, 24)])
def test_bytes_of_elements(source, target, shape):
    wide, narrow = np.dtype(NUMPY[source]).itemsize, np.dtype(NUMPY[target]).itemsize
    whole = (*shape, narrow // wide) if narrow > wide else shape
    given = np.random.default_rng(0).integers(1, 120, int(np.prod(whole)) * wide, dtype=np.uint8)
    given = given.view(NUMPY[source]).reshape(whole)
    wanted = given.view(NUMPY[target]).reshape(shape if narrow > wide else (*shape, wide // narrow))
    b = ts.GraphBuilder("bits")
    y = b.op("bitcast", b.input("x", whole, source), dtype=target)
    b.output(b.op("reverse", y, dims=[0]), "turned")
    b.output(b.op("bitcast", y, dtype=source), "back")
    graph = b.build()
    for machine in ("edge-8", "tpu-v3", "mesh-16"):
        found = ts.execute(ts.compile(graph, machine), [given])
        assert found["turned"].tobytes() == wanted[::-1].tobytes()
        assert found["back"].tobytes() == given.tobytes()


def test_widths_that_do_not_fit():
    b = ts.GraphBuilder("bits")
    for shape, source, target in (
        ((4, 3), "u8", "f32"),
        ((), "u8", "f32"),
        ((4, 2), "i4", "i8"),
        ((4,), "f6e2m3fn", "u8"),
    ):
        with pytest.raises(ts.UserError, match="bitcast keeps the width"):
            b.op("bitcast", b.input(f"x{source}{len(shape)}", shape, source), dtype=target)
