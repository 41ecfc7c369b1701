"""Sharded programs of JAX: outputs as one device gives them, bytes against XLA's partitioner, shardings against Shardy.

As a script it prints the three shares of the whole corpus: `python tests/cluster/test_corpus.py`.
"""

import functools
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
from support.divided import arrays, differing, sent

SCRIPT = Path(__file__).with_name("corpus") / "write.py"
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


def names():
    """Programs in their order, as the files register them."""
    found = []
    for group in ("layers", "places", "images", "moves", "loops"):
        text = SCRIPT.with_name(f"{group}.py").read_text(encoding="utf-8").split("\n@prog(")[1:]
        found += [part.split("\ndef ", 1)[1].partition("(")[0] for part in text]
    return found


NAMES = names()
#: the sixth that the normal run takes
FEW = NAMES[::6]
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")


def written(directory, chosen):
    """Runs the script that writes the programs, all in one process."""
    command = [sys.executable, str(SCRIPT), str(directory), *chosen]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return Path(directory)


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
    return more, count, len(apart)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Directory of the sixth of the corpus."""
    return written(tmp_path_factory.mktemp("corpus"), FEW)


def test_the_corpus_is_large():
    assert len(set(NAMES)) == len(NAMES) >= 175


@needs_jax
@pytest.mark.parametrize("name", FEW)
def test_as_on_one_device_and_no_more_bytes_than_xla(programs, name):
    more, _, _ = compared(programs / name, name)
    assert more == (name in MORE)


def checked(folder, chosen):
    rows = [compared(folder / name, name) for name in chosen]
    total, apart = sum(row[1] for row in rows), sum(row[2] for row in rows)
    more = [name for name, row in zip(chosen, rows, strict=True) if row[0]]
    print(f"{len(chosen)} programs kept apart and equal; {len(more)} send more than 1.05 of XLA's "
          f"({100 * len(more) / len(chosen):.1f} %): {', '.join(more)}; "
          f"{total - apart} of {total} values divided as by Shardy ({100 - 100 * apart / total:.1f} %)")  # fmt: skip
    return more, total, apart


@needs_jax
def test_values_of_the_sixth_are_divided_as_shardy_says(programs):
    _, total, apart = checked(programs, FEW)
    assert total >= 250 and apart <= 0.1 * total  # of the whole corpus 0.05


@needs_jax
@pytest.mark.slow
def test_the_whole_corpus(tmp_path):
    more, total, apart = checked(written(tmp_path, []), NAMES)
    assert set(more) == set(MORE)
    assert len(more) <= 0.1 * len(NAMES) and apart <= 0.05 * total


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        checked(written(made, []), NAMES)
