"""The core ATen operators of torch.export: each is read, decomposed by torch, or left out for a written reason."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from tilesim.frontends.torch import frontend as torch_frontend  # noqa: E402, F401 (enters the table)
from tilesim.frontends.torch.nodes import IGNORED  # noqa: E402
from tilesim.frontends.torch.table import TABLE  # noqa: E402

RANDOM = "draws random numbers; the values are torch's own generator's"
DATA = "its size or value is data"
SIZES = "arithmetic on sizes, which torch does while exporting with fixed shapes"
LEFT_OUT = {
    "_cdist_forward.default": "distances of all pairs; no layer of the zoo holds it",
    "_pdist_forward.default": "distances of all pairs; no layer of the zoo holds it",
    "_local_scalar_dense.default": DATA,
    "masked_scatter.default": DATA,
    "nonzero.default": DATA,
    "rand.default": RANDOM,
    "randperm.default": RANDOM,
    "resize_.default": "changes a shape in place; torch.export refuses it",
    "scalar_tensor.default": "depends on no input: evaluated while reading",
    "sym_storage_offset.default": SIZES,
}


def core() -> list[Any]:
    found = []
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::"):
            packet, _, overload = name[6:].partition(".")
            try:
                op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            except AttributeError:
                continue
            if torch.Tag.core in op.tags:
                found.append(op)
    return found


def test_every_core_operator_is_read_decomposed_or_left_out_with_a_reason() -> None:
    decomposed = {*torch.export.default_decompositions(), *torch._decomp.decomposition_table}
    operators = core()
    assert len(operators) > 150
    missing = [op for op in operators if str(op) not in TABLE and str(op) not in IGNORED and op not in decomposed]
    assert {str(op).removeprefix("aten.") for op in missing} == set(LEFT_OUT)
