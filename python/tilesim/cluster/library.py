"""Communication libraries: algorithm, protocol and cost of calls.

Few constants per link generation (seconds per step, shares of the link rate) are in `configs/libraries/*.json` with
their sources; they apply to all devices of a generation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..analytic.families import unpack_keys
from ..base.arguments import dtype_name, one_of
from ..base.checked import is_number
from ..base.errors import nearest, path_text, shown, user_error
from ..base.files import read_json
from ..base.paths import configs_dir
from .libraries import model as library_model
from .libraries import steps as library_steps
from .libraries.arguments import OPERATIONS, listed_as, query_of
from .libraries.model import Query

__all__ = ["OPERATIONS", "PROTOCOLS", "Explanation", "Library", "LibraryLinks", "load", "names"]

PROTOCOLS = ("nccl-tests", "torch")
_UNSEEN = {
    "permute_devices": "no measured permutes: priced as one message of an all_to_all",
    "broadcast_devices": "no measured broadcasts: priced as a pipelined ring with the steps of an all_gather",
}


@dataclass(frozen=True)
class LibraryLinks:
    """Links of a device in the library's file: bytes per second and direction, devices per switch domain."""

    generation: str
    link: float
    node_link: float
    domain: int


@dataclass(frozen=True)
class Explanation:
    """One call: algorithm, protocol and terms.

    `terms` are seconds and add up to `seconds`; `wire_bytes` is sent per device; `approximations` names unfitted
    constants.
    """

    seconds: float
    algorithm: str
    protocol: str
    generation: str
    wire_bytes: float
    terms: Mapping[str, float]
    approximations: tuple[str, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Library:
    """A communication library with its constants per link generation."""

    name: str
    description: str
    model: str
    generations: Mapping[str, Mapping[str, Any]]
    nodes: Mapping[str, Any]
    fabrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fitted_rows: frozenset[int] = frozenset()

    @property
    def provenance(self) -> dict[str, str]:
        """Sources of the constants, by generation and between nodes."""
        found = {name: str(data.get("provenance", "")) for name, data in self.generations.items()}
        return {**found, "nodes": str(self.nodes.get("provenance", ""))}

    def seconds(
        self,
        op: str,
        bytes: float,
        dtype: str,
        devices: int,
        per_node: int,
        *,
        link: float,
        node_link: float | None = None,
        generation: str,
        protocol: str = "nccl-tests",
        share: float = 1.0,
        node_share: float = 1.0,
    ) -> float:
        """Returns the seconds of one call."""
        settings = {"link": link, "node_link": node_link, "generation": generation, "protocol": protocol}
        settings |= {"share": share, "node_share": node_share}
        return float(self.seconds_many(op, [bytes], dtype, [devices], [per_node], **settings)[0])  # type: ignore[arg-type]

    def seconds_many(
        self,
        op: str,
        bytes: Any,
        dtype: str,
        devices: Any,
        per_node: Any,
        *,
        link: Any,
        node_link: Any = None,
        generation: str,
        protocol: str = "nccl-tests",
        share: float = 1.0,
        node_share: float = 1.0,
    ) -> NDArray[np.float64]:
        """Returns the seconds of many calls of one operation; arguments of `seconds` may be arrays of one shape."""
        for name, left in (("share", share), ("node_share", node_share)):
            if not is_number(left) or not 0 < left <= 1:
                raise user_error("not a share of a rate", place=name, value=shown(left), allowed="above 0, up to 1")
        query = query_of(op, bytes, dtype, devices, per_node, link, node_link)
        query = replace(query, share=float(share), node_share=float(node_share))
        shape = np.broadcast_shapes(*(np.shape(one) for one in (bytes, devices, per_node, link, node_link)))
        constants = self._constants(generation, float(query.rate.flat[0]) if query.rate.size else 1.0, protocol)
        times = self._times(constants, query) + (constants["torch_call_seconds"] if protocol == "torch" else 0.0)
        result: NDArray[np.float64] = np.where(query.devices > 1, times, 0.0).reshape(shape)
        return result

    def explain(
        self,
        op: str,
        bytes: float,
        dtype: str,
        devices: int,
        per_node: int,
        *,
        link: float,
        node_link: float | None = None,
        generation: str,
        protocol: str = "nccl-tests",
    ) -> Explanation:
        """Returns the terms of a call; arguments and errors as for `seconds`."""
        query = query_of(op, [bytes], dtype, [devices], [per_node], [link], node_link)
        total = self.seconds(
            op, bytes, dtype, devices, per_node, link=link, node_link=node_link, generation=generation,
            protocol=protocol,
        )  # fmt: skip
        used = self.generation_near(generation, link)
        if devices == 1:
            return Explanation(0.0, "none", "none", used, 0.0, {}, (), self.provenance)
        constants = self._constants(generation, link, protocol)
        algorithm, way, terms, wire = self._choice(constants, query)
        if protocol == "torch":
            terms["launch"] = constants["torch_call_seconds"]
        waited = total - sum(terms.values())
        if waited > 1e-12:
            terms["kept"] = waited  # the call takes the time of the largest call of the previous protocol
        said = self._approximations(op, bytes, dtype, query, generation, used)
        return Explanation(total, algorithm, way, used, wire, terms, said, self.provenance)

    def system(self, device: str) -> LibraryLinks | None:
        """Returns the links of a device, or None."""
        for generation, data in self.generations.items():
            found = listed_as(device, data.get("devices", {}))
            if found:
                entry = data["devices"][found]
                return LibraryLinks(generation, float(entry["link"]), float(entry["node_link"]), int(entry["domain"]))
        return None

    def generation_near(self, generation: str, link: float) -> str:
        """Returns the generation whose constants apply to a link: the given one, else that of the nearest rate."""
        if generation in self.generations:
            return generation
        return min(
            self.generations,
            key=lambda name: abs(math.log(float(self.generations[name].get("link_bytes_per_second", link)) / link)),
        )

    def _constants(self, generation: str, link: float, protocol: str) -> dict[str, float]:
        one_of("unknown protocol", "protocol", protocol, *PROTOCOLS)
        if not isinstance(generation, str):
            raise user_error("not a generation's name", value=shown(generation), allowed=", ".join(self.generations))
        data = self.generations[self.generation_near(generation, link)]
        return {"torch_call_seconds": 0.0, **self.nodes.get("constants", {}), **beliefs(data), **data["constants"]}

    def _times(self, constants: Mapping[str, float], query: Query) -> NDArray[np.float64]:
        return (library_steps if self.model == "steps" else library_model).seconds(constants, query)

    def _choice(self, constants: Mapping[str, float], query: Query) -> tuple[str, str, dict[str, float], float]:
        if self.model == "steps":
            terms = library_steps.costs(constants, query)
            wire = float(query.ring_bytes()[0]) if query.op in library_model.RINGS else _sent(query)
            return "ring", "", _floats(terms), wire
        size = query.bytes[0]
        algorithm, protocol = library_model.fastest_choice(constants, query)
        terms = library_model.costs(constants, query, algorithm, protocol)
        wire = float(query.ring_bytes()[0]) if algorithm in ("ring", "tree") else _sent(query)
        if algorithm == "nvls":
            wire = float(size * (1 + 1 / query.devices[0]))
        return algorithm, protocol, _floats(terms), wire

    def _approximations(
        self, op: str, size: float, dtype: str, query: Query, generation: str, used: str
    ) -> tuple[str, ...]:
        data, said = self.generations[used], []
        if used != generation:
            said.append(f"no constants of {generation}: uses those of {used}, nearest in link rate")
        if op in _UNSEEN:
            said.append(_UNSEEN[op])
        seen = data.get("seen", {})
        devices, low, high = seen.get("devices", 0), seen.get("bytes_from", 0), seen.get("bytes_to", math.inf)
        local = float(query.devices[0] / query.nodes[0])
        if devices and local > devices:
            said.append(f"{local:g} devices in a node, measured up to {devices}: more steps of the same latency")
        if seen and not low <= size <= high:
            said.append(f"{size:g} bytes, measured from {low} to {high:g}: the same formulas")
        if seen and query.nodes[0] > 1:
            said.append("several nodes: constants of few measurements on other fabrics")
        if not seen and self.model != "steps":
            said.append(f"{used} has no fitted constants")
        if dtype_name(dtype) not in ("f16", "bf16", "f32", "i8", "u8"):
            said.append(f"no measurements of {dtype_name(dtype)}: priced as {'one byte' if query.one_byte else 'f16'}")
        return tuple(said)


def _floats(terms: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(np.ravel(value)[0]) for name, value in terms.items()}


def _sent(query: Query) -> float:
    whole_ = float(query.bytes[0])
    return whole_ if query.op == "permute_devices" else whole_ * float(1 - 1 / query.devices[0])


def beliefs(data: Mapping[str, Any]) -> dict[str, float]:
    """Returns the library's own estimates of its protocols on one link generation."""
    return {key: float(value) for key, value in data.get("believed", {}).items()}


def names() -> list[str]:
    """Returns the names of the shipped libraries."""
    return sorted(path.stem for path in (configs_dir() / "libraries").glob("*.json"))


def load(source: Any) -> Library:
    """Loads a communication library."""
    if any(callable(getattr(source, name, None)) for name in ("seconds", "seconds_many")):
        return cast(Library, source)
    text = path_text(source, "library")
    if text in names():
        return _shipped(text)
    if not text.endswith(".json"):
        raise user_error(
            "unknown library", place="library", value=f"'{text}'", suggestion=nearest(text, names()),
            allowed=f"{', '.join(names())}, a .json file",
        )  # fmt: skip
    return _read(Path(text))


@cache
def _shipped(name: str) -> Library:
    return _read(configs_dir() / "libraries" / f"{name}.json")


def _read(path: Path) -> Library:
    data, place = read_json(path, "tilesim.library"), path_text(path)
    for key in ("name", "model", "generations"):
        if key not in data:
            raise user_error(f"missing {key} of the library", place=place, value=", ".join(data),
                             allowed="name, model, generations")  # fmt: skip
    one_of("unknown model", place, data["model"], "rings", "steps")
    if not isinstance(data["generations"], dict) or not data["generations"]:
        raise user_error("generations must be a non-empty object", place=place, value=shown(data["generations"]))
    nodes = data.get("nodes", {})
    needed = (library_steps if data["model"] == "steps" else library_model).NEEDED
    for generation, own in data["generations"].items():
        constants = {**nodes.get("constants", {}), **own.get("believed", {}), **own.get("constants", {})}
        lacking = next((key for key in needed if key not in constants), None)
        if lacking:
            raise user_error(
                f"missing constant {lacking} of a generation",
                place=f"{place}: {generation}",
                value=", ".join(constants),
                allowed=", ".join(needed),
                suggestion=nearest(lacking, constants),
            )
        for key, value in constants.items():
            if not is_number(value) or not 0 <= value < math.inf:
                raise user_error("a constant is not a number from 0 on", place=f"{place}: {generation}.{key}",
                                 value=shown(value))  # fmt: skip
    return Library(
        str(data["name"]), str(data.get("description", "")), data["model"], data["generations"], nodes,
        data.get("fabrics", {}), unpack_keys(data.get("fitted_rows", ""), place),
    )  # fmt: skip
