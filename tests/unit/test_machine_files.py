"""Machines by hand: files with notes and comments, variants and their names, differences."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tilesim as ts
from tilesim.cli.main import app, main
from tilesim.machine.files import settings_in


def tilesim(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tilesim", *words])
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


FORMS = ["json", pytest.param("toml", marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="no tomllib"))]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ts.Machine.names())
def test_what_is_written_loads_again(name: str, form: str, tmp_path: Path) -> None:
    machine, path = ts.Machine.load(name), tmp_path / f"own.{form}"
    machine.save(path)
    again = ts.Machine.load(path)
    assert again.to_dict() == machine.to_dict()  # sources too
    assert again.core.hash() == machine.core.hash()
    machine.save(path, name="own")
    assert ts.Machine.load(path).name == "own"
    assert len(ts.Machine.load(path).diff(machine)) == 0


@pytest.mark.parametrize("form", FORMS)
def test_sorts_of_cores_and_odd_texts(form: str, tmp_path: Path) -> None:
    sorts = [{"sort": "big", "count": 1}, {"sort": "little <b>", "count": 2, "core": {"array": {"rows": 8}}}]
    entries = ts.Machine.load("edge-8").replace({"cores": sorts}).to_dict()
    entries["description"] = 'a "quoted" \\ text,\nof two lines, [red] \x7f ×'
    entries["sources"]["core.clock"] = "a source\nof two lines # no comment"
    machine = ts.Machine.load(entries)
    machine.save(tmp_path / f"own.{form}")
    again = ts.Machine.load(tmp_path / f"own.{form}")
    assert again.to_dict() == machine.to_dict()


def test_every_setting_has_its_note(tmp_path: Path) -> None:
    ts.Machine.load("tpu-v3").save(tmp_path / "own.json")
    data = json.loads((tmp_path / "own.json").read_text(encoding="utf-8"))
    assert data["notes"].keys() == settings_in(data)
    assert data["notes"]["core.array.count"].startswith("arrays per core. count, 0 to 64; default 1.")
    assert "Cloud TPU documentation" in data["notes"]["core.array.count"]
    text = json.dumps(data["notes"])
    for source in set(data["sources"].values()):
        assert json.dumps(source)[1:-1] in text


def test_lines_of_mistakes_stay_with_notes(tmp_path: Path) -> None:
    """A note of several lines before the mistake: its line is that of the file."""
    path = tmp_path / "own.json"
    ts.Machine.load("edge-8").save(path)
    data = json.loads(path.read_text(encoding="utf-8"))
    ordered = {"notes": data.pop("notes"), **data}
    text = json.dumps(ordered, indent=1).replace('"rows"', '"rowz"', 1)
    line = next(i for i, one in enumerate(text.splitlines(), 1) if '"rowz"' in one)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ts.UserError, match=rf"own\.json:{line} \(core\.array\.rowz\).*Did you mean 'rows'"):
        ts.Machine.load(path)


def test_notes_beside_values(tmp_path: Path) -> None:
    """In any place, with braces, quotes and commas inside, last or first: what stays is the value."""
    entries = ts.Machine.load("edge-8").to_dict()
    entries["core"]["array"]["rows"] = {"value": 32, "source": "me", "notes": 'try {"a": [1, 2]}, "b": \\'}
    entries["core"]["array"]["columns"] = {"notes": "first", "value": 16, "source": "me"}
    entries["notes"] = "all of it"
    entries["sources"] = {}
    path = tmp_path / "own.json"
    path.write_text(json.dumps(entries, indent=1), encoding="utf-8")
    machine = ts.Machine.load(path)
    assert (machine.get("core.array.rows"), machine.get("core.array.columns")) == (32, 16)
    assert machine.sources["core.array.rows"] == "me"
    only = {"schema": "tilesim.machine", "version": 1, "name": "n", "memory": {"bandwidth": "1 GB/s"}}
    only["core"] = {"array": {"rates": {"f32": 1.0}}}
    path.write_text(json.dumps({"notes": {}, **only}) + "\n", encoding="utf-8")
    assert ts.Machine.load(path).name == "n"
    path.write_text(json.dumps({**only, "notes": {"core.count": "last"}}), encoding="utf-8")
    assert ts.Machine.load(path).name == "n"


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        (3, "notes must be texts"),
        ({"core.array.row": "x"}, r"unknown setting.*core\.array\.rows"),
        ({"core.array.rows": 5}, "a note must be a text"),
    ],
)
def test_notes_that_are_none(notes: object, message: str, tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps({**ts.Machine.load("edge-8").to_dict(), "notes": notes}), encoding="utf-8")
    with pytest.raises(ts.UserError, match=message):
        ts.Machine.load(path)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="no tomllib")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a =\nb = 1", r"bad\.toml: invalid TOML.*line 1"),
        ("", r"bad\.toml: the key 'schema' is missing"),
        ("when = 1979-05-27", "invalid value of a setting"),
        ("when = -inf", r"bad\.toml: invalid value of a setting"),
        ('schema = "tilesim.machine"\nversion = 1\nname = "x"\n[core.array]\nrowz = 3', r"Did you mean 'rows'"),
        ('schema = "tilesim.machine"\nversion = 1\nname = "x"\n[core.array]\nrows = -3', r"rows.*out of range"),
    ],
)
def test_toml_that_is_no_machine(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ts.UserError, match=message) as caught:
        ts.Machine.load(tmp_path / "bad.toml")
    assert ":1" not in str(caught.value.place)  # TOML is read without lines: none is told


def test_toml_without_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Python 3.10."""
    ts.Machine.load("edge-8").save(tmp_path / "own.toml")
    monkeypatch.setitem(sys.modules, "tomllib", None)
    with pytest.raises(ts.UserError, match=r"Python 3\.11.*Write the machine as a \.json file"):
        ts.Machine.load(tmp_path / "own.toml")


def test_new_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tilesim(monkeypatch, "machine", "new", "--from", "tpu-v3", "my.json") == 0
    assert ts.Machine.load("my.json").name == "my"
    before = Path("my.json").read_bytes()
    assert tilesim(monkeypatch, "machine", "new", "--from", "edge-8", "my.json") == 2
    assert "--force" in capsys.readouterr().err
    assert Path("my.json").read_bytes() == before
    assert tilesim(monkeypatch, "machine", "new", "--from", "edge-8", "my.json", "--force", "--name", "tiny") == 0
    assert ts.Machine.load("my.json").name == "tiny"
    for words, said in (
        (["--from", "tpu-v33", "a.json"], "Did you mean 'tpu-v3'"),
        (["--from", "tpu-v3", "a.yaml"], ".toml"),
        (["--from", "tpu-v3", "none/a.json"], "none/a.json"),
    ):
        assert tilesim(monkeypatch, "machine", "new", *words) == 2
        assert said in capsys.readouterr().err
    assert not Path("a.json").exists()


def test_variants_have_names_of_their_own() -> None:
    machine = ts.Machine.load("tpu-v3")
    variant = machine.replace({"core.arrays": 1})
    assert (machine.label, variant.label, variant.name) == ("tpu-v3", "tpu-v3, core.arrays 1", "tpu-v3")
    assert variant.replace({"core.arrays": 2}).label == "tpu-v3"
    assert pickle.loads(pickle.dumps(variant)).label == copy.copy(variant).label == variant.label
    many = machine.replace({"core.arrays": 1, "core.array.rows": 64, "core.array.columns": 64, "core.count": 2})
    assert many.label.startswith("tpu-v3, ") and many.label.endswith(", and 1 more")
    own = ts.Machine.load({**machine.to_dict(), "name": "mine"})
    assert (own.label, own.replace({"core.arrays": 1}).label) == ("mine", "mine, core.arrays 1")
    edited = machine.to_dict()
    edited["memory"]["bandwidth"] = "900 GB/s"
    assert ts.Machine.load(edited).label == "tpu-v3, memory.bandwidth 900 GB/s"
    little = ts.Machine.load("dense-sparse-2")
    sort = next(iter(little.sorts))
    assert little.get(f"cores.{sort}.core.array.rows") == little.only(sort).get("core.array.rows")
    assert little.get(f"cores.{sort}.count") == len(little.sorts[sort])
    with pytest.raises(ts.UserError, match="unknown setting"):
        little.get(f"cores.{sort}.core.array.rowz")
    assert f"cores.{sort}.core.array.rows" in little.replace({f"cores.{sort}.core.array.rows": 7}).label


def test_results_carry_them_and_time_does_not() -> None:
    graph, machine = ts.workloads.softmax(64, 64), ts.Machine.load("edge-8")
    faster = machine.replace({"memory.bandwidth": "999 GB/s"})
    assert ts.run(graph, machine=faster).data["machine"] == "edge-8, memory.bandwidth 999 GB/s"
    assert "edge-8, memory.bandwidth 999 GB/s" in ts.estimate(graph, faster).summary()
    renamed = ts.Machine.load({**machine.to_dict(), "name": "other"})
    assert ts.run(graph, machine=renamed).timing_hash() == ts.run(graph, machine=machine).timing_hash()


def test_a_network_beside_the_file_is_no_variant(tmp_path: Path) -> None:
    links = [{"between": [0, leaf], "latency": 3} for leaf in (1, 2, 3)]
    network = {"schema": "tilesim.network", "version": 1, "name": "star", "routers": 4, "nodes": [1, 2, 3]}
    (tmp_path / "net.json").write_text(json.dumps({**network, "links": links}), encoding="utf-8")
    entries = {**ts.Machine.load("edge-8").to_dict(), "name": "own"}
    entries["network"]["kind"] = "net.json"
    (tmp_path / "own.json").write_text(json.dumps(entries), encoding="utf-8")
    machine = ts.Machine.load(tmp_path / "own.json")
    assert machine.label == "own" and machine.get("network.kind") == str((tmp_path / "net.json").resolve())


def test_differences() -> None:
    one = ts.Machine.load("tpu-v3")
    two = one.replace({"core.clock": "1880 MHz", "memory.latency": "0 ns", "memory.kind": "bank", "core.arrays": 1})
    rows = {row["setting"]: row for row in one.diff(two).rows}
    assert rows.keys() == {"core.clock", "memory.latency", "memory.kind", "core.array.count"}
    assert rows["core.clock"] == {"setting": "core.clock", "a": "940 MHz", "b": "1880 MHz", "ratio": 2.0}
    assert rows["memory.latency"]["ratio"] == 0 and rows["memory.kind"]["ratio"] is None
    back = {row["setting"]: row for row in two.diff(one).rows}
    assert back["memory.latency"]["ratio"] is None  # of nothing there is no multiple
    assert back["core.array.count"]["ratio"] == 2
    assert len(one.diff("tpu-v3")) == 0
    lacking = {row["setting"]: row for row in one.diff("edge-8").rows}
    assert lacking["lowering.product.panel_bytes"]["b"] is None
    with pytest.raises(ts.UserError, match="Did you mean 'edge-8'"):
        one.diff("edge8")


def test_where_values_come_from(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    content = {"schema": "tilesim.machine", "version": 1, "name": "own", "memory": {"bandwidth": "9 GB/s"}}
    content["core"] = {"count": 1, "array": {"rates": {"f32": 1.0}, "rows": {"value": 128, "source": "a book"}}}
    path.write_text(json.dumps(content), encoding="utf-8")
    machine = ts.Machine.load(path)
    rows = {row["setting"]: row for row in machine.replace({"core.clock": "2 GHz"}).table().rows}
    stated = {setting for setting, row in rows.items() if row["from"] == "file"}
    assert stated == {
        "memory.bandwidth",
        "core.count",
        "core.array.rates",
        "core.array.rows",
    }  # also what is as the default
    assert rows["core.clock"]["from"] == "replaced" and rows["core.array.columns"]["from"] == "default"
    assert rows["core.array.rows"]["source"] == "a book"
    assert pickle.loads(pickle.dumps(machine)).table().rows == machine.table().rows


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize(
    "words",
    [
        ["machine", "show", "tpu-v3"],
        ["machine", "show", "dense-sparse-2"],
        ["machine", "settings"],
        ["machine", "diff", "tpu-v3", "edge-8"],
    ],
)
def test_lines_fit(words: list[str], width: int) -> None:
    outcome = CliRunner().invoke(app, words, env={"COLUMNS": str(width)})
    assert outcome.exit_code == 0
    assert not [line for line in outcome.output.splitlines() if len(line) > width]


def test_show_and_diff_say_it() -> None:
    shown = CliRunner().invoke(app, ["machine", "show", "tpu-v3"], env={"COLUMNS": "200"}).output
    lines = {line.split()[0]: line for line in shown.splitlines() if line}
    assert " file " in lines["core.array.rows"] and "Cloud TPU documentation" in lines["core.array.rows"]
    assert lines["core.contexts"].endswith("default")
    found = CliRunner().invoke(app, ["machine", "diff", "tpu-v2", "tpu-v2"], env={"COLUMNS": "80"}).output
    assert "have equal settings" in found
    outcome = CliRunner().invoke(app, ["machine", "diff", "tpu-v2", "tpu-v3", "--json", "-"])
    assert json.loads(outcome.output)["rows"] == ts.Machine.load("tpu-v2").diff("tpu-v3").rows


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["x😀", "größer", '𝔸\u2028\x7f\x00\t"\\', "a b"])
def test_every_name_can_be_read_again(name: str, form: str, tmp_path: Path) -> None:
    machine = ts.Machine.load("tpu-v3")
    path = tmp_path / f"own.{form}"
    ts.Machine.load({**machine.to_dict(), "name": name, "description": name * 3}).save(path)
    found = ts.Machine.load(path)
    assert found.name == name and found.description == name * 3


@pytest.mark.parametrize("form", FORMS)
def test_a_changed_value_has_no_published_source(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, again = tmp_path / f"own.{form}", tmp_path / f"again.{form}"
    preset = ts.Machine.load("tpu-v3")
    tilesim(monkeypatch, "machine", "new", str(path), "--from", "tpu-v3", "--name", "mine")
    before, after = ('"940 MHz"', '"1 GHz"')
    text = path.read_text(encoding="utf-8")
    assert ts.Machine.load(path).sources == preset.sources  # nothing was changed yet
    key = "clock = " if form == "toml" else '"clock": '
    path.write_text(text.replace(key + before, key + after, 1), encoding="utf-8")
    changed = ts.Machine.load(path)
    source = changed.sources["core.clock"]
    assert source == f"set in this file; tpu-v3 has {preset.sources['core.clock']}"
    assert {**changed.sources, "core.clock": ""} == {**preset.sources, "core.clock": ""}
    tilesim(monkeypatch, "machine", "new", str(again), "--from", str(path))
    assert ts.Machine.load(again).sources["core.clock"] == source  # and it stays said
    by_hand = preset.to_dict()
    by_hand["core"]["clock"], by_hand["sources"]["core.clock"] = "1 GHz", "a data sheet"
    path.with_suffix(".json").write_text(json.dumps(by_hand), encoding="utf-8")
    assert ts.Machine.load(path.with_suffix(".json")).sources["core.clock"] == "a data sheet"
