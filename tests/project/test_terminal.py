"""Every command at every width: no line is longer, no word is cut; terminals, pipes, progress, help, completion."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tilesim as ts
from support.command import commands as every_command
from support.command import tilesim
from support.junk_cli import commands
from support.terminal import ESCAPES, Seen, seen
from tilesim.base.paths import sample
from tilesim.cli import complete
from tilesim.cli.commands import COMMANDS
from tilesim.cli.main import app
from tilesim.models.transformer import BERT_BASE, bert

WIDTHS = (60, 80, 120, 200)
EXAMPLES = {name: [f"tilesim {name} {words}".rstrip() for words in one.examples] for name, one in COMMANDS.items()}
MEASURES = ("measure cpu", "measure cuda")  # what runs as long as the hardware takes, or needs a GPU
#: A program that writes four letters.
ECHO = '_start: li a0, 1; la a1, t; li a2, 5; li a7, 64; ecall; li a0, 0; li a7, 93; ecall; t: .asciz "done\\n"'
LINES = (
    "levels mlp",
    "cluster list",
    "cluster show dgx-h100:64",
    "cluster collective all_reduce 1GiB --cluster dgx-h100:64",
    "cluster replay traces --cluster dgx-h100:8",
    "cluster search megatron-22b --cluster dgx-a100:8",
    "cluster step gpt3-175b --cluster dgx-a100:64 --plan tensor=8,pipeline=8,recompute=full",
    "cluster step megatron-22b --cluster dgx-h100 --devices 7,8",
    "cluster compare gpt3-175b --cluster dgx-a100:64 --cluster dgx-h100:64 --plan tensor=8,pipeline=8,recompute=full",
    "cluster search megatron-22b --cluster dgx-a100:8 --map --best 2",
    "cluster partition halves.json",
    "isa run k.elf",
    "isa asm k.s",
    'isa kernel "mma i8 i8 b1 m4 n8 k8 ko1" --machine edge-8',
    "isa header --machine edge-8 -o k.h",
    "isa dis k.elf",
    "isa list Zbb",
    "run layers.json",
    "run resnet18 --no-advice --explain bounds,memory,fusion",
    "run matmul:256,256,256 --lowering both",
    "run mlp --verify --no-advice",
    "run bert-base --machine h100",
    "run bert-base --machine h100 --all --no-advice",
    "coverage layers.json",
    "sweep mlp --set core.array.count=1,2 --pareto seconds,bytes",
    "profile mlp --runs 1",
    "map layers.json",
    "map matmul:256,256,256 --show --budget 2",
    "tune mlp --budget 2 --history",
    "calibrate measurements.csv --device h100",
    "roofline bert-base",
    "roofline llama-3-8b --phase decode",
    "crossover h100",
    "crossover h100 fp8",
    "crossover h100 --errors",
    "crossover h100 --model gpt2",
    "suite llm",
    "why layers.json attention.self",
    "compare layers.json --machine tpu-v3 --machine tpu-v4",
    "check new.json --against old.json",
    "open new.json --no-browser -o p.html",
    "doctor",
    "machine list",
    "machine show tpu-v3",
    "machine settings core",
    "machine diff tpu-v3 tpu-v4",
    "machine new --from tpu-v3 my.toml --force",
    "device list",
    "device show h100",
    "model list",
    "model show bert-base",
    "validate tpu-v3",
    "validate noc --seeds 1 --cases noc.csv",
    "validate dram",
    "validate gemm",
    "validate attention",
    "validate conv",
    "validate vector",
    "validate sparse",
    "validate rvv",
    "validate network --cases network.csv",
    "validate collective",
    "validate step",
)
QUICK = 3  # examples of a command that tests run, at most
#: examples that take long, or read a file that the reader has
NOT_RUN = (
    *("tilesim run bert-base", "tilesim run resnet18", "tilesim why bert-base"),  # LINES run the same networks
    "replay traces",
    *("cluster search gpt3-175b", "--devices 64,512"),  # LINES search a smaller model
    "partition module.mlir",
    "train_step_ms.csv",
    "llama-3-8b",
    "measure",
    "measured.csv",
    "suite llm",
    "validate noc",
    "validate network",
    "rvv_cycles.csv",
    "run.json",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what commands read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder := tmp_path_factory.mktemp("files"))
        _write()
    return folder


@pytest.fixture
def here(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with copies of them."""
    monkeypatch.chdir(shutil.copytree(files, tmp_path, dirs_exist_ok=True))
    return tmp_path


def _write() -> None:
    header, *rows = sample("gemm").read_text(encoding="utf-8").splitlines()
    own = "\n".join([header, *(row for row in rows if row.startswith("H100"))])
    Path("measurements.csv").write_text(own + "\n", encoding="utf-8")
    b = ts.GraphBuilder("halves")
    b.output(b.op("reduce", b.input("x", (8, 16)), dims=[1], combiner="add"), "y")
    halves = b.build()
    halves.annotate(mesh={"i": 2}, shardings={"x": '[{}, {"i"}]'})
    halves.save("halves.json")
    b = ts.GraphBuilder("mlp")
    b.output(b.matmul(b.input("x", (4, 8)), b.input("up", (8, 32))), "y")
    b.build().save("mlp.json")
    bert(replace(BERT_BASE, layers=2, width=64, heads=4), sequence=16).save("layers.json")
    trace = ts.cluster.fsdp_trace(8, 2, layer_bytes=1 << 20, forward_ps=10**9, backward_ps=2 * 10**9)
    ts.cluster.to_chakra(trace, "dgx-h100:8", "traces")
    Path("k.s").write_text(ECHO, encoding="utf-8")
    Path("k.elf").write_bytes(ts.isa.assemble(ECHO))
    for name in ("old", "new"):
        ts.run("mlp").save(f"{name}.json")
    for table in ("noc", "network"):  # the first rows of what takes long
        few = sample(table).read_text(encoding="utf-8").splitlines()[:4]
        Path(f"{table}.csv").write_text("\n".join(few) + "\n", encoding="utf-8")


def test_every_command_is_looked_at() -> None:
    assert {" ".join(words) for words, _ in commands()} <= {
        name for line in LINES for name in (line.split()[0], " ".join(line.split()[:2]))
    }


def words_of(text: str) -> set[str]:
    return set(text.split())


@pytest.mark.parametrize("line", LINES)
def test_lines_fit_and_no_word_is_cut(line: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of a width are those of a pipe without limit, or a name around its left out middle."""
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = tilesim(*shlex.split(line))
    assert whole.returncode == 0, whole.stderr
    known = words_of(whole.stdout)
    others, place = WIDTHS[1:], LINES.index(line)
    for width in (WIDTHS[0], *others[place % 6 : place % 6 + 1]):  # the narrowest; every second line, one of the others
        monkeypatch.setenv("COLUMNS", str(width))
        told = tilesim(*shlex.split(line)).stdout
        assert told and "\x1b" not in told
        assert max(map(len, told.splitlines())) <= width, (width, max(told.splitlines(), key=len))
        body = re.sub(r"Left\s+out:.*?\(all\s+columns\s+need\s+[\d,]+\s+characters\)", "", told, flags=re.DOTALL)
        listed = [word for word in known if "=" in word and "," in word]  # assignments, which break at commas
        cut = {word for word in words_of(body) - known if "…" not in word and not any(word in one for one in listed)}
        if line.startswith("profile"):  # times of this computer
            cut = {word for word in cut if not re.fullmatch(r"[\d.,]+", word)}
        assert not cut, (width, cut)
        for word in words_of(body) - known - cut:
            left, _, right = word.partition("…")
            assert any(one.startswith(left) and one.endswith(right) for one in known | {whole.stdout}) or left in told


@pytest.mark.parametrize("words", [[], *[list(words) for words, _ in commands()]], ids=lambda words: " ".join(words))
def test_help_fits(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERMINAL_WIDTH", str(width))
        text = tilesim(*words, "--help").stdout
        assert max(map(len, text.splitlines())) <= width
        for line in EXAMPLES.get(" ".join(words), ()):
            assert line in re.sub(r"\s+", " ", text)


def test_every_command_has_examples() -> None:
    assert {" ".join(words) for words, _ in commands()} | set(MEASURES) == set(EXAMPLES)
    assert all(len(line) < 78 for lines in EXAMPLES.values() for line in lines)


@pytest.mark.parametrize(("words", "command"), list(every_command()))
def test_examples_parse(words: tuple[str, ...], command: Any) -> None:
    for line in EXAMPLES[" ".join(words)]:
        assert not command.make_context(words[-1], shlex.split(line)[1 + len(words) :]).args


@pytest.mark.parametrize(
    "line", [line for lines in EXAMPLES.values() for line in lines[:QUICK] if not any(one in line for one in NOT_RUN)]
)
def test_examples_run(line: str, here: Path) -> None:
    done = tilesim(*shlex.split(line)[1:])
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_options_come_in_groups() -> None:
    told = tilesim("run", "--help").stdout
    places = [told.index(f" {panel} ") for panel in ("Workload", "Machine", "Compile", "Check", "Output")]
    assert places == sorted(places)


def test_what_is_piped_is_whole_and_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No names shortened, no column left out, no escape codes, twice the same."""
    monkeypatch.delenv("COLUMNS", raising=False)
    for line in ("roofline bert-base", "run bert-base --no-advice", "machine show tpu-v3"):
        told = tilesim(*shlex.split(line)).stdout
        assert "…" not in told and "Left out" not in told and "\x1b" not in told
        assert told == tilesim(*shlex.split(line)).stdout


def test_all_unfolds() -> None:
    """209 operations of BERT on a device, each by itself; folded they are fewer, and their times add up."""
    graph = ts.models.bert_base()
    rows = ts.estimate(graph, "h100").terms().rows
    for line in ("roofline bert-base --all", "run bert-base --machine h100 --all --no-advice"):
        told = tilesim(*shlex.split(line)).stdout
        assert all(row["operation"] in told for row in rows)
        assert "×" not in told and "more operations" not in told
    folded = tilesim("roofline", "bert-base").stdout
    assert "encoder.layer.*.output.dense ×12" in folded and "encoder.layer.0." not in folded
    listed = [float(one) for one in re.findall(r"^\S+(?: ×\d+)? +([\d.]+) +[\d.]+ +[a-z]+ ", folded, re.MULTILINE)]
    share = re.search(r"more operations, ([\d.]+)%", folded)
    rest = float(share[1]) / 100 if share else 0.0
    total = sum(row["ms"] for row in rows)
    assert sum(listed) == pytest.approx(total * (1 - rest), rel=0.01)


def test_json_is_never_folded(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    assert tilesim("run", "bert-base", "--machine", "h100", "--json", str(path), "--quiet").returncode == 0
    names = [row["name"] for row in ts.Result.load(path).data["operations"]]
    assert len(names) > 150 and not any("*" in one or "×" in one for one in names)


def drawn(screen: Seen) -> str:
    """What stays on the screen: without lines that a spinner drew and wiped."""
    left = re.sub(r"[^\n]*\r\n(?:\x1b\[\?25h)?\r\x1b\[1A\x1b\[2K", "", screen.text)
    return re.sub(r"[^\n]*\r(?!\n)", "", ESCAPES.sub("", left)).replace("\r\n", "\n")


def test_a_terminal_has_colours_and_bars_unless_it_wants_none() -> None:
    line = ["roofline", "bert-base"]
    full = seen(line, 120)
    assert full.code == 0 and "\x1b[" in full.text and "█" in full.text
    for words, variables in (
        (line, {"NO_COLOR": "1"}),
        (["--no-color", *line], {}),
        (line, {"TERM": "dumb"}),
    ):
        bare = seen(words, 120, **variables)
        assert bare.code == 0
        assert not re.search(r"\x1b\[[0-9;]*m", bare.text), (words, variables)
    assert "\x1b" not in bare.text and "█" not in bare.text  # of a dumb one


MODELS = ("layers.json", "mlp", "mlp", "mlp")


@pytest.mark.parametrize(("width", "model"), list(zip(WIDTHS, MODELS, strict=True)))
def test_lines_fit_a_terminal(width: int, model: str, here: Path) -> None:
    told = drawn(seen(["run", model], width))
    lines = told.splitlines()
    assert max(map(len, lines)) <= width
    assert any("simulated changes" in line for line in lines)


def test_a_spinner_moves_while_the_core_simulates() -> None:
    screen = seen(["run", "llama-3-8b", "--context", "2048", "--no-advice"], 100)
    assert screen.code == 0
    assert screen.plain.index("simulating tpu-v3") < screen.plain.index("Busy:")
    assert len(set(re.findall(r"([⠀-⣿]) simulating tpu-v3", screen.plain))) > 1
    assert not any("simulating" in line for line in drawn(screen).splitlines())


def test_the_result_comes_before_what_would_help_is_tried() -> None:
    screen = seen(["run", "bert-base"], 100)
    assert screen.code == 0
    places = [
        screen.plain.index(one) for one in ("How it was modelled:", "simulating changed machines", "simulated changes:")
    ]
    assert places == sorted(places)
    assert re.search(r"simulating changed machines \d/\d, \d+ s, \d+ s left", screen.plain)
    assert not any("trying" in line for line in drawn(screen).splitlines())


def test_ctrl_c_while_it_is_drawn() -> None:
    screen = seen(["run", "llama-3-8b"], 80, stop_after="simulating")
    assert screen.code == 130
    assert "Traceback" not in screen.text
    assert screen.text.count("\x1b[?25l") == screen.text.count("\x1b[?25h"), "the cursor is shown again"


def test_a_shell_completes_names_and_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    def completions(*words: str) -> list[str]:
        """What a bash shell is offered."""
        monkeypatch.setenv("_TILESIM_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        return tilesim().stdout.split()

    assert {"h100", "h200"} <= set(completions("tilesim", "run", "mlp", "--machine", "h"))
    assert completions("tilesim", "run", "resnet1") == ["resnet18"]
    assert "core.array.count=" in completions("tilesim", "run", "mlp", "--set", "core.array.c")
    assert completions("tilesim", "device", "show", "h20") == ["h20", "h200"]


def test_what_is_completed() -> None:
    for path, meaning in complete.settings(""):
        assert path.endswith("=") and meaning
        if not path.startswith("lowering."):  # those of a profile, which a machine may lack
            ts.Machine.load("tpu-v3").get(path[:-1])
    assert complete.settings("core.array.count=") == []
    assert complete.machines("") == [*ts.Machine.names(), *ts.Device.names()]
    assert complete.models_("bert") == ["bert-base", "bert-large"]


def test_completion_is_shown() -> None:
    done = CliRunner().invoke(app, ["--help"])
    assert "--install-completion" in done.output and "--show-completion" in done.output


def test_devices_are_estimated_by_run(here: Path) -> None:
    graph = ts.models.build("bert-base")
    wanted = ts.estimate(graph, "h100")
    found = ts.run(graph, machine="h100")
    assert isinstance(found, ts.Estimate) and found.cycles == wanted.cycles
    assert (
        ts.run(graph, machine=ts.Device.load("h100"), scheme="fp8").cycles
        == ts.estimate(graph, "h100", scheme="fp8").cycles
    )
    told = tilesim("run", "bert-base", "--machine", "h100", "--report", "r.html")
    assert told.returncode == 0 and "estimated in closed form" in told.stdout
    assert wanted.summary() in told.stdout and Path("r.html").stat().st_size > 1000
    assert tilesim("run", "mlp", "--machine", "t4@50W", "--quiet").stdout.startswith("mlp, f32, batch 1, on t4")
    Path("mine.json").write_text(json.dumps(ts.Device.load("t4").to_dict()), encoding="utf-8")
    assert ts.run("mlp", machine="mine.json").cycles == ts.run("mlp", machine="t4").cycles


@pytest.mark.parametrize(
    "option",
    [
        *("--timeline t.perfetto", "--verify", "--set core.array.count=2", "--memory bank", "--mapping cost"),
        *("--explain memory", "--lowering best", "--resident auto", "--seed 3", "--cores 2"),
    ],
)
def test_an_estimate_refuses_what_it_lacks(option: str, here: Path) -> None:
    done = tilesim("run", "mlp", "--machine", "h100", *option.split())
    assert done.returncode == 2 and option.split()[0] in done.stderr and "estimated" in done.stderr
    assert not list(Path().glob("*.perfetto"))


def test_an_estimate_refuses_options_of_a_simulation() -> None:
    for options in ({"timeline": True}, {"verify": True}, {"mapping": "cost"}, {"memory": "bank"}, {"tensors": {}}):
        with pytest.raises(ts.UserError, match="estimated in closed form") as caught:
            ts.run("mlp", machine="h100", **options)
        assert next(iter(options)) in str(caught.value)
    with pytest.raises(ts.UserError, match="unknown option"):
        ts.run("mlp", machine="h100", nothing=1)


@pytest.mark.parametrize(("name", "near"), [("h1000", "h100"), ("tpu-v33", "tpu-v3"), ("gemini-16", "gemmini-16")])
def test_unknown_names_are_looked_for_in_both(name: str, near: str) -> None:
    for call in (lambda: ts.run("mlp", machine=name), lambda: ts.estimate("mlp", name)):
        with pytest.raises(ts.UserError) as caught:
            call()
        assert near in str(caught.value).partition("Did you mean")[2]
    with pytest.raises(ts.UserError, match="h100 is a device"):
        ts.compile("mlp", "h100")


def test_all_machines_in_one_table() -> None:
    rows = ts.machines().rows
    assert [row["name"] for row in rows] == [*ts.Machine.names(), *ts.Device.names()]
    assert {row["kind"] for row in rows[: len(ts.Machine.names())]} == {"machine"}
    by_name = {row["name"]: row for row in rows}
    # 2 arrays of 128 x 128 at 940 MHz, 2 FLOPs each; HBM2 of 900 GB/s for two cores: Cloud TPU documentation.
    assert by_name["tpu-v3"]["peak_tflops"] == pytest.approx(2 * 128 * 128 * 2 * 940e6 / 1e12)
    assert by_name["tpu-v3"]["memory_gbytes_per_second"] == 450
    assert by_name["h100"]["bf16_tflops"] == pytest.approx(989.4, rel=1e-3)  # the datasheet
    assert by_name["gemmini-16"]["bf16_tflops"] is None and by_name["gemmini-16"]["peak_dtype"] == "i8"
    told = tilesim("machine", "list").stdout
    for row in rows:
        assert re.search(rf"^{re.escape(row['name'])} +{row['kind']} .*{re.escape(row['description'])}$", told, re.M)


def test_the_zoo_as_a_table() -> None:
    rows = {row["name"]: row for row in ts.models.table().rows}
    assert list(rows) == ts.models.names()
    assert all(row["kind"] and row["parameters"] > 0 and row["batch"] == 1 for row in rows.values())
    assert rows["resnet18"]["parameters"] == 11_689_512 and rows["resnet18"]["context"] is None  # torchvision
    assert rows["llama-3-8b"]["parameters"] == 8_030_261_248  # the published network
    assert (rows["gpt2"]["phase"], rows["mlp"]["phase"]) == ("prefill", "")
    for name in ("gpt2", "resnet50", "llama-3-8b"):
        weights = {str(one["dtype"]) for one in ts.models.build(name).weights().values()}
        assert rows[name]["dtype"] in weights
    told = tilesim("model", "list").stdout
    assert all(name in told for name in rows)
    ts.models.table().rows[0]["name"] = "changed"
    assert ts.models.table().rows[0]["name"] == "resnet18"
