"""Exports a PyTorch model, decomposes unsupported overloads and imports the rest (`from_torch`)."""

from __future__ import annotations

import functools
import inspect
import io
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from typing import Any

import numpy as np
import torch
from torch.export.graph_signature import InputKind

from ...base.arguments import as_array
from ...base.errors import shown, unsupported, user_error
from ...base.locks import QUIET
from ...graph import Graph
from ...graph.torch_arrays import to_torch
from . import (  # noqa: F401 (their import fills the table)
    activations,
    attention,
    elementwise,
    fft,
    gradients,
    index,
    layers,
    linalg,
    pooling,
    reduce,
    scatter,
    shape,
    special,
)
from .fixed import Fixed, fixed_values
from .importing import Importer
from .nodes import IGNORED
from .table import TABLE

logger = logging.getLogger("tilesim.torch")

_DATA_DEPENDENT = (
    "Replace the choice by torch.where, fix the size with torch._check, or export the parts separately; for a mixture "
    "of experts take the grouped implementation instead of the loop over experts"
)


_LOGS = ("torch.export", "torch.fx", "torch._dynamo", "torch._export", "torch._subclasses.fake_tensor")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences torch's warnings and log of a failed export, because the raised error has the message."""
    loggers = [logging.getLogger(name) for name in _LOGS]
    with QUIET, warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        levels = [one.level for one in loggers]
        warnings.simplefilter("ignore")
        for one in loggers:
            one.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for one, level in zip(loggers, levels, strict=True):
                one.setLevel(level)


#: torch's decomposition of each requested overload, or None
_DECOMPOSITIONS: dict[Any, Any] = {}

#: overloads that torch decomposes if their additional results are used
_FURTHER = frozenset(
    ["aten.native_layer_norm.default", "aten.native_group_norm.default", "aten.max_pool2d_with_indices.default"]
)


def _register_caches() -> None:
    """Registers the caches of `transformers` with torch.export, if `transformers` is imported."""
    if "transformers.cache_utils" in sys.modules:
        try:
            from transformers.integrations.executorch import register_dynamic_cache_export_support
        except ImportError:
            return
        register_dynamic_cache_export_support()


def export(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, strict: bool = False) -> Any:
    """Runs torch.export and converts its errors to Tilesim's."""
    if not isinstance(module, torch.nn.Module):
        is_path = isinstance(module, (str, os.PathLike))
        value = shown(module) if is_path else type(module).__name__
        remedy = "Load it first: torch.load(path, weights_only=False)" if is_path else ""
        raise user_error("the model is not a torch.nn.Module", value=value, allowed="a torch.nn.Module",
                         suggestion=remedy)  # fmt: skip
    if getattr(module.forward, "__name__", "") == "_forward_unimplemented":
        raise user_error("the module has no forward", place=type(module).__name__,
                         suggestion="Give a module that has one, such as torch.nn.Sequential(*modules)")  # fmt: skip
    if isinstance(module, torch.jit.ScriptModule):
        raise unsupported("torch.export cannot read a torch.jit.script module", place=type(module).__name__,
                          suggestion="Pass the module that it was made from")  # fmt: skip
    if not isinstance(args, tuple):
        args = tuple(args) if isinstance(args, (list,)) else (args,)
    args = tuple(to_torch(as_array(arg, "args")) if _is_array(arg) else arg for arg in args)
    _register_caches()
    try:
        with torch.no_grad(), _quiet():
            return torch.export.export(module, args, dict(kwargs or {}), strict=strict)
    except Exception as error:  # torch raises errors of many types
        if holder := _custom_object(module):
            raise unsupported("torch.export cannot read the weights of a C++ object in the module",
                              place=type(module).__name__, value=holder, suggestion=_PACKED) from error  # fmt: skip
        raise _unfit(module, args, kwargs or {}) or _failed(
            error,
            "torch.export fails on this module and these inputs",
            type(module).__name__,
            "Check that forward takes inputs of these shapes and dtypes",
        ) from error


def _unfit(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Exception | None:
    """Returns the error for inputs without tensors, or that `forward` does not accept; None for valid inputs."""
    place, leaves = type(module).__name__, torch.utils._pytree.tree_leaves((args, dict(kwargs)))
    if not leaves:
        return user_error("missing example inputs", place=place,
                          suggestion="Write ts.from_torch(module, (x,)), x a tensor that forward takes")  # fmt: skip
    if not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        extents = all(isinstance(leaf, int) for leaf in leaves)
        shape = f"torch.zeros({', '.join(map(str, leaves))})" if extents else "x"
        return user_error("the inputs must be tensors", place=place, value=shown(args[0] if len(args) == 1 else args),
                          suggestion=f"Write ts.run(module, ({shape},))")  # fmt: skip
    signature = inspect.signature(module.forward)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        call = ", ".join(map(str, signature.parameters.values()))
        return user_error("forward does not take these inputs", place=place, value=str(error),
                          suggestion=f"Give the inputs of forward({call})")  # fmt: skip
    return None


_PACKED = "Quantize with torchao's PT2E flow, whose weights are tensors, or take the float module and ts.quantize"


def _custom_object(module: torch.nn.Module) -> str:
    """Names the first module that holds a TorchScript object, such as packed weights of quantized layers; else ""."""
    held = ((name, part, value) for name, part in module.named_modules() for value in vars(part).values())
    found = next((one for one in held if isinstance(one[2], torch.ScriptObject)), None)
    return "" if found is None else f"{type(found[1]).__name__} {found[0]}: {found[2]._type().qualified_name()}"


def _is_array(value: Any) -> bool:
    """Whether a value is an array of numpy or JAX, which torch does not accept."""
    return hasattr(value, "__array__") and not isinstance(value, (torch.Tensor, np.generic))


def _failed(error: Exception, what: str, place: str, suggestion: str = "") -> Exception:
    """Converts torch's error to one with the first line of its message and, for known errors, the usual fix."""
    lines, name = str(error).strip().splitlines(), type(error).__name__
    if "DataDependent" in name or "data-dependent" in str(error):
        line = re.search(r'File "([^"]+)", line (\d+), in \w+\n[ \t]+(\S.*)', str(error))
        where = f"{os.path.basename(line[1])}:{line[2]}: {line[3]}" if line else ""
        return unsupported("the control flow of the module depends on data", place=place, value=where,
                           suggestion=_DATA_DEPENDENT)  # fmt: skip
    if ".numpy()" in str(error):
        suggestion = "Remove .numpy() from forward, or pass the part that computes on tensors"
    elif "same device" in str(error):
        suggestion = "Move inputs and module to one device: module.to('cpu'), x.to('cpu')"
    elif "Cache" in str(error) or "lifted_tensor" in str(error):
        suggestion = "Take ts.from_transformers(model, phase='decode'), or wrap the module so that it takes and "
        suggestion += "returns the cache's keys and values as tensors"
    said = lines[0].rstrip(".!") if lines else ""
    said = said if " " in said else ": ".join(filter(None, (name, said)))  # some messages are an operator's name alone
    return unsupported(f"{what}: {said}", place=place, suggestion=suggestion)


def decomposed(program: Any) -> Any:
    """Converts a program to functional form; torch decomposes unsupported overloads."""
    _name_constants(program)
    try:
        with torch.no_grad(), _quiet():
            if not _is_functional(program):
                program = program.run_decompositions(_decompositions(program))
            for _ in range(4):
                table = _decompositions(program)
                if not table:
                    break
                program = program.run_decompositions(table)
    except Exception as error:  # torch raises errors of many types
        raise _failed(error, "torch cannot make this program functional", "run_decompositions") from error
    return program


def _is_functional(program: Any) -> bool:
    """Whether a program is in functional form already, which saves torch's conversion of milliseconds per call."""
    return all(
        node.op in ("placeholder", "output") or (node.op == "call_function" and _is_pure(node.target))
        for node in program.graph.nodes
    )


@functools.cache
def _is_pure(target: Any) -> bool:
    """Whether a supported overload changes no argument, draws no random number, and returns a new tensor or a simple
    view."""
    if not isinstance(target, torch._ops.OpOverload) or str(target) not in TABLE or target._schema.is_mutable:
        return False
    if any(word in str(target) for word in ("dropout", "norm", "lift", "alias", "detach", "rand")):  # mode-dependent
        return False
    composite = target.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
    return not composite or all(argument.alias_info is None for argument in target._schema.arguments)


def _name_constants(program: Any) -> None:
    """Restores short names of lifted constants, because torch drops the module's path when it decomposes."""
    constants = program.constants
    for name in list(constants):
        short = name.rpartition(".")[2]
        if short.startswith("lifted_tensor_"):
            constants.setdefault(short, constants[name])


def _decompositions(program: Any) -> dict[Any, Any]:
    """Returns torch's decompositions of the unsupported overloads whose results depend on an input."""
    targets = {node.target for node in _dependent(program)}
    missing = [target for target in targets if str(target) not in TABLE and str(target) not in IGNORED]
    missing += {node.target for node in _dependent(program) if _reads_further(node)}
    missing = [target for target in missing if isinstance(target, torch._ops.OpOverload)]
    if not missing:
        return {}
    unseen = [target for target in missing if target not in _DECOMPOSITIONS]
    if unseen:  # torch scans all registered operators to build each table
        composite, known = torch.export.default_decompositions(), torch._decomp.decomposition_table
        for target in unseen:
            _DECOMPOSITIONS[target] = composite[target] if target in composite else known.get(target)
    return {target: way for target in missing if (way := _DECOMPOSITIONS[target]) is not None}


def _reads_further(node: Any) -> bool:
    """Whether any node uses the additional results of an operation (statistics, indices of maxima)."""
    if str(node.target) not in _FURTHER:
        return False
    return any(len(user.args) > 1 and user.args[1] != 0 for user in node.users)


def _dependent(program: Any) -> list[Any]:
    """Returns the calls that depend on an input or parameter; reading evaluates the other calls."""
    stored = {InputKind.BUFFER, InputKind.CONSTANT_TENSOR}
    specs = {spec.arg.name: spec.kind for spec in program.graph_signature.input_specs}
    unknown, calls = set(), []
    for node in program.graph.nodes:
        if node.op == "placeholder" and specs[node.name] not in stored:
            unknown.add(node)
        elif node.op == "call_function" and any(source in unknown for source in node.all_input_nodes):
            unknown.add(node)
            calls.append(node)
    return calls


def from_torch(
    module: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    strict: bool = False,
    functions: bool = True,
    passes: str | Sequence[str] | None = None,
    fixed: Fixed = (),
) -> Graph:
    """See `tilesim.from_torch`."""
    program = module
    if not isinstance(module, torch.export.ExportedProgram):
        program, name = export(module, args, kwargs, strict), name or type(module).__name__
    return from_exported(program, name or "exported", functions, passes, fixed)


def from_exported(
    program: Any,
    name: str = "torch",
    functions: bool = True,
    passes: str | Sequence[str] | None = None,
    fixed: Fixed = (),
    names: Mapping[str, str] | None = None,
    foreign: bool = False,
) -> Graph:
    """Converts an exported program to a graph."""
    return read(program, name, functions, passes, fixed, names, foreign)[0]


def read(
    program: Any,
    name: str,
    functions: bool = True,
    passes: str | Sequence[str] | None = None,
    fixed: Fixed = (),
    names: Mapping[str, str] | None = None,
    foreign: bool = False,
    results: Sequence[str] = (),
) -> tuple[Graph, Importer]:
    """Builds the graph; also returns the importer, which maps the program's inputs and outputs."""
    program = decomposed(program)
    importer = Importer(program, name, functions, fixed_values(program, fixed), names, foreign, results)
    graph = importer.run()
    graph.remove_dead_code()
    graph.optimize(passes, without=["layers"])  # the importer has already found layers by module names
    graph.defaults.update(importer.state)
    return graph, importer
