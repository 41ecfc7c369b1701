"""Opens and reads an ONNX model (`from_onnx`)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..._core import Unsupported
from ...base.arguments import integer
from ...base.checked import checked
from ...base.errors import path_text, shown, user_error
from ...base.extras import need
from ...base.figures import short
from ...base.files import read_bytes
from ...graph.graph import Graph
from .model import ModelReader

MAX_BYTES = (1 << 31) - 1  # largest size of a file: protobuf's own limit
#: supported operator versions; older versions broadcast differently
OPSETS = (7, 28)


def opened(source: Any) -> tuple[Any, str, str]:
    """Opens a model; returns its ModelProto, the directory of its external data, and its file name."""
    onnx = need("onnx", "onnx")
    directory, name, file = ".", "", ""
    if isinstance(source, (str, os.PathLike)):
        path = path_text(source)
        directory, name = os.path.dirname(path) or ".", os.path.splitext(os.path.basename(path))[0]
        source, file = read_bytes(path, MAX_BYTES), path
    if isinstance(source, bytes):
        model = onnx.ModelProto()
        try:
            model.ParseFromString(source)
        except Exception as error:
            raise user_error("not an ONNX model", place=file, value=str(error)[:200]) from None
    else:
        model = source
    if not isinstance(model, onnx.ModelProto) or not model.HasField("graph"):
        found = f"{len(source)} bytes without a graph" if isinstance(source, bytes) else type(source).__name__
        raise user_error("not an ONNX model", place=file, value=found)
    check_texts(model, name)
    return model, directory, name


def check_texts(message: Any, place: str) -> None:
    """Raises an error for text that is not UTF-8 (protobuf returns it as bytes), except in documentation fields."""
    for field in message.DESCRIPTOR.fields:
        if field.name in ("doc_string", "metadata_props") or field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue
        several = field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
        if not several and not message.HasField(field.name):
            continue
        found = getattr(message, field.name)
        for item in found if several else [found]:
            if field.type == field.TYPE_MESSAGE:
                check_texts(item, place)
            elif isinstance(item, bytes):
                raise user_error("a text is not UTF-8", place=f"{place}: {field.name}", value=shown(item))


def check_opsets(model: Any, name: str) -> None:
    """Raises an error for unsupported versions of the operators."""
    if not model.opset_import:
        raise user_error("the model does not say which version of the operators it uses (opset_import)", place=name)
    for row in [row for part in (model, *model.functions) for row in part.opset_import]:
        if row.domain in ("", "ai.onnx") and not OPSETS[0] <= row.version <= OPSETS[1]:
            raise user_error(
                "unsupported version of the ONNX operators",
                place=name,
                value=f"opset {row.version}",
                allowed=f"{OPSETS[0]} to {OPSETS[1]}",
                suggestion="onnx.version_converter.convert_version(model, 17) converts a model",
                sort=Unsupported,
            )


@checked()
def symbolic_sizes(source: str | os.PathLike[str] | bytes | Any, batch: int, context: int | None) -> dict[str, int]:
    """Returns extents of a model's symbolic dimensions, guessed from their names.

    Args:
        source: as for `from_onnx`.
        batch: extent of dimensions named "batch" or "N", and of the first axis of an input.
        context: extent of dimensions whose name has "seq", "len", "token" or "context".

    Returns:
        The argument `sizes` of `from_onnx`, without dimensions of other names.
    """
    model, _, _ = opened(source)
    sizes: dict[str, int] = {}
    for declared in model.graph.input:
        for axis, dim in enumerate(declared.type.tensor_type.shape.dim):
            name = dim.dim_param
            if not name or name in sizes:
                continue
            text = any(part in name.lower() for part in ("seq", "len", "token", "context"))
            if text and context is not None:
                sizes[name] = context
            elif not text and (axis == 0 or "batch" in name.lower() or name == "N"):
                sizes[name] = batch
    return sizes


def symbolic_names(model: Any) -> set[str]:
    """Returns the names of the symbolic dimensions of a model's inputs."""
    return {
        dim.dim_param
        for declared in model.graph.input
        for dim in declared.type.tensor_type.shape.dim
        if dim.HasField("dim_param")
    }


@checked()
def from_onnx(
    source: str | os.PathLike[str] | bytes | Any,
    *,
    sizes: Mapping[str, int] | None = None,
    fixed: Mapping[str, Any] | None = None,
    name: str = "",
    passes: str | Sequence[str] | None = None,
    batch: int | None = None,
    shardings: Mapping[str, str] | None = None,
    mesh: Mapping[str, int] | str | None = None,
) -> Graph:
    """Reads an ONNX model.

    Args:
        source: path of a .onnx file, its bytes, or an `onnx.ModelProto`.
        sizes: extents of symbolic dimensions by name, such as {"batch": 1}.
        fixed: arrays by input name; these inputs become constants. Inputs that determine shapes must be constants.
        name: name of the graph; by default the name of the file or model.
        passes: names of the pattern recognition passes to run, as for `tilesim.optimize`; "none" for none.
        batch: extent of symbolic batch dimensions (by name, or the first axis of an input) that `sizes` does not set.
        shardings: sharding over the mesh by input name, as {"x": '[{"d"}, {}]'}: see `Graph.annotate`.
        mesh: sizes of the device mesh axes, as {"d": 4}.

    Returns:
        A graph with the model's inputs and outputs; it reads external data from their files when needed.

    Raises:
        UserError: for a file that is not an ONNX model, a symbolic dimension without a size, a batch for a model of
            fixed sizes; names the package to install where onnx is missing.
        Unsupported: naming operator and node.
    """
    model, directory, stem = opened(source)
    if batch is not None:
        batch = integer("batch", batch, 1)
        found = symbolic_sizes(model, batch, None)
        if not found:
            raise user_error("all dimensions of this model are fixed", place=stem, value=f"batch {batch}",
                             suggestion="Export the model with a symbolic batch dimension")  # fmt: skip
        sizes = {**found, **(sizes or {})}
    name = name or stem or model.graph.name or "model"
    check_opsets(model, name)
    try:
        graph = ModelReader(model, directory, name, sizes or {}, fixed or {}).read()
    except RecursionError:
        raise Unsupported("the model is nested too deep") from None
    open_ones = {} if not sizes else {name: size for name, size in sizes.items() if name in symbolic_names(model)}
    graph.setting = ", ".join(f"{short(name, 20)} = {size}" for name, size in list(open_ones.items())[:4])
    graph.optimize(passes)
    if shardings or mesh:
        graph.annotate(shardings, mesh)
    return graph
