"""Converts StableHLO modules and JAX functions to graphs, with jaxlib's parser (extra `jax`)."""

from __future__ import annotations

import inspect
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..._core import Unsupported
from ...base.checked import checked
from ...base.errors import path_text, shown, unsupported, user_error
from ...base.extras import need
from ...base.files import read_bytes
from ...graph.graph import Graph
from .module import ModuleReader
from .passes import QUANTIZED, know_quantized, run

__all__ = ["from_jax", "from_stablehlo"]

MAX_BYTES = 1 << 30  # largest size of a module's text or bytecode
MAX_SECONDS = 600  # most seconds of wall time for the translation of bytecode
MAX_WORK = 4  # most CPU seconds of the translation, plus one per MiB: damaged bytecode can make MLIR's reader loop
MAX_MODULE = 1 << 26  # largest module for one device that a graph keeps, in bytes
MAX_MEMORY = 4 << 30  # most bytes of memory for the translation, plus 64 per byte of the module
MAX_NESTING = 256  # deepest nesting of brackets, because the parser recurses


def nesting(text: str) -> int:
    """Returns the deepest nesting of brackets outside of quotes."""
    depth = deepest = 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[\](){}<>]', text):
        bracket = match[0]
        if bracket in "([{<":
            depth += 1
            deepest = max(deepest, depth)
        elif bracket in ")]}" or (bracket == ">" and text[match.start() - 1] != "-"):
            depth = max(0, depth - 1)
    return deepest


# Gets the dialects of jax.interpreters.mlir.make_ir_context from jaxlib, because importing jax takes a second.
# Falls back to jax for versions of jaxlib that keep them elsewhere.
TRANSLATE = """
import resource, sys
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
def context():
    try:
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mlir.dialects import chlo, mhlo, mpmd, sdy, stablehlo
        registry, made = ir.DialectRegistry(), ir.Context()
        _jax_mlir_ext.register_dialects(registry)
        made.append_dialect_registry(registry)
        made.load_all_available_dialects()
        for dialect in (sdy, mpmd, chlo, stablehlo):
            dialect.register_dialect(made)
        mhlo.register_mhlo_dialect(made)
        return made
    except (ImportError, AttributeError, TypeError):
        from jax.interpreters import mlir
        return mlir.make_ir_context()
made = context()
seconds, memory = int(sys.argv[1]), int(sys.argv[2])
used = resource.getrusage(resource.RUSAGE_SELF)
seconds += int(used.ru_utime + used.ru_stime) + 1
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
try:
    with open("/proc/self/statm") as file:
        memory += int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
except (OSError, ValueError):  # unsupported by the system
    pass
source = sys.stdin.buffer.read()
with made, ir.Location.unknown():
    if b"quant" in source:  # a pass depends on the dialect of quantized types, and loads it
        from jaxlib.mlir import passmanager
        stablehlo.register_stablehlo_passes()
        passmanager.PassManager.parse("builtin.module(vhlo-legalize-to-stablehlo)").run(ir.Module.create().operation)
    artifact = b"StableHLO_v" in source[:64]  # of any version that is still read, as jax.export writes them
    module = stablehlo.deserialize_portable_artifact(made, source) if artifact else ir.Module.parse(source)
    text = module.operation.get_asm(enable_debug_info=True, large_elements_limit=None)
sys.stdout.buffer.write(text.encode("utf-8"))
"""


def translated(source: bytes, place: str) -> str:
    """Translates bytecode to text in a subprocess, because MLIR's reader aborts on some damaged input."""
    limits = [str(MAX_WORK + (len(source) >> 20)), str(MAX_MEMORY + 64 * len(source))]
    command = [sys.executable, "-c", TRANSLATE, *limits]
    try:
        done = subprocess.run(command, input=source, capture_output=True, timeout=MAX_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise user_error("bytecode takes too long to read", place=place, allowed=f"{MAX_SECONDS} seconds") from None
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise user_error("bytecode takes too long to read", place=place, allowed=f"{limits[0]} seconds of process time")
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["the reader stopped"]
        raise user_error("the MLIR bytecode cannot be read", place=place, value=lines[-1][:300])
    return done.stdout.decode("utf-8")


def parsed(source: str | bytes, place: str) -> Any:
    """Parses a module from text or bytecode."""
    need("jax", "jax")
    mlir = need("jax.interpreters.mlir", "jax")
    ir = need("jaxlib.mlir.ir", "jax")
    if len(source) > MAX_BYTES:
        raise user_error(
            "the module is too long", place=place, value=f"{len(source)} bytes", allowed=f"{MAX_BYTES} bytes"
        )
    if isinstance(source, bytes):
        source = translated(source, place)
    if (deepest := nesting(source)) > MAX_NESTING:
        raise user_error(
            "brackets are nested too deep", place=place, value=str(deepest), allowed=f"at most {MAX_NESTING}"
        )
    context = mlir.make_ir_context()
    quantized = "!quant." in source
    try:
        if quantized:
            know_quantized(context)
        with context, ir.Location.unknown():
            module = ir.Module.parse(source)
        if quantized:
            run(module, QUANTIZED)
        return module
    except Exception as error:
        detail = " ".join(str(error).split())[:300]
        raise user_error(
            "the module cannot be parsed", place=place, value=detail, allowed="StableHLO text or bytecode"
        ) from None


@checked()
def from_stablehlo(
    source: str | os.PathLike[str] | bytes, *, name: str = "", passes: str | Sequence[str] | None = None
) -> Graph:
    """Reads a StableHLO module.

    Args:
        source: text or bytecode of a module, or the path of a file with it (.mlir, .mlirbc).
        name: name of the graph; by default the name of the module or file.
        passes: names of the pattern recognition passes to run, as for `tilesim.optimize`; "none" for none.

    Returns:
        A graph with the entry function's inputs (named by their locations, else arg0, arg1, ..) and outputs.

    Raises:
        UserError: for a file or text that is not a module; names the package to install where jax is missing.
        Unsupported: for an unsupported operation, which the message names with its location.
    """
    place = "module"
    contents: str | bytes
    if isinstance(source, bytes) or (isinstance(source, str) and ("\n" in source or "{" in source)):
        contents = source
    else:
        place = path_text(source)
        contents = read_bytes(place, MAX_BYTES)
        name = name or os.path.splitext(os.path.basename(place))[0]
    if isinstance(contents, bytes) and contents[:4] != b"ML\xefR":
        try:
            contents = contents.decode("utf-8")
        except UnicodeDecodeError:
            raise user_error("neither MLIR text nor bytecode", place=place) from None
    graph = graph_of(parsed(contents, place), name, passes)
    return _with_module(graph, contents)


def _with_module(graph: Graph, contents: str | bytes) -> Graph:
    """Attaches the module to a graph, unless it is a long module for one device."""
    if graph.devices > 1 or graph.mesh or len(contents) <= MAX_MODULE:
        graph.module = contents
    return graph


def graph_of(module: Any, name: str, passes: str | Sequence[str] | None = None) -> Graph:
    """Converts a parsed module to a graph."""
    if not name and "sym_name" in module.operation.attributes:
        name = str(module.operation.attributes["sym_name"].value)
    try:
        graph = ModuleReader(module, name or "module").entry()
    except RecursionError:
        raise Unsupported("the module is nested too deep") from None
    graph.optimize(passes)
    return graph


@checked("function")
def from_jax(
    function: Callable[..., Any],
    *args: Any,
    name: str = "",
    passes: str | Sequence[str] | None = None,
    **kwargs: Any,
) -> Graph:
    """Traces a JAX function.

    Args:
        function: any function that `jax.jit` accepts or returned.
        args: arrays, `jax.ShapeDtypeStruct`, or trees of them; their values do not matter.
        name: name of the graph; by default the name of the function.
        passes: names of the pattern recognition passes to run, as for `tilesim.optimize`; "none" for none.
        kwargs: keyword arguments, like args.

    Returns:
        A graph whose inputs are the leaves of args and kwargs in order, and outputs the leaves of the result.

    Raises:
        UserError: for arguments that do not fit the function; names the package to install where jax is missing.
        Unsupported: for an unsupported operation, which the message names with its location.
    """
    if not callable(function):
        raise user_error(
            "not a function", value=shown(function), allowed="a function that jax.jit takes, then its arguments"
        )
    jax = need("jax", "jax")
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        names = ", ".join(inspect.signature(function).parameters)
        name = getattr(function, "__name__", "f")
        call = f"ts.from_jax({name if name.isidentifier() else 'f'}, {names})"
        raise user_error(
            "the arguments do not fit the function", value=str(error), suggestion=f"Write {call}"
        ) from None
    except ValueError:  # a builtin function has no signature
        pass
    jitted = jax.jit(function, keep_unused=True)
    try:
        lowered = jitted.trace(*args, **kwargs).lower(lowering_platforms=("cpu",))
    except OverflowError as error:  # no JAX type can hold the integer
        raise user_error("jax cannot trace the function", value=str(error)[:200], allowed="arrays, numbers") from None
    except (TypeError, ValueError, IndexError) as error:  # from JAX, or from the function
        said = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        remedy = "Replace a choice that depends on data by jnp.where or jax.lax.cond" if "Tracer" in repr(error) else ""
        raise unsupported(f"jax cannot trace the function: {said}", place=getattr(function, "__name__", "function"),
                          suggestion=remedy) from error  # fmt: skip
    module = lowered.compiler_ir("stablehlo")
    graph = graph_of(module, name or getattr(function, "__name__", "function").strip("<>"), passes)
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return _with_module(graph, written.getvalue())
