"""Compiled programs whose tensors' layouts do not fit."""

from __future__ import annotations

import json

import pytest

import tilesim as ts
from support.format_graphs import graphs
from tilesim import _core


@pytest.mark.parametrize(
    "layout",
    [{"minor_to_major": [0]}, {"minor_to_major": [0, 0]}, {"tile": [8]}, {"tile": [2, 8, 128]}],
    ids=str,
)
def test_layouts_that_fit_no_tensor(layout: dict[str, list[int]]) -> None:
    document = json.loads(ts.compile(graphs()[0], "tpu-v3").core.to_json())
    document["tensors"][0].update(layout)
    with pytest.raises(ts.UserError, match=r"minor_to_major|tile"):
        _core.Program.from_json(json.dumps(document))
