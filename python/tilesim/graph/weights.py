"""Reads weight files: safetensors (also sharded), npz, and PyTorch's .pt without executing their code."""

from __future__ import annotations

import io
import os
import pickletools
import struct
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import Error, Unsupported
from ..base.arguments import as_array
from ..base.dtypes import NUMPY
from ..base.errors import nearest, path_text, user_error
from ..base.extras import need
from ..base.files import check_regular, parse_json, read_json, unreadable

MAX_HEADER = 100 << 20  # most bytes of a safetensors header
MAX_ELEMENTS = 1 << 56  # most elements of a tensor
MAX_RANK = 64
MAX_RATIO = 1100  # ratio of an npz member to its compressed size that deflate cannot reach

# https://github.com/huggingface/safetensors, format description
SAFETENSORS = {
    "F64": "f64",
    "F32": "f32",
    "F16": "f16",
    "BF16": "bf16",
    "F8_E4M3": "f8e4m3fn",
    "F8_E5M2": "f8e5m2",
    "F8_E8M0": "f8e8m0fnu",
    "BOOL": "bool",
    "C64": "c64",
    **{f"{letter}{bits}": f"{letter.lower()}{bits}" for letter in "IU" for bits in (8, 16, 32, 64)},
}
NAMES = {np.dtype(value): name for name, value in NUMPY.items()}


class StoredTensor:
    """A tensor in a file: its type, and a function that loads its elements."""

    def __init__(
        self, dtype: str, shape: tuple[int, ...], load: Callable[[], NDArray[Any]], path: str = "", offset: int = 0
    ) -> None:
        """Stores the description."""
        self.dtype, self.shape, self.load, self.path, self.offset = dtype, shape, load, path, offset


def open_weights(path: str | os.PathLike[str]) -> dict[str, StoredTensor]:
    """Lists the tensors of a weight file. Elements are read on demand."""
    text = path_text(path)
    if os.path.isdir(text):
        found = sorted(name for name in os.listdir(text) if name.endswith(".safetensors.index.json"))
        single = sorted(name for name in os.listdir(text) if name.endswith(".safetensors"))
        if not found and len(single) != 1:
            raise user_error("the directory has no weights", place=text, allowed="one .safetensors file, or an index")
        text = os.path.join(text, (found or single)[0])
    try:
        check_regular(text)
        if text.endswith(".safetensors.index.json"):
            return _shards(text)
        if text.endswith(".safetensors"):
            return _safetensors(text)
        if text.endswith(".npz"):
            return _npz(text)
        if text.endswith((".pt", ".pth", ".bin")):
            return _torch(text)
    except OSError as error:
        raise unreadable(text, error) from None
    raise user_error(
        "unknown type of weight file",
        place=text,
        allowed=".safetensors, .safetensors.index.json, .npz, .pt, .pth, .bin",
    )


def _header(path: str) -> tuple[dict[str, Any], int, int]:
    """Reads the header of a safetensors file; returns it with the start and the length of the data."""
    check_regular(path)
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else -1
        if length < 2 or length > MAX_HEADER or length + 8 > size:
            raise user_error(
                "not a safetensors file, or cut off", place=path, value=f"a header of {length} bytes in {size}"
            )
        text = file.read(length)
    header = parse_json(text, f"{path}, header")
    if not isinstance(header, dict):
        raise user_error("the header of a safetensors file is not a JSON object", place=path)
    return header, 8 + length, size - 8 - length


def _safetensors(path: str) -> dict[str, StoredTensor]:
    header, start, size = _header(path)
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        place = f"{path}, tensor '{name}'"
        try:
            kind, shape, (begin, end) = str(entry["dtype"]), list(entry["shape"]), entry["data_offsets"]
        except (KeyError, TypeError, ValueError):
            raise user_error("missing dtype, shape or data_offsets of a tensor", place=place) from None
        if kind not in SAFETENSORS:
            raise Unsupported(f"{place}: element type {kind}")
        if not all(type(number) is int and number >= 0 for number in (*shape, begin, end)):
            raise user_error("extents and offsets are integers of at least 0", place=place, value=str(entry)[:200])
        dtype = SAFETENSORS[kind]
        count = int(np.prod(shape, dtype=object)) if len(shape) <= MAX_RANK else MAX_ELEMENTS + 1
        if count > MAX_ELEMENTS:
            raise user_error("a tensor has too many elements or dimensions", place=place, value=str(shape)[:200])
        wanted = count * np.dtype(NUMPY[dtype]).itemsize
        if end - begin != wanted or end > size:
            raise user_error(
                "a tensor does not fit its bytes",
                place=place,
                value=f"{begin} to {end} of {size}",
                allowed=f"{wanted} bytes",
            )
        found[str(name)] = _raw(path, dtype, tuple(shape), start + begin)
    return found


def _raw(path: str, dtype: str, shape: tuple[int, ...], offset: int) -> StoredTensor:
    def load() -> NDArray[Any]:
        if 0 in shape:
            return np.zeros(shape, NUMPY[dtype])
        flat = np.memmap(path, dtype=np.uint8, mode="r")
        count = int(np.prod(shape))
        return np.frombuffer(flat, dtype=NUMPY[dtype], count=count, offset=offset).reshape(shape)

    return StoredTensor(dtype, shape, load, path, offset)


def _shards(path: str) -> dict[str, StoredTensor]:
    """Lists the tensors of an index of safetensors files."""
    data = read_json(path, limit=MAX_HEADER)
    try:
        index = data["weight_map"]
        pairs = [(str(name), str(shard)) for name, shard in index.items()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise user_error("not an index of safetensors files", place=path, value=str(error)[:200]) from None
    directory = os.path.dirname(path) or "."
    files: dict[str, dict[str, StoredTensor]] = {}
    found = {}
    for name, shard in pairs:
        if os.path.basename(shard) != shard or "\0" in shard:
            raise user_error("a shard lies outside of the index's directory", place=path, value=repr(shard))
        if shard not in files:
            files[shard] = _safetensors(os.path.join(directory, shard))
        if name not in files[shard]:
            raise user_error(
                "missing tensor of the index in its shard", place=os.path.join(directory, shard), value=f"'{name}'"
            )
        found[name] = files[shard][name]
    return found


def _npz(path: str) -> dict[str, StoredTensor]:
    """Reads only headers; their sizes must agree with the archive."""
    found = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                _check_compression(member, path)
                name = member.filename.removesuffix(".npy")
                place = f"{path}, array '{name}'"
                with archive.open(member) as file:
                    version = np.lib.format.read_magic(file)
                    if version not in ((1, 0), (2, 0)):
                        raise user_error("an unknown version of .npy", place=place, value=str(version))
                    read = (
                        np.lib.format.read_array_header_1_0
                        if version == (1, 0)
                        else np.lib.format.read_array_header_2_0
                    )
                    shape, _, dtype = read(file)
                    start = file.tell()
                if dtype.hasobject or dtype not in NAMES:
                    raise Unsupported(f"{place}: element type {dtype}")
                wanted = start + int(np.prod(shape, dtype=object)) * dtype.itemsize
                if wanted != member.file_size or member.file_size > MAX_RATIO * (member.compress_size + 64):
                    raise user_error(
                        "an array does not fit its bytes", place=place, value=f"{member.file_size}", allowed=f"{wanted}"
                    )
                found[name] = StoredTensor(NAMES[dtype], tuple(shape), _member(path, member.filename))
    except (OSError, Error):
        raise
    except Exception as error:  # the archive, its stream and the header's text raise different errors
        raise user_error("not an .npz file, or a damaged one", place=path, value=str(error)[:200]) from None
    return found


def _check_compression(member: zipfile.ZipInfo, path: str) -> None:
    """Raises an error for compressions that numpy does not write, because they unpack without a bound."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Unsupported(f"{path}, array '{member.filename}': compression of type {member.compress_type}")


def _member(path: str, name: str) -> Callable[[], NDArray[Any]]:
    def load() -> NDArray[Any]:
        try:
            with zipfile.ZipFile(path) as archive, archive.open(name) as file:
                return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
        except (OSError, Error, MemoryError):
            raise
        except Exception as error:
            raise user_error("an array of the .npz file is damaged", place=path, value=str(error)[:200]) from None

    return load


def _check_pickle(path: str) -> None:
    """Raises an error for bytearrays in a pickle, which could allocate more memory than the file has bytes."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                members = [info for info in archive.infolist() if info.filename.endswith(".pkl")]
                if any(info.file_size > MAX_HEADER for info in members):
                    raise user_error("the index of the file is too large", place=path, allowed=f"{MAX_HEADER} bytes")
                streams = [io.BytesIO(archive.read(info)) for info in members]
        else:  # the format of torch before 1.6: pickles one after another, then the elements
            with open(path, "rb") as file:
                streams = [io.BytesIO(file.read(MAX_HEADER))]
        for stream in streams:
            for _ in range(5):
                texts = (str(text) for _, text, _ in pickletools.genops(stream) if isinstance(text, (str, bytes)))
                if any("bytearray" in text for text in texts):
                    what = "the file holds other objects than weights"
                    raise user_error(what, place=path, value="bytearray", allowed="tensors and plain containers")
    except (OSError, Error):
        raise
    except Exception:  # the bytes are not a pickle, or it ends: torch reports the error
        return


def _torch(path: str) -> dict[str, StoredTensor]:
    """Reads a state dictionary with weights_only: torch creates only tensors and plain containers."""
    torch = need("torch", "torch")
    _check_pickle(path)
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:
        raise user_error(
            "torch cannot read the file with weights_only=True", place=path, value=str(error).split("\n")[0][:200]
        ) from None
    for key in ("state_dict", "model", "module"):
        if isinstance(loaded, Mapping) and isinstance(loaded.get(key), Mapping):
            loaded = loaded[key]
    if not isinstance(loaded, Mapping):
        raise user_error("the file does not hold a dictionary of tensors", place=path, value=type(loaded).__name__)
    from .torch_arrays import dtype_name, elements_of

    found = {}
    for name, tensor in loaded.items():
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.is_nested:
            continue
        if tensor.device.type != "cpu":
            raise user_error("a tensor without elements", place=f"{path}, tensor '{name}'", value=str(tensor.device))
        dtype = dtype_name(tensor.dtype, f"{path}, tensor '{name}'")
        found[str(name)] = StoredTensor(dtype, tuple(tensor.shape), partial(elements_of, tensor))
    return found


def load_weights(
    graph: Any,
    source: str | os.PathLike[str] | Mapping[str, Any],
    names: Mapping[str, str] | Callable[[str], str] | None = None,
    strict: bool = True,
    convert: bool = False,
) -> list[str]:
    """Loads the weights of a graph from a file; see `Graph.load_weights`."""
    stored = source if isinstance(source, Mapping) else open_weights(source)
    place = "weights" if isinstance(source, Mapping) else path_text(source)
    given = []
    for name, row in graph.weights().items():
        key = names(name) if callable(names) else (names or {}).get(name, name)
        if key not in stored:
            if strict and row["trainable"]:
                raise user_error("missing weight", place=place, value=f"'{key}'", suggestion=nearest(key, stored))
            continue
        _give(graph, name, row, stored[key], f"{place}, tensor '{key}'", convert)
        given.append(name)
    return given


def _give(graph: Any, name: str, row: Mapping[str, Any], entry: Any, place: str, convert: bool) -> None:
    tensor = entry if isinstance(entry, StoredTensor) else None
    shape = tuple(tensor.shape if tensor is not None else as_array(entry, "weights").shape)
    if shape != tuple(row["shape"]):
        raise user_error(
            "wrong shape of a weight", place=place, value=str(list(shape)), allowed=str(list(row["shape"]))
        )
    dtype = (
        tensor.dtype
        if tensor is not None
        else NAMES.get(as_array(entry, "weights").dtype, str(as_array(entry, "weights").dtype))
    )
    if dtype == row["dtype"] and tensor is not None and tensor.path:
        graph.core.set_weight_file(name, os.path.abspath(tensor.path), tensor.offset)
        return
    if dtype != row["dtype"] and not convert:
        raise user_error(
            "wrong dtype of a weight",
            place=place,
            value=dtype,
            allowed=row["dtype"],
            suggestion="Pass convert=True to round it",
        )
    array = tensor.load() if tensor is not None else as_array(entry, "weights")
    graph.set_weight(name, np.asarray(array).astype(NUMPY[row["dtype"]], copy=False))
