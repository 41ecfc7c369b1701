"""`tilesim isa`: RISC-V programs, assembler, table of instructions. `tilesim levels`: kernels beside closed forms."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from ..base import figures
from ..base.errors import user_error
from ..base.figures import count
from ..base.files import check_writable, read_bytes, read_text, writing
from ..isa import assemble, disassemble, header, instructions, kernel, kernel_text
from ..isa.elf import read_elf
from ..isa.listing import elf_lines, raw_lines
from ..isa.result import IsaResult, trap_text
from ..isa.running import Asked, Streams, run_with
from ..isa.views import MOST_LOGGED, marks_lines, table_lines
from ..loading import load
from ..machine.machine import Machine
from ..program.program import Program
from ..results.perfetto import check_ending
from ..timing.levels import Levels, levels
from ..timing.simulate import compile
from .complete import App
from .examples import epilog
from .load import write
from .options import MACHINE, OUTPUT
from .screen import say, wrapped
from .show import step
from .tables import layout, name, number, text

isa_app = App(no_args_is_help=True, help="RISC-V programs at instruction level.")

_Elf = Annotated[str, typer.Argument(help="A static RISC-V ELF file, or an object file.")]


@isa_app.command("run", epilog=epilog("isa run"))
def run(
    elf: _Elf,
    args: Annotated[list[str] | None, typer.Argument(help="Arguments of the program, after --.")] = None,
    core: Annotated[str | None, typer.Option(help="A core, or a file.", rich_help_panel=MACHINE)] = None,
    machine: Annotated[str | None, typer.Option(help="The core of a machine.", rich_help_panel=MACHINE)] = None,
    vlen: Annotated[int | None, typer.Option(help="Bits of a vector register.", rich_help_panel=MACHINE)] = None,
    max_instructions: Annotated[int | None, typer.Option(min=0, help="Ends the run after so many.")] = None,
    root: Annotated[str | None, typer.Option(help="Directory whose files the program may open.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of random bytes.")] = 0,
    max_memory: Annotated[str, typer.Option(help="What it may use: 8GiB.", rich_help_panel=MACHINE)] = "4GiB",
    bare: Annotated[bool, typer.Option("--bare", help="No Linux: machine mode, ended by a store to tohost.")] = False,
    timed: Annotated[bool, typer.Option("--timed", help="Also cycles, by function and line.")] = False,
    json_: Annotated[
        str | None, typer.Option("--json", help="Write counts and trap; - for standard output.", rich_help_panel=OUTPUT)
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(
            help="Write when each instruction issued, started, ended: text, or .kanata for Konata. Timed.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    pipeline_limit: Annotated[
        int, typer.Option(min=1, max=MOST_LOGGED, help="Instructions of --pipeline.", rich_help_panel=OUTPUT)
    ] = 10_000,
    trace: Annotated[
        str | None,
        typer.Option(
            help="Write a trace for Perfetto, a track per unit: .pftrace or .json. Timed.", rich_help_panel=OUTPUT
        ),
    ] = None,
) -> None:
    """Run a program; its standard streams are this command's, the profile of a timed run goes to standard error.

    Exit codes: 0, the program ended with 0; 1, it ended otherwise or trapped; 2, a mistake in the command.
    """
    _check_outputs(json_, pipeline, trace)
    streams = (_where(stream, number) for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)))
    recorded = 0 if pipeline is None else pipeline_limit
    most = int(max_memory) if max_memory.isascii() and max_memory.isdigit() else max_memory
    asked = Asked(
        core, machine, vlen, max_instructions, root, seed, bare=bare, max_memory=most, pipeline=recorded,
        timed=timed or pipeline is not None or trace is not None, timeline=trace is not None,
    )  # fmt: skip
    result = run_with(Streams(*streams), elf, args or (), asked)
    _pass_on(sys.stdout, result.output)
    _pass_on(sys.stderr, result.errors)
    if json_ is not None:
        write(result.to_dict(), json_)
    _views(result, pipeline, trace)
    if result.trap is not None:
        say(wrapped(f"tilesim: {trap_text(result.trap)}", hang="  "), err=True)
    elif result.exit_status:
        ended = f"tilesim: the program ended with {result.exit_status}, after {count(result.instructions)} instructions"
        say(wrapped(ended, hang="  "), err=True)
    if result.exit_status != 0:
        raise typer.Exit(1)


def _check_outputs(json_: str | None, pipeline: str | None, trace: str | None) -> None:
    """Before any work: files that cannot be written."""
    if trace is not None:
        check_ending(trace)
    for path in (json_, pipeline, trace):
        if path is not None and path != "-":
            check_writable(path)


def _views(result: IsaResult, pipeline: str | None, trace: str | None) -> None:
    """What a timed run shows beside the program's own output."""
    if result.cycles is None:
        _marks(result)
        return
    roofline = result.roofline()
    told = f"tilesim: {count(result.cycles)} cycles, {count(result.instructions)} instructions"
    if roofline["operations"]:
        done, most = roofline["operations_per_cycle"], roofline["roof_operations_per_cycle"]
        told += f", {done:.3g} operations per cycle of at most {most:.3g} ({roofline['bound']})"
    say(wrapped(told, hang="  "), err=True)
    for by in ("function", "line"):
        table = result.table(by)
        if len(table):
            say(["", *table_lines(table, 20)], err=True)
    _marks(result)
    kept = [("--pipeline", result.write_pipeline(pipeline) if pipeline is not None else 0)]
    kept.append(("--trace", result.timeline(trace) if trace is not None else 0))
    for option, left in kept:
        if left:
            say(wrapped(f"tilesim: {option}: {count(left)} instructions are left out", hang="  "), err=True)


def _marks(result: IsaResult) -> None:
    lines = marks_lines(result.marks, 20)
    if lines:
        say(["", *lines], err=True)


def _where(stream: Any, number: int) -> str:
    """As in `Streams`: of Python's stream, which is none where the process began without it, and stands for another
    file in a notebook or under a test."""
    if stream is None:
        return "c"
    try:
        return "o" if stream.fileno() == number else "k"
    except (AttributeError, OSError, ValueError):
        return "k"


def _pass_on(stream: Any, data: bytes) -> None:
    """What was kept of a standard stream, to the one that stands for it here: bytes as they are where it takes such."""
    if stream is None or not data:
        return
    raw = getattr(stream, "buffer", None)
    if raw is None:
        stream.write(data.decode("utf-8", "replace"))
        return
    stream.flush()
    raw.write(data)
    raw.flush()


@isa_app.command("asm", epilog=epilog("isa asm"))
def asm(
    source: Annotated[str, typer.Argument(help="Assembly text.")],
    output: Annotated[str, typer.Option("--output", "-o", help="The ELF file.", rich_help_panel=OUTPUT)] = "a.elf",
) -> None:
    """Assemble a file into a static program."""
    code = assemble(read_text(source, 1 << 28))
    with writing(output, "wb") as file:
        file.write(code)
    os.chmod(output, 0o755)
    say(wrapped(f"{output}: {count(len(code))} bytes", hang="  "))


@isa_app.command("dis", epilog=epilog("isa dis"))
def dis(
    what: Annotated[list[str], typer.Argument(help="An ELF file, or instructions as hexadecimal numbers.")],
    raw: Annotated[bool, typer.Option("--raw", help="The file is no ELF file: all of its bytes are code.")] = False,
    address: Annotated[int | None, typer.Option(min=0, help="Of the first byte of a --raw file; 0 if none.")] = None,
) -> None:
    """Disassemble a program's code, or single instructions."""
    if raw:
        for name_ in what:
            say(list(raw_lines(read_bytes(name_), address or 0)))
        return
    if address is not None:
        raise user_error("only bytes without addresses are put somewhere", place="--address", allowed="with --raw")
    if len(what) > 1 or not os.path.exists(what[0]):
        for word in what:
            say([disassemble(_bits(word))])
        return
    say(list(elf_lines(read_elf(what[0]))))


@isa_app.command("kernel", epilog=epilog("isa kernel"))
def kernel_(
    compute: Annotated[
        str, typer.Argument(help='"mma bf16 bf16 b1 m128 n128 k256 ko1", "permute bf16 e64,32 i32,1 o1,64".')
    ],
    machine: Annotated[str, typer.Option(help="Whose core.", rich_help_panel=MACHINE)] = "tpu-v3",
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="An ELF file; none: a listing.", rich_help_panel=OUTPUT)
    ] = None,
) -> None:
    """The kernel of a tile compute, as a program or as text."""
    if output is None:
        say(kernel_text(compute, machine).splitlines())
        return
    code = kernel(compute, machine)
    with writing(output, "wb") as file:
        file.write(code)
    os.chmod(output, 0o755)
    say(wrapped(f"{output}: {count(len(code))} bytes", hang="  "))


@isa_app.command("header", epilog=epilog("isa header"))
def header_(
    machine: Annotated[str | None, typer.Option(help="Its constants too.", rich_help_panel=MACHINE)] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="A file; none: standard output.", rich_help_panel=OUTPUT)
    ] = None,
) -> None:
    """The C header of an NPU core: its instructions, numbers, registers and transfer descriptor."""
    made = header(machine=machine)
    if output is None:
        if sys.stdout is not None:
            sys.stdout.write(made)
        return
    with writing(output) as file:
        file.write(made)
    say(wrapped(f"{output}: {count(len(made))} bytes", hang="  "))


def _bits(word: str) -> int:
    try:
        bits = int(word, 16)
    except ValueError:
        bits = -1
    if not 0 <= bits < 1 << 32:
        raise user_error("this is neither a file nor an instruction", value=word, allowed="up to 8 hexadecimal digits")
    return bits


@isa_app.command("list", epilog=epilog("isa list"))
def list_(
    extension: Annotated[str | None, typer.Argument(help="Such as I, M, Zbb, V; all if none.")] = None,
    json_: Annotated[
        str | None, typer.Option("--json", help="Write the rows; - for standard output.", rich_help_panel=OUTPUT)
    ] = None,
) -> None:
    """The table of instructions."""
    rows = instructions(extension)
    if json_ is not None:
        write([dict(row) for row in rows], json_)
        return
    columns = [text("extension", 2, 8), name("name"), text("operands", 0, 12), text("unit", 1, 8), text("meaning")]
    cells = [[row[key] for key in ("extension", "name", "operands", "unit", "description")] for row in rows]
    say([f"{len(rows)} instructions", "", *layout(columns, cells)])


SHOWN = 15  # distinct computes


def _levels(
    model: Annotated[str, typer.Argument(help="A network's name, matmul:M,N,K[,dtype], or a file.")],
    machine: Annotated[str, typer.Option(help="Machine, by name or file.", rich_help_panel=MACHINE)] = "tpu-v3",
    batch: Annotated[int, typer.Option(min=1, help="Images, sequences or products.")] = 1,
    live: Annotated[bool, typer.Option("--live", help="Also with kernels beside each other.")] = False,
    json_: Annotated[
        str | None, typer.Option("--json", help="Write all rows; - for standard output.", rich_help_panel=OUTPUT)
    ] = None,
) -> None:
    """What closed forms and kernels say of each tile compute, and of the whole."""
    target = Machine.load(machine)
    loaded = load(model, batch)
    with step(f"compiling for {target.name}"):
        compiled = loaded if isinstance(loaded, Program) else compile(loaded, target)
    with step("simulating at all levels" if live else "simulating at both levels"):
        found = levels(compiled, target, live=live)
    if json_ is not None:
        write(found.to_dict(), json_)
        if json_ == "-":
            return
    _show(found)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:+.1f} %"


def _show(found: Levels) -> None:
    cycles = found.cycles
    line = f"tile {figures.count(cycles['tile'])} cycles, instruction {figures.count(cycles['instruction'])} cycles: "
    line += f"{100 * found.difference:+.2f} %"
    live = cycles.get("live")
    if live is not None:
        more = live / cycles["instruction"] - 1 if cycles["instruction"] else 0.0
        line += f"; live {figures.count(live)} cycles: {100 * more:+.2f} % of the instruction level"
    say(wrapped(line, hang="  "))
    rows = found.computes[:SHOWN]
    columns = [text("compute", 0, 16), number("count"), number("closed form"), number("kernel"), number("more")]
    if live is not None:
        columns.append(number("live"))
    columns.append(text("limit", 1, 8))
    cells = [
        [
            " ".join(word for word in row["compute"].split() if not (word[0] == "g" and len(word) == 17)),
            figures.count(row["count"]),
            figures.count(row["closed_form"]),
            "" if row["instruction"] is None else figures.count(row["instruction"]),
            _percent(row["difference"]),
            *([] if live is None else ["" if row["live"] is None else figures.count(round(row["live"]))]),
            row["limit"],
        ]
        for row in rows
    ]
    say(layout(columns, cells))
    if len(found.computes) > SHOWN:
        say(wrapped(f"{len(found.computes) - SHOWN} more in --json", hang="  "))
    for note in found.notes:
        say(wrapped(note, hang="  "))


def register(app: typer.Typer) -> None:
    """Adds the command.

    Args:
        app: of the command line.
    """
    app.command("levels", epilog=epilog("levels"))(_levels)
