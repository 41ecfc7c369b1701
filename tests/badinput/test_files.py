"""Files: what is written replaces the old file whole or not at all; what is read stays within its bounds."""

from __future__ import annotations

import base64
import json
import os
import resource
import stat
import subprocess
import sys
import textwrap
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
from tilesim import _core
from tilesim.analytic.families import unpack_keys
from tilesim.analytic.profile import Profile
from tilesim.base.files import read_json, writing
from tilesim.validation.analytic import validate


def small_graph() -> ts.Graph:
    b = ts.GraphBuilder("small")
    b.output(b.op("contract", b.input("x", (2, 600)), b.weight("w", (600, 4)), a_contract=[1], b_contract=[0]))
    graph = b.build()
    graph.set_weight("w", np.ones((600, 4), np.float32))
    return graph


def small_program() -> ts.Program:
    return ts.compile(small_graph(), "edge-8")


def save_mapping(path: Path) -> None:
    ts.mapping.MappingTable({f"{m}_512_512": {"TILE_M": 64, "TILE_N": 64, "TILE_K": 64} for m in range(1, 200)}).save(
        path
    )


def save_timeline(path: Path) -> None:
    ts.simulate(small_program(), timeline=True).timeline(path)


WRITERS = {
    "graph.json": lambda path: small_graph().save(path),
    "graph.tsim": lambda path: small_graph().save(path),
    "program.json": lambda path: small_program().save(path),
    "program.tsim": lambda path: small_program().save(path),
    "result.json": lambda path: ts.simulate(small_program()).save(path),
    "report.html": lambda path: ts.simulate(small_program()).to_html(path),
    "timeline.perfetto": save_timeline,
    "mapping.json": save_mapping,
    "profile.json": lambda path: Profile("p" * 3000, [], frozenset(), [], []).save(path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_keeps_the_old_file(name, tmp_path):
    path = tmp_path / name
    path.write_text("old", encoding="utf-8")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # Python ignores the signal: writing fails
    try:
        with pytest.raises(ts.UserError, match=r"the file cannot be written.*large") as caught:
            WRITERS[name](path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(path) in str(caught.value)
    assert path.read_text(encoding="utf-8") == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    WRITERS[name](path)
    assert path.stat().st_size > 1000
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_what_is_raised_while_writing_keeps_the_old_file(tmp_path):
    path = tmp_path / "text"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(KeyboardInterrupt), writing(path) as file:
        file.write("new")
        raise KeyboardInterrupt
    assert path.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == ["text"]


def test_links_and_permissions_stay(tmp_path):
    path, link = tmp_path / "real", tmp_path / "link"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o640)
    link.symlink_to("real")
    with writing(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert path.read_text(encoding="utf-8") == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    fresh = tmp_path / "fresh"
    with writing(fresh):
        pass
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("where", ["missing/file", "."])
def test_places_that_take_no_file(where, tmp_path):
    with pytest.raises(ts.UserError, match="cannot be written"), writing(tmp_path / where):
        pass


def test_savers_of_one_file_do_not_meet(tmp_path):
    path, failures = tmp_path / "graph.tsim", []
    graphs = [small_graph() for _ in range(4)]
    for number, graph in enumerate(graphs):
        graph.set_weight("w", np.full((600, 4), number, np.float32))

    def save(graph: ts.Graph) -> None:
        try:
            for _ in range(10):
                graph.save(path)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=save, args=(graph,)) for graph in graphs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    found = ts.Graph.load(path).weight("w")
    assert found.min() == found.max()
    assert os.listdir(tmp_path) == ["graph.tsim"]


def test_a_killed_saver_leaves_a_whole_file(tmp_path):
    path = tmp_path / "graph.tsim"
    script = f"""
        import numpy as np, tilesim as ts
        b = ts.GraphBuilder("g")
        b.output(b.apply("add", b.input("x", (1 << 20,)), b.weight("w", (1 << 20,))))
        graph = b.build()
        for number in range(10**6):
            graph.set_weight("w", np.full(1 << 20, number, np.float32))
            graph.save({str(path)!r})
            print(number, flush=True)
    """
    for wait in range(1, 6):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert process.stdout is not None
        for _ in range(wait):
            process.stdout.readline()
        process.kill()
        process.wait()
        process.stdout.close()
        found = ts.Graph.load(path).weight("w")
        assert found.min() == found.max()


READERS = {
    "json": ts.Graph.load,
    "tsim": ts.Graph.load,
    "onnx": ts.from_onnx,
    "mlir": ts.from_stablehlo,
    "npz": lambda path: small_graph().load_weights(path),
    "safetensors": lambda path: small_graph().load_weights(path),
    "machine.json": ts.Machine.load,
    "device.json": ts.Device.load,
    "part.json": ts.memory.Part.load,
    "result.json": ts.Result.load,
    "program.json": ts.Program.load,
    "mapping.json": ts.mapping.MappingTable.load,
    "run.json": lambda path: ts.run(str(path)),
    "sqlite": ts.Store,
    "trace": ts.memory.Trace.read,
}
NEEDS = {"onnx": "onnx", "mlir": "jax"}


@pytest.mark.parametrize("ending", READERS)
def test_no_pipe_is_waited_for(ending, tmp_path):
    """It would block for ever, holding what the process holds."""
    if ending in NEEDS:
        pytest.importorskip(NEEDS[ending])
    path = tmp_path / f"pipe.{ending}"
    os.mkfifo(path)
    with pytest.raises(ts.UserError, match=r"pipe or a device|regular file"):
        READERS[ending](path)


@pytest.mark.parametrize("ending", READERS)
def test_no_device_is_read(ending, tmp_path):
    if ending in NEEDS:
        pytest.importorskip(NEEDS[ending])
    path = tmp_path / f"endless.{ending}"
    path.symlink_to("/dev/zero")
    with pytest.raises(ts.UserError, match=r"pipe or a device|regular file"):
        READERS[ending](path)


@pytest.mark.parametrize("ending", ["machine.json", "part.json", "device.json", "mapping.json", "network.json"])
def test_no_file_of_settings_is_a_gigabyte(ending, tmp_path):
    path = tmp_path / ending
    with path.open("wb") as file:
        file.truncate(2**30 + 1)
    with pytest.raises(ts.UserError, match=r"too long.*1073741825 bytes; allowed: 1073741824 bytes"):
        {**READERS, "network.json": ts.network.topology}[ending](path)


# --- sizes ---

WRAPS = [
    ([40, 107367629, 536903681], "f64"),  # 2^64 + 64 bytes
    ([1 << 31, 1 << 31], "f32"),  # 2^64
    ([1 << 40, 1 << 24, 2], "i8"),
    ([0, 1 << 40, 1 << 40], "f32"),  # no elements, but strides beyond 2^63
    ([(1 << 40) - 1, (1 << 17) + 1], "f64"),
]


@pytest.mark.parametrize(("shape", "dtype"), WRAPS)
@pytest.mark.parametrize("source", ["file", "data", "random"])
def test_sizes_that_wrap_are_refused(shape, dtype, source, tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(64))
    weight = {"dtype": dtype, "shape": shape, "source": source}
    weight |= {"file": {"path": "w.bin"}, "data": {"data": "AAAA"}, "random": {"seed": 1}}[source]
    ops = [{"name": "c", "kind": "constant", "attributes": {"reference": "w"}}]
    graph = {"schema": "tilesim.graph", "version": 1, "weights": {"w": weight}}
    graph["functions"] = [{"name": "main", "inputs": [], "ops": ops, "outputs": ["c"]}]
    path = tmp_path / "g.json"
    path.write_text(json.dumps(graph), encoding="utf-8")
    with pytest.raises(ts.UserError, match="too many elements"):
        ts.Graph.load(path).weight("w")


def test_no_memory_is_taken_before_the_length_is_compared(tmp_path):
    """A gigabyte that 4 characters do not hold."""
    weight = {"dtype": "f32", "shape": [1 << 38], "source": "data", "data": "AAAA"}
    graph = {"schema": "tilesim.graph", "version": 1, "weights": {"w": weight}}
    graph["functions"] = [{"name": "main", "inputs": [], "ops": [], "outputs": []}]
    with pytest.raises(ts.UserError, match="wrong length"):
        ts.Graph.from_dict(json.dumps(graph))


def test_keys_of_fitted_rows_unpack_within_bounds():
    bomb = base64.b64encode(zlib.compress(bytes(1 << 28), 9)).decode()
    assert len(bomb) < 1 << 19
    for text in (bomb, "####", base64.b64encode(b"abc").decode(), base64.b64encode(zlib.compress(b"abc")).decode()):
        with pytest.raises(ts.UserError, match="fitted rows are damaged"):
            unpack_keys(text)


def test_memory_errors_name_the_tensor():
    with pytest.raises(MemoryError, match=r"f32\[4398046511104\], 17592186044416 bytes"):
        small = ts.GraphBuilder("g")
        small.output(small.apply("add", small.input("x", (1 << 42,)), small.weight("w", (1 << 42,))))
        small.build().weight("w")


# --- where weights lie ---


def referring(folder: Path, path: str) -> Path:
    weight = {"dtype": "u8", "shape": [4], "source": "file", "path": path}
    ops = [{"name": "c", "kind": "constant", "attributes": {"reference": "w"}}]
    graph = {"schema": "tilesim.graph", "version": 1, "weights": {"w": weight}}
    graph["functions"] = [{"name": "main", "inputs": [], "ops": ops, "outputs": ["c"]}]
    target = folder / "g.json"
    target.write_text(json.dumps(graph), encoding="utf-8")
    return target


def test_weights_lie_beside_or_below(tmp_path):
    secret, folder = tmp_path / "secret", tmp_path / "folder"
    secret.write_bytes(b"1234")
    (folder / "below").mkdir(parents=True)
    (folder / "own").write_bytes(b"abcd")
    (folder / "below" / "own").write_bytes(b"efgh")
    (folder / "out").symlink_to(secret)
    (folder / "within").symlink_to("own")
    for path, wanted in {"own": b"abcd", "below/own": b"efgh", "below/../own": b"abcd", "within": b"abcd"}.items():
        assert ts.Graph.load(referring(folder, path)).weight("w").tobytes() == wanted
    for path in ("../secret", str(secret), "out", "below/../../secret", "/etc/passwd"):
        with pytest.raises(ts.UserError, match="outside its graph's directory"):
            ts.Graph.load(referring(folder, path))
    trusted = ts.Graph.load(referring(folder, "../secret"), weights_anywhere=True)
    assert trusted.weight("w").tobytes() == b"1234"
    with pytest.raises(ts.UserError, match="outside the graph's directory"):
        trusted.save(folder / "saved.json")
    trusted.save(folder / "saved.json", weights_anywhere=True)
    with pytest.raises(ts.UserError, match="outside its graph's directory"):
        ts.Graph.load(folder / "saved.json")
    trusted.save(folder / "saved.tsim")
    assert ts.Graph.load(folder / "saved.tsim").weight("w").tobytes() == b"1234"


def test_saved_paths_lead_back(tmp_path, monkeypatch):
    """Relative to the file that names them, wherever the process stands."""
    folder = tmp_path / "models"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "own").write_bytes(b"efgh")
    monkeypatch.chdir(tmp_path)
    graph = ts.Graph.load(referring(Path("models"), "below/own"))
    graph.save("models/again.json")
    monkeypatch.chdir("/")
    assert ts.Graph.load(folder / "again.json").weight("w").tobytes() == b"efgh"


@pytest.mark.parametrize("offset", [0, 1, 2, 4, 5, 1 << 40, (1 << 63) - 1])
def test_offsets_near_the_end(offset, tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(range(6)))
    path = referring(tmp_path, "w.bin")
    data = json.loads(path.read_text(encoding="utf-8"))
    data["weights"]["w"]["byte_offset"] = offset
    path.write_text(json.dumps(data), encoding="utf-8")
    graph = ts.Graph.load(path)
    if offset <= 2:
        assert graph.weight("w").tolist() == list(range(offset, offset + 4))
    else:
        with pytest.raises(ts.UserError, match="too short"):
            graph.weight("w")


# --- names that are no paths ---


def test_presets_come_before_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("edge-8", "t4", "HBM2-2000"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    assert ts.Machine.load("edge-8").name == "edge-8"
    assert ts.Device.load("t4").name == "t4"
    assert ts.memory.Part.load("HBM2-2000").name == "HBM2-2000"


def test_a_cell_of_a_table_is_no_path(tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text('{"schema": "tilesim.device", "name": "mine"}', encoding="utf-8")
    with pytest.raises(ts.UserError, match="unknown device"):
        ts.Device.named(str(secret))
    table = tmp_path / "t.csv"
    table.write_text(f"device,dtype,m,n,k,latency_ms\n{secret},bfloat16,64,64,64,0.1\n", encoding="utf-8")
    rows = validate("gemm", table, "auto")["rows"]
    assert rows[0]["status"] != "ok"
    assert "unknown device" in rows[0]["reason"]


@pytest.mark.parametrize("text", ["", "{", '{"a": 1, "a": 2}', '{"a": NaN}', "[" * 300, '"\\ud800"', "\x00"])
def test_one_reader_of_json(text, tmp_path):
    path = tmp_path / "file.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ts.UserError, match=r"file\.json"):
        read_json(path)
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ts.UserError, match="not text"):
        read_json(path)


def test_replaced_file_of_the_core(tmp_path):
    path = tmp_path / "f"
    replaced = _core.ReplacedFile(str(path))
    Path(replaced.temporary).write_text("new", encoding="utf-8")
    assert not path.exists()
    replaced.commit()
    assert path.read_text(encoding="utf-8") == "new"
    replaced.discard()
    assert path.exists()
