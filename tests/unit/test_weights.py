"""Weight files: equal elements back, lazily; damaged ones refused."""

from __future__ import annotations

import json
import struct

import ml_dtypes
import numpy as np
import pytest

import tilesim as ts
from tilesim.graph.weights import open_weights

RNG = np.random.default_rng(2)
NAMES = {
    np.dtype(np.float32): "F32",
    np.dtype(np.float16): "F16",
    np.dtype(ml_dtypes.bfloat16): "BF16",
    np.dtype(np.int64): "I64",
}


def write_safetensors(path, tensors, **extra):
    """The format by its description: header length, JSON header, elements."""
    header, data = {"__metadata__": {"format": "test"}}, b""
    for name, array in tensors.items():
        header[name] = {
            "dtype": NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + array.nbytes],
            **extra,
        }
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def network():
    b = ts.GraphBuilder("net")
    h = b.linear(b.input("x", (2, 6)), 4, name="hidden")
    b.output(b.linear(h, 3, name="scores"), "y")
    return b.build()


def elements(graph):
    return {name: RNG.standard_normal(row["shape"]).astype(np.float32) for name, row in graph.weights().items()}


def test_safetensors_stay_in_their_file(tmp_path):
    graph = network()
    given = elements(graph)
    write_safetensors(tmp_path / "model.safetensors", given)
    assert sorted(graph.load_weights(tmp_path / "model.safetensors")) == sorted(given)
    for name, array in given.items():
        assert graph.weights()[name]["source"] == "file"
        np.testing.assert_array_equal(graph.weight(name), array)
    x = RNG.standard_normal((2, 6)).astype(np.float32)
    h = x @ given["hidden.weight"].T + given["hidden.bias"]
    wanted = h @ given["scores.weight"].T + given["scores.bias"]
    np.testing.assert_allclose(ts.reference(graph, [x])["y"], wanted, rtol=1e-5, atol=1e-6)
    graph.save(tmp_path / "net.tsim")
    assert ts.Graph.load(tmp_path / "net.tsim").weight("scores.bias").tobytes() == given["scores.bias"].tobytes()


def test_a_file_can_replace_itself(tmp_path):
    graph = network()
    given = {name: RNG.standard_normal(row["shape"]).astype(np.float32) for name, row in graph.weights().items()}
    graph.load_weights(given)
    big = ts.GraphBuilder("big")
    big.output(big.project(big.input("x", (1, 64)), big.weight("w", data=np.eye(64, dtype=np.float32))), "y")
    path = tmp_path / "big.tsim"
    big.build().save(path)
    loaded = ts.Graph.load(path)
    loaded.save(path)
    np.testing.assert_array_equal(ts.Graph.load(path).weight("w"), np.eye(64, dtype=np.float32))


def test_shards(tmp_path):
    graph = network()
    given = elements(graph)
    names = list(given)
    index = {}
    for i in range(2):
        shard = f"model-{i}.safetensors"
        part = {name: given[name] for name in names[i::2]}
        write_safetensors(tmp_path / shard, part)
        index.update(dict.fromkeys(part, shard))
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": index}), encoding="utf-8")
    for source in (path, tmp_path):
        graph.load_weights(source)
        for name, array in given.items():
            np.testing.assert_array_equal(graph.weight(name), array)
    path.write_text(json.dumps({"weight_map": {"a": "../model-0.safetensors"}}), encoding="utf-8")
    with pytest.raises(ts.UserError, match="outside"):
        graph.load_weights(path)


@pytest.mark.parametrize("compressed", [False, True])
def test_npz(tmp_path, compressed):
    graph = network()
    given = elements(graph)
    (np.savez_compressed if compressed else np.savez)(tmp_path / "model.npz", **given)
    graph.load_weights(tmp_path / "model.npz")
    for name, array in given.items():
        np.testing.assert_array_equal(graph.weight(name), array)


def test_pt(tmp_path):
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'tilesim[torch]'")
    graph = network()
    given = elements(graph)
    state = {name: torch.from_numpy(array) for name, array in given.items()}
    torch.save({"state_dict": state, "step": 7}, tmp_path / "model.pt")
    graph.load_weights(tmp_path / "model.pt")
    for name, array in given.items():
        np.testing.assert_array_equal(graph.weight(name), array)


class Trap:
    """Would run code when it is unpickled."""

    def __reduce__(self):
        return (print, ("trapped",))


def test_pt_runs_nothing(tmp_path, capsys):
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'tilesim[torch]'")
    torch.save({"a": Trap()}, tmp_path / "trap.pt")
    with pytest.raises(ts.UserError, match="weights_only=True"):
        open_weights(tmp_path / "trap.pt")
    assert "trapped" not in capsys.readouterr().out


def test_names_shapes_and_dtypes(tmp_path):
    graph = network()
    given = elements(graph)
    with pytest.raises(ts.UserError, match=r"missing.*'scores.weight'"):
        graph.load_weights({name: array for name, array in given.items() if name != "scores.weight"})
    graph.load_weights({f"model.{name}": array for name, array in given.items()}, lambda name: f"model.{name}")
    np.testing.assert_array_equal(graph.weight("scores.bias"), given["scores.bias"])
    with pytest.raises(ts.UserError, match="wrong shape"):
        graph.load_weights({**given, "scores.bias": np.zeros(4, np.float32)})
    half = {name: array.astype(ml_dtypes.bfloat16) for name, array in given.items()}
    with pytest.raises(ts.UserError, match="wrong dtype"):
        graph.load_weights(half)
    graph.load_weights(half, convert=True)
    np.testing.assert_array_equal(graph.weight("hidden.bias"), half["hidden.bias"].astype(np.float32))


DAMAGED = {
    "too long a header": struct.pack("<Q", 1 << 60) + b"{}",
    "a header of no JSON": struct.pack("<Q", 4) + b"abcd",
    "an empty file": b"",
    "no object": struct.pack("<Q", 2) + b"[]",
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_safetensors(tmp_path, what):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(DAMAGED[what])
    with pytest.raises(ts.UserError):
        open_weights(path)


@pytest.mark.parametrize(
    "extra",
    [
        {"shape": [1 << 40, 1 << 40]},
        {"data_offsets": [0, 1 << 62]},
        {"data_offsets": [-4, 0]},
        {"dtype": "F13"},
        {"shape": "x"},
    ],
    ids=str,
)
def test_headers_that_lie(tmp_path, extra):
    path = tmp_path / "bad.safetensors"
    write_safetensors(path, {"a": np.zeros((2, 2), np.float32)}, **extra)
    with pytest.raises(ts.Error):
        open_weights(path)


def test_npz_with_objects_or_false_sizes(tmp_path):
    path = tmp_path / "bad.npz"
    np.savez(path, a=np.array([{}], dtype=object))
    with pytest.raises(ts.Unsupported, match="object"):
        open_weights(path)
    np.savez(path, a=np.zeros(100, np.float32))
    data = path.read_bytes().replace(b"(100,)", b"(999,)")
    path.write_bytes(data)
    with pytest.raises(ts.UserError):
        open_weights(path)


def test_a_file_that_shrinks_is_refused(tmp_path):
    graph = network()
    write_safetensors(tmp_path / "model.safetensors", elements(graph))
    graph.load_weights(tmp_path / "model.safetensors")
    data = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(ts.UserError, match="too short"):
        ts.reference(graph)


@pytest.mark.parametrize(("rank", "is_read"), [(1, True), (63, True), (64, True), (65, False), (1000, False)])
def test_dimensions_that_arrays_have(tmp_path, rank, is_read):
    """As many as an array of numpy can have, and no more."""
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"w": np.arange(6, dtype=np.float32).reshape(2, 3)}, shape=[1] * (rank - 1) + [6])
    b = ts.GraphBuilder("net")
    b.output(b.input("x", (6,)) * b.weight("w", [1] * (min(rank, 64) - 1) + [6]).reshape(6), "y")
    graph = b.build()
    if is_read:
        assert graph.load_weights(path) == ["w"]
        (y,) = ts.reference(graph, [np.ones(6, np.float32)]).values()
        np.testing.assert_array_equal(y, np.arange(6))
    else:
        with pytest.raises(ts.UserError, match="too many elements or dimensions"):
            graph.load_weights(path)
