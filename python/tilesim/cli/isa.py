"""`tilesim isa`: runs RISC-V programs, assembles, lists instructions."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from ..base.columns import layout, name, text
from ..base.errors import placed, user_error
from ..base.figures import count
from ..base.files import read_bytes, read_text, writing
from ..base.screen import wrapped
from ..isa import assemble, disassemble, header, instructions, kernel, kernel_text
from ..isa.elf import read_elf
from ..isa.listing import elf_lines, raw_lines
from ..isa.result import IsaResult, trap_text
from ..isa.running import RunArguments, Streams, run_with
from ..isa.views import MOST_LOGGED, marks_lines, table_lines
from ..timing.options import SimulateOptions
from .load import write
from .options import MACHINE, OUTPUT, Json, Only, Output
from .screen import say

_Elf = Annotated[str, typer.Argument(help="A static RISC-V ELF file, or an object file.")]


def run(
    elf: _Elf,
    args: Annotated[list[str] | None, typer.Argument(help="Arguments for the program, after --.")] = None,
    core: Annotated[str | None, typer.Option(help="A core's name or file.", rich_help_panel=MACHINE)] = None,
    machine: Annotated[str | None, typer.Option(help="Use a machine's core.", rich_help_panel=MACHINE)] = None,
    vlen: Annotated[int | None, typer.Option(help="Bits of a vector register.", rich_help_panel=MACHINE)] = None,
    max_instructions: Annotated[
        int | None, typer.Option(min=0, help="End the run after this many instructions.")
    ] = None,
    root: Annotated[str | None, typer.Option(help="Directory with files the program may open.")] = None,
    max_memory: Annotated[
        str, typer.Option(help="Memory limit of the program: 8GiB.", rich_help_panel=MACHINE)
    ] = "4GiB",
    bare: Annotated[
        bool, typer.Option("--bare", help="Run in machine mode without Linux; a store to tohost ends the run.")
    ] = False,
    timed: Annotated[bool, typer.Option("--timed", help="Also report cycles by function and line.")] = False,
    pipeline: Annotated[
        str | None,
        typer.Option(
            help="Write issue, start and end of each instruction, as text or .kanata for Konata; implies --timed.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    pipeline_limit: Annotated[
        int, typer.Option(min=1, max=MOST_LOGGED, help="Instructions that --pipeline records.", rich_help_panel=OUTPUT)
    ] = 10_000,
    *,
    drawn: Annotated[SimulateOptions, Only("seed")],
    out: Annotated[Output, Only("json", "timeline")],
) -> None:
    streams = (_where(stream, number) for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)))
    recorded = 0 if pipeline is None else pipeline_limit
    most = int(max_memory) if max_memory.isascii() and max_memory.isdigit() else max_memory
    asked = RunArguments(
        core, machine, vlen, max_instructions, root, drawn.seed, bare=bare, max_memory=most, pipeline=recorded,
        timed=timed or pipeline is not None or out.timeline is not None, timeline=out.timeline is not None,
    )  # fmt: skip
    result = run_with(Streams(*streams), elf, args or (), asked)
    _pass_on(sys.stdout, result.output)
    _pass_on(sys.stderr, result.errors)
    if out.json is not None:
        write(result.to_dict(), out.json)
    _views(result, pipeline, out.timeline)
    if result.trap is not None:
        say(wrapped(f"tilesim: {trap_text(result.trap)}", hang="  "), err=True)
    elif result.exit_status:
        ended = f"tilesim: the program returned {result.exit_status} after {count(result.instructions)} instructions"
        say(wrapped(ended, hang="  "), err=True)
    if result.exit_status != 0:
        raise typer.Exit(1)


def _views(result: IsaResult, pipeline: str | None, trace: str | None) -> None:
    """Prints the profile of a timed run."""
    if result.cycles is None:
        _marks(result)
        return
    roofline = result.roofline()
    told = f"tilesim: {count(result.cycles)} cycles, {count(result.instructions)} instructions"
    if roofline["operations"]:
        done, most = roofline["operations_per_cycle"], roofline["roof_operations_per_cycle"]
        told += f", {done:.3g} operations per cycle of {most:.3g} possible ({roofline['bound']})"
    say(wrapped(told, hang="  "), err=True)
    for by in ("function", "line"):
        table = result.table(by)
        if len(table):
            say(["", *table_lines(table, 20)], err=True)
    _marks(result)
    kept = [("--pipeline", result.write_pipeline(pipeline) if pipeline is not None else 0)]
    kept.append(("--timeline", result.timeline(trace) if trace is not None else 0))
    for option, left in kept:
        if left:
            say(wrapped(f"tilesim: {option}: {count(left)} instructions were not recorded", hang="  "), err=True)


def _marks(result: IsaResult) -> None:
    lines = marks_lines(result.marks, 20)
    if lines:
        say(["", *lines], err=True)


def _where(stream: Any, number: int) -> str:
    """Returns the `Streams` mode of a Python stream: "c" closed, "o" the process's own, "k" replaced (a notebook)."""
    if stream is None:
        return "c"
    try:
        return "o" if stream.fileno() == number else "k"
    except (AttributeError, OSError, ValueError):
        return "k"


def _pass_on(stream: Any, data: bytes) -> None:
    """Writes captured bytes to a Python stream, decoded if the stream accepts only text."""
    if stream is None or not data:
        return
    raw = getattr(stream, "buffer", None)
    if raw is None:
        stream.write(data.decode("utf-8", "replace"))
        return
    stream.flush()
    raw.write(data)
    raw.flush()


def asm(
    source: Annotated[str, typer.Argument(help="An assembly file.")],
    output: Annotated[str, typer.Option("--output", "-o", help="ELF file to write.", rich_help_panel=OUTPUT)] = "a.elf",
) -> None:
    with placed(source):
        code = assemble(read_text(source, 1 << 28))
    with writing(output, "wb") as file:
        file.write(code)
    os.chmod(output, 0o755)
    say(wrapped(f"{output}: {count(len(code))} bytes", hang="  "))


def dis(
    what: Annotated[list[str], typer.Argument(help="An ELF file, or instructions as hexadecimal numbers.")],
    raw: Annotated[bool, typer.Option("--raw", help="Treat the whole file as code, without an ELF header.")] = False,
    address: Annotated[
        int | None, typer.Option(min=0, help="Address of the first byte of a --raw file; default 0.")
    ] = None,
) -> None:
    if raw:
        for name_ in what:
            say(list(raw_lines(read_bytes(name_), address or 0)))
        return
    if address is not None:
        raise user_error("--address applies only to raw bytes", place="--address", allowed="with --raw")
    if len(what) > 1 or not os.path.exists(what[0]):
        for word in what:
            say([disassemble(_bits(word))])
        return
    say(list(elf_lines(read_elf(what[0]))))


def kernel_(
    compute: Annotated[
        str, typer.Argument(help='"mma bf16 bf16 b1 m128 n128 k256 ko1", "permute bf16 e64,32 i32,1 o1,64".')
    ],
    machine: Annotated[
        str, typer.Option(help="The machine whose core runs the kernel.", rich_help_panel=MACHINE)
    ] = "tpu-v3",
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="ELF file to write; default: print a listing.", rich_help_panel=OUTPUT),
    ] = None,
) -> None:
    if output is None:
        say(kernel_text(compute, machine).splitlines())
        return
    code = kernel(compute, machine)
    with writing(output, "wb") as file:
        file.write(code)
    os.chmod(output, 0o755)
    say(wrapped(f"{output}: {count(len(code))} bytes", hang="  "))


def header_(
    machine: Annotated[
        str | None, typer.Option(help="Add the constants of this machine.", rich_help_panel=MACHINE)
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="File to write; default: standard output.", rich_help_panel=OUTPUT),
    ] = None,
) -> None:
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
        raise user_error("neither a file nor an instruction", value=word, allowed="a file, up to 8 hexadecimal digits")
    return bits


def list_(
    extension: Annotated[str | None, typer.Argument(help="An extension, such as I, M, Zbb, V; default: all.")] = None,
    *,
    out: Json,
) -> None:
    rows = instructions(extension)
    if out.json is not None:
        write([dict(row) for row in rows], out.json)
        return
    columns = [text("extension", 2, 8), name("name"), text("operands", 0, 12), text("unit", 1, 8), text("meaning")]
    cells = [[row[key] for key in ("extension", "name", "operands", "unit", "description")] for row in rows]
    say([f"{len(rows)} instructions", "", *layout(columns, cells)])
