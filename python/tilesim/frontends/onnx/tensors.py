"""Tensors of an ONNX model, in its file or in external data files."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._core import Unsupported
from ...base.arguments import is_size
from ...base.dtypes import NUMPY
from ...base.errors import shown, user_error
from ...base.extras import need
from ...graph.building import SMALL, namer
from ...graph.tensor import Tensor
from .scope import OnnxScope, dtype_of

MAX_ELEMENTS = 1 << 40  # most elements of one tensor
PACKED = {"i4", "u4", "f4e2m1fn"}


class StoredTensors:
    """Reads the tensors of a model; external data must lie in the model's directory or below it."""

    def __init__(self, directory: str) -> None:
        """Creates a reader; reads no tensor yet."""
        self.onnx = need("onnx", "onnx")
        self.directory = directory
        self.fresh = namer()

    def array(self, proto: Any, place: str) -> NDArray[Any]:
        """The elements of a TensorProto."""
        dtype, shape = dtype_of(proto.data_type, place), self.shape(list(proto.dims), place)
        count = int(np.prod(shape, dtype=object))
        wanted = (count + 1) // 2 if dtype in PACKED else count * np.dtype(NUMPY[dtype]).itemsize
        external = proto.data_location == self.onnx.TensorProto.EXTERNAL
        if not external and proto.HasField("raw_data") and len(proto.raw_data) != wanted:
            raise user_error(
                "a tensor has the wrong number of bytes",
                place=place,
                value=str(len(proto.raw_data)),
                allowed=str(wanted),
            )
        if external:
            path, offset = self.external(proto, wanted, place)
            with open(path, "rb") as file:
                file.seek(offset)
                data = file.read(wanted)
            proto = self.onnx.TensorProto(data_type=proto.data_type, dims=proto.dims, raw_data=data)
        elif not proto.HasField("raw_data") and not count_of(proto) and count:
            raise user_error("a tensor has no data", place=place)
        try:
            array = self.onnx.numpy_helper.to_array(proto)
        except Exception as error:
            raise user_error("a tensor cannot be read", place=place, value=str(error)[:200]) from None
        return np.asarray(array).astype(NUMPY[dtype], copy=False).reshape(shape)

    def shape(self, shape: list[int], place: str) -> list[int]:
        """Checks that a shape has no negative extent and at most MAX_ELEMENTS elements."""
        if any(extent < 0 for extent in shape) or int(np.prod(shape, dtype=object)) > MAX_ELEMENTS:
            raise user_error(
                "a shape is negative or too large", place=place, value=str(shape), allowed=f"{MAX_ELEMENTS} elements"
            )
        return [int(extent) for extent in shape]

    def external(self, proto: Any, wanted: int, place: str) -> tuple[str, int]:
        """File and offset of external data, which must lie beside or below the model."""
        entries = {entry.key: entry.value for entry in proto.external_data}
        location = entries.get("location", "")
        base = os.path.realpath(self.directory)
        if "\0" in location:
            raise user_error("a path holds a zero byte", place=place, value=shown(location))
        path = os.path.realpath(os.path.join(base, location))
        if not location or os.path.isabs(location) or os.path.commonpath([base, path]) != base:
            raise user_error("external data lie outside of the model's directory", place=place, value=f"'{location}'")
        try:
            numbers = [entries.get("offset", "0"), entries.get("length", str(wanted))]
            if not all(is_size(number) for number in numbers):  # `int` also accepts other digits, blanks, "_"
                raise ValueError(f"{shown(numbers)} are not byte counts")
            offset, length = map(int, numbers)
            size = os.path.getsize(path)
            if not os.path.isfile(path):
                raise ValueError(f"'{location}' is not a regular file")
        except (ValueError, OSError) as error:
            raise user_error("external data cannot be read", place=place, value=str(error)) from None
        if offset < 0 or length != wanted or offset + wanted > size:
            raise user_error(
                "external data are too short",
                place=place,
                value=f"{length} bytes at {offset} of {size}",
                allowed=f"{wanted} bytes",
            )
        return path, offset

    def initializers(self, scope: OnnxScope, graph: Any) -> None:
        """Adds the weights of a graph; external ones refer to their file."""
        if len(graph.sparse_initializer):
            raise Unsupported("sparse initializers")
        for proto in graph.initializer:
            place = f"initializer '{proto.name}'"
            scope.names[proto.name] = self.weight(scope, proto, place)

    def weight(self, scope: OnnxScope, proto: Any, place: str) -> Tensor:
        """Adds one initializer as a weight."""
        dtype = dtype_of(proto.data_type, place)
        shape = self.shape(list(proto.dims), place)
        count = int(np.prod(shape, dtype=object))
        name = self.fresh(str(proto.name) or "weight")
        trainable = NUMPY[dtype] is not bool and dtype[0] in "fb" and dtype != "bool"
        if proto.data_location == self.onnx.TensorProto.EXTERNAL and dtype not in PACKED and count > SMALL:
            path, offset = self.external(proto, count * np.dtype(NUMPY[dtype]).itemsize, place)
            value = scope.builder.core.weight(
                name, dtype=dtype, shape=shape, path=path, byte_offset=offset, trainable=trainable
            )
            scope.stored[value] = lambda: self.array(proto, place)
            return Tensor(scope.builder, value)
        array = self.array(proto, place)
        tensor = scope.builder.weight(name, data=array, trainable=trainable)
        scope.stored[tensor.value] = lambda: array
        if array.size <= SMALL:
            scope.known[tensor.value] = array
        return tensor


def count_of(proto: Any) -> int:
    """Returns the number of elements in the typed fields of a TensorProto."""
    fields = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")
    return sum(len(getattr(proto, field)) for field in fields)
