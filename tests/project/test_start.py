"""The first instructions: what is imported when, the sign meanwhile, Ctrl-C, letters that an encoding lacks, slips."""

from __future__ import annotations

import io
import itertools
import os
import shlex
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

import tilesim as ts
from support.command import tilesim
from support.terminal import seen
from tilesim.base import errors, progress
from tilesim.cli.main import main
from tilesim.cli.start import TEXT

HEAVY = {"numpy", "typer", "rich", "tilesim._core", "tilesim.results"}


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    return done.stdout


def test_importing_the_package_imports_nothing_heavy() -> None:
    told = fresh("import sys, tilesim, tilesim.cli.start; print(*sys.modules)")
    assert not HEAVY & set(told.split())


def test_names_are_found_and_listed() -> None:
    assert set(ts.__all__) <= set(dir(ts))
    told = fresh(
        "from tilesim import *; print(compile.__module__, Result.__name__, __import__('tilesim').graph.__name__)"
    )
    assert told.split() == ["tilesim.lowering.compiling", "Result", "tilesim.graph"]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ts.nothing  # noqa: B018


def test_a_result_by_itself_finds_what_stands_above(tmp_path: Path) -> None:
    """Nothing but the result's module was imported when it is asked why."""
    ts.run("mlp").save(tmp_path / "r.json")
    code = "from tilesim.results.result import Result; print(Result.load({!r}).why('layers.0').cycles)"
    row = next(row for row in ts.run("mlp").table() if row["operation"] == "layers.0")
    assert int(fresh(code.format(str(tmp_path / "r.json")))) == row["cycles"]


@pytest.fixture
def slow(tmp_path: Path) -> str:
    """PYTHONPATH of an interpreter that waits where the command line is imported."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, time\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'tilesim.cli.main':\n"
        "            time.sleep(1)\n"
        "sys.meta_path.insert(0, Slow())\n"
    )
    return os.pathsep.join([str(tmp_path), *sys.path])


def test_a_sign_while_modules_are_imported(slow: str) -> None:
    screen = seen(["--version"], 80, PYTHONPATH=slow)
    assert screen.code == 0 and screen.text.startswith(f"{TEXT}\r")
    assert screen.text.partition("\r")[2].startswith(" " * len(TEXT) + "\r"), "it is wiped"
    assert screen.text.endswith(f"\rtilesim {ts.__version__}\r\n")
    assert TEXT not in seen(["--version"], 80, PYTHONPATH=slow, TERM="dumb").text


def test_ctrl_c_while_modules_are_imported(slow: str) -> None:
    screen = seen(["--version"], 80, stop_after=TEXT, PYTHONPATH=slow)
    assert screen.code == 130
    assert screen.plain.removeprefix(f"{TEXT}\r").strip().splitlines() == ["tilesim: interrupted"]


@pytest.mark.parametrize(
    "line",
    [
        *("run resnet18 --no-advice", "roofline bert-base", "why mlp layers.0", "machine show tpu-v3", "--help"),
        *("compare mlp --machine tpu-v3 --machine tpu-v4", "model list", "run --help", "crossover h100"),
    ],
)
def test_an_encoding_without_our_letters(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same lines in UTF-8, each as long, as far as both have letters."""
    monkeypatch.setenv("COLUMNS", "100")
    told = {}
    for encoding in ("utf-8", "ascii"):
        raw = io.BytesIO()
        out = io.TextIOWrapper(raw, encoding=encoding, errors="strict")
        with (
            mock.patch.object(sys, "argv", ["tilesim", *shlex.split(line)]),
            mock.patch.object(sys, "stdout", out),
            pytest.raises(SystemExit) as end,
        ):
            main()
        assert not end.value.code
        out.flush()
        told[encoding] = raw.getvalue().decode(encoding)
    assert len(told["ascii"]) == len(told["utf-8"])
    assert "?" not in told["ascii"].replace("?", "", told["utf-8"].count("?"))


@pytest.mark.parametrize(
    ("word", "known", "near"),
    [
        ("gelu", ["relu", "gelu_tanh", "gelu_erf"], "gelu_erf"),  # the shortest that begins so, before what is closer
        ("decod", ["prefill", "decode"], "decode"),
        ("core.arrayz", ["core.array.count", "core.arrays"], "core.arrays"),
        ("TPU", ["h100", "tpu-v3"], "tpu-v3"),
        ("tpu_v3", ["tpu-v2", "tpu-v3"], "tpu-v3"),
        ("g", ["gelu"], ""),
        ("", ["gelu"], ""),
        ("quite something else", ["gelu"], ""),
    ],
)
def test_nearest_names(word: str, known: list[str], near: str) -> None:
    assert errors.nearest(word, known) == near


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("roofline bert-base t4", "t4 is a device. Write: tilesim roofline bert-base --device t4"),
        ("roofline t4 bert-base", "t4 is a device. Write: tilesim roofline bert-base --device t4"),
        ("run mlp tpu-v4", "tpu-v4 is a machine. Write: tilesim run mlp --machine tpu-v4"),
        ("compare mlp tpu-v3", "tpu-v3 is a machine"),
        ("run gpt2 --phase decod", "Did you mean 'decode'"),
        ("simulate mlp", "Use tilesim run"),
        ("play mlp", "ts.study.play(graph, machine)"),
        ("runn mlp", "Did you mean 'run'"),
        ("machine shw", "Did you mean 'show'"),
        ("run mlp something", "something"),
    ],
)
def test_slips(line: str, words: str) -> None:
    done = tilesim(*shlex.split(line))
    assert done.returncode == 2 and not done.stdout
    assert words in " ".join(done.stderr.replace("│", " ").split())


def test_what_is_printed_says_what_it_is(tmp_path: Path) -> None:
    graph = ts.models.build("mlp")
    result = ts.run(graph)
    shown = [graph, result, ts.compile(graph, "tpu-v3"), ts.estimate(graph, "h100"), ts.roofline(graph, "h100")]
    shown += [ts.Machine.load("tpu-v3"), ts.Device.load("h100"), result.why("layers.0"), ts.GraphBuilder("g")]
    shown += [ts.compare(result, ts.run(graph, machine="tpu-v4")), ts.tune(graph, "tpu-v3", budget=2)]
    shown += [ts.sweep(graph, "tpu-v3", {"core.array.count": [1, 2]}), ts.coverage(graph), ts.Store(tmp_path / "s.db")]
    shown += [ts.lower_bound(graph, "tpu-v3"), ts.TileLatencies(), ts.machines(), ts.mapping.MappingTable({})]
    for one in shown:
        assert " object at 0x" not in repr(one) and " object at 0x" not in str(one)


def test_printed_tables_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [ts.run("bert-base").table(), ts.machines(), ts.models.table()]
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = [str(table) for table in tables]
    for width, (table, text) in itertools.product((60, 80, 120, 200), zip(tables, whole, strict=True)):
        monkeypatch.setenv("COLUMNS", str(width))
        told = str(table)
        assert max(map(len, told.splitlines())) <= width
        heads = told.splitlines()[0].split()
        lost = [key for key in table.rows[0] if key not in (*heads, "fused")]
        assert all(key in told.partition("Left out")[2] for key in lost)
        if max(map(len, text.splitlines())) <= width and "…" not in text:
            assert told == text


# --- progress ------------------------------------------------------------------------------------------------------


def test_the_core_counts_for_who_listens() -> None:
    """Tile operations and kernels as they are done; never more than all."""
    heard: list[tuple[int, int, str]] = []
    graph = ts.models.build("resnet18")
    with progress.listening(lambda *call: heard.append(call)):
        result = ts.simulate(ts.compile(graph, "tpu-v3"))
    simulated = [(done, total) for done, total, what in heard if what == "tile operations, at most"]
    assert simulated and all(0 <= done <= total for done, total in simulated)
    assert simulated == sorted(simulated), "it does not go back"
    assert len({total for _, total in simulated}) == 1 and simulated[0][1] >= result.data["tile_operations"]
    assert simulated[-1][0] <= result.data["tile_operations"]
    assert {what for _, _, what in heard} <= {"tile operations, at most", "kernels"}


def test_parts_of_a_longer_call_are_not_counted_twice() -> None:
    heard: list[tuple[int, int, str]] = []
    with progress.listening(lambda *call: heard.append(call)):
        assert progress.counter("things") is not None
        for part in progress.followed(["a", "b"]):
            assert progress.counter(part) is None
        progress.counter("things")(1, 2)  # type: ignore[misc]
    assert heard == [(0, 2, ""), (1, 2, ""), (1, 2, "things")]
    assert progress.counter("things") is None


class Pipe(io.StringIO):
    def isatty(self) -> bool:
        return False


def test_a_file_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = Pipe()
    bar = progress.ProgressBar(stream)
    for done in range(1, 41):
        now[0] += 1.0
        bar(done, 40, f"{40 - done} s left")
    assert stream.getvalue() == "10/40 30 s left\n20/40 20 s left\n30/40 10 s left\n40/40 0 s left\n"
    quick = Pipe()
    progress.ProgressBar(quick)(3, 3, "done")
    assert quick.getvalue() == "", "nothing of what is over at once"


def test_a_notebook_redraws_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, line: object) -> None:
            shown.append(line._repr_html_())  # type: ignore[attr-defined]

    def display(line: object, display_id: bool) -> Handle:
        assert display_id and not shown
        shown.append(line._repr_html_())  # type: ignore[attr-defined]
        return Handle()

    class Shell:
        kernel = object()

    fake = type(sys)("IPython")
    fake.get_ipython = Shell  # type: ignore[attr-defined]
    fake.__path__ = []
    inside = type(sys)("IPython.display")
    inside.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", inside)
    monkeypatch.setattr(progress.ProgressBar, "SECONDS", 0.0)
    ts.sweep(ts.workloads.matmul(8, 8, 8), "edge-8", {"core.array.count": [1, 2, 4]}, progress=True)
    assert len(shown) == 3 and shown[-1] == '<progress value="3" max="3"></progress> 3/3 done'
    assert progress._Line(0, 1, "<b>")._repr_html_().endswith("&lt;b&gt;")
