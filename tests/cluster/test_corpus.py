"""Sharded programs of JAX: outputs as one device gives them, bytes against XLA's partitioner, shardings against Shardy.

As a script it prints the three shares of the whole corpus: `python tests/cluster/test_corpus.py`.
"""

import functools
import importlib.util
import tempfile

import numpy as np
import pytest

import tilesim as ts
from support.divided import SCRIPT, arrays, differing, sent, written

#: sends more than 1.05 times what XLA's program does, and why
MORE = {
    "cumlogsumexp": "32 slices are exchanged one by one, XLA gathers what they cut once",
    "max_pool_overlapping_gradient": "a pooling's gradient whose windows overlap has whole planes",
    "uneven_rows": "another division of an uneven axis goes through the whole axis",
    "uneven_turned": "another division of an uneven axis goes through the whole axis",
}
#: XLA's own program is not read: complex numbers pass between devices
UNREAD = {"fourier"}
#: refused by the reader of what Shardy leaves: a scalar's sharding on a tensor
UNSPREAD = {"cumlogsumexp"}
#: values that Shardy divides otherwise, of programs in the normal run
APART = {"sequence": 1, "ulysses": 1, "looked_up_in_a_loop": 3, "batch_norm": 1, "roll": 1, "uneven_turned": 1,
         "cond_layers": 1}  # fmt: skip


def names():
    """Programs in their order, as the files register them."""
    found = []
    for group in ("layers", "places", "images", "moves", "loops"):
        text = SCRIPT.with_name(f"{group}.py").read_text(encoding="utf-8").split("\n@prog(")[1:]
        found += [part.split("\ndef ", 1)[1].partition("(")[0] for part in text]
    return found


NAMES = names()
#: the normal run takes every sixth, and sorts of programs that these lack
SORTS = [
    "fsdp", "heads", "head", "routed", "cache_heads", "conv_plane", "max_pool", "conv_kernel_gradient",
    "differences",
]  # fmt: skip
FEW = [*NAMES[::6], *(name for name in [*SORTS, "scan_tensor", "cond_layers", "parted"] if name not in NAMES[::6])]
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")


def wrong(folder, spmd):
    """What is unlike the outputs of one device."""
    if spmd.devices != 8:
        return f"{spmd.devices} devices"
    found = ts.execute(spmd, arrays(folder / "inputs.npz"))
    for (name, own), want in zip(found.items(), arrays(folder / "outputs.npz"), strict=True):
        own = np.asarray(own)
        exact = want.dtype.kind in "iub"
        tolerance = 0 if exact else 1e-4 * np.abs(want).max(initial=1e-3)
        if own.shape != want.shape or own.dtype != want.dtype or not np.allclose(own, want, rtol=0, atol=tolerance):
            return name
    return ""


def bytes_sent(folder, spmd):
    """By our program and by XLA's."""
    theirs = ts.from_stablehlo((folder / "partitioned.mlir").read_text(encoding="utf-8"))
    theirs.annotate(devices=8)
    return sent(spmd), sent(ts.cluster.Spmd.from_partitioned(theirs))


@functools.cache
def compared(folder, name):
    """Whether the program sends more than XLA's, and its values: all, and those that Shardy divides otherwise."""
    spmd = ts.partition(ts.from_stablehlo((folder / "module.mlir").read_text(encoding="utf-8")))
    assert not wrong(folder, spmd), name
    more = False
    if name not in UNREAD:
        own, bound = bytes_sent(folder, spmd)
        more = own > 1.05 * bound
        print(name, own, bound, "MORE" if more else "")
    if name in UNSPREAD:
        return more, 0, 0
    count, apart = differing(folder / "module.mlir", folder / "shardy.mlir")
    print(name, count, *apart)
    return more, count, len(apart)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Directory of the sixth of the corpus."""
    return written(tmp_path_factory.mktemp("corpus"), FEW)


def test_the_corpus_is_large():
    assert len(set(NAMES)) == len(NAMES) >= 175


@needs_jax
@pytest.mark.parametrize("name", FEW)
def test_as_on_one_device_with_no_more_bytes_than_xla_and_shardings_of_shardy(programs, name):
    more, _, apart = compared(programs / name, name)
    assert more == (name in MORE) and apart <= APART.get(name, 0)


def checked(folder, chosen):
    rows = [compared(folder / name, name) for name in chosen]
    total, apart = sum(row[1] for row in rows), sum(row[2] for row in rows)
    more = [name for name, row in zip(chosen, rows, strict=True) if row[0]]
    print(f"{len(chosen)} programs kept apart and equal; {len(more)} send more than 1.05 of XLA's "
          f"({100 * len(more) / len(chosen):.1f} %): {', '.join(more)}; "
          f"{total - apart} of {total} values divided as by Shardy ({100 - 100 * apart / total:.1f} %)")  # fmt: skip
    return more, total, apart


@needs_jax
@pytest.mark.parametrize("name", FEW[::3])
def test_shardings_of_shardy_divide_programs_too(programs, name):
    graph = ts.from_stablehlo((programs / name / "module.mlir").read_text(encoding="utf-8"))
    assert not wrong(programs / name, ts.partition(graph, by="shardy"))


@needs_jax
@pytest.mark.slow
def test_the_whole_corpus(tmp_path):
    more, total, apart = checked(written(tmp_path, []), NAMES)
    assert set(more) == set(MORE)
    assert len(more) <= 0.1 * len(NAMES) and apart <= 0.05 * total


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        checked(written(made, []), NAMES)
