"""Parallel plans of layered workloads."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..base.arguments import integer, one_of
from ..base.checked import MEANT, checked_class
from ..base.errors import nearest, path_text, shown, user_error
from ..base.files import Saved, read_json
from ..models.layered import Layered
from .pipelines.plans import phase_reasons, schedule_reasons

__all__ = ["CONTEXTS", "OFFLOAD", "RECOMPUTE", "SCHEDULES", "SHARDS", "Plan"]

SCHEMA, VERSION = "tilesim.plan", 1
SHARDS = ("none", "zero1", "zero2", "zero3")
RECOMPUTE = ("none", "selective", "full", "minimal", "offload")
SCHEDULES = ("1f1b", "gpipe", "interleaved", "zb-h1", "zb-h2", "zb-v", "dualpipe")
OFFLOAD = ("none", "optimizer", "activations")
CONTEXTS = ("ring", "all_to_all")
_SIZES = ("tensor", "pipeline", "data", "context", "expert", "virtual", "micro_batch")


class _Default(int):
    """Marks a number as a default."""

    def __reduce__(self) -> str:
        return "_UNSAID"


_UNSAID = _Default(1)


@checked_class(*_SIZES, "sequence", "schedule", "shard", "recompute", "offload", "context_kind", "value", "source")
@dataclass(frozen=True)
class Plan(Saved):
    """A parallel plan: tensor innermost, then context, data, pipeline.

    `tensor`, `pipeline`, `data`, `context` multiply to the devices; `expert` shards the experts over the data axis.
    `sequence`: operations between products are also sharded over the tensor axis. `virtual`: chunks of layers per stage
    (interleaved). `shard`: state sharded over the data axis: zero1 optimizer state, zero2 also gradients, zero3 also
    parameters. `micro_batch`: sequences per device and pass; default: 1 in training; in inference all sequences of a
    replica, or a part per pipeline stage (`filled`). `recompute`: selective (attention core), full (every layer),
    minimal (all but products), offload (full, with layer inputs on the host). `offload`: optimizer state or all
    activations in host memory. `context_kind`: attention over the context axis; ring: keys and values circulate,
    all_to_all: heads are sharded during attention, tokens afterwards (DeepSpeed-Ulysses, 2309.14509).
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    context: int = 1
    expert: int = 1
    sequence: bool = False
    virtual: int = 1
    schedule: str = "1f1b"
    shard: str = "none"
    micro_batch: int = _UNSAID
    recompute: str = "none"
    offload: str = "none"
    context_kind: str = "ring"

    def __post_init__(self) -> None:
        for name in _SIZES if self.micro_batch is not _UNSAID else _SIZES[:-1]:
            object.__setattr__(self, name, integer(name, getattr(self, name), 1, 2**31))
        if not isinstance(self.sequence, bool):
            raise user_error("not a flag", place="sequence", value=shown(self.sequence), allowed="True, False")
        one_of("unknown schedule", "schedule", self.schedule, *SCHEDULES)
        one_of("unknown sharding", "shard", self.shard, *SHARDS)
        one_of("unknown recompute", "recompute", self.recompute, *RECOMPUTE)
        one_of("unknown offload", "offload", self.offload, *OFFLOAD)
        one_of("unknown kind of context axis", "context_kind", self.context_kind, *CONTEXTS)
        if self.virtual > 1 and self.schedule == "1f1b":
            object.__setattr__(self, "schedule", "interleaved")
        if self.virtual > 1 and (self.schedule != "interleaved" or self.pipeline == 1):
            raise user_error(
                "virtual stages need an interleaved pipeline", place="virtual", value=str(self.virtual),
                allowed='1, or schedule="interleaved" and pipeline above 1',
            )  # fmt: skip

    @property
    def devices(self) -> int:
        """Number of devices of the plan."""
        return self.tensor * self.pipeline * self.data * self.context

    @property
    def by_heads(self) -> bool:
        """Whether attention is sharded by heads over the context axis."""
        return self.context > 1 and self.context_kind == "all_to_all"

    def filled(self, workload: Layered) -> Plan:
        """Returns the plan with a default micro-batch: 1 in training. In inference, a replica processes its sequences
        in one pass, or with a pipeline in at least as many passes as stages.

        Args:
            workload: a layered workload.

        Returns:
            The plan; unchanged if it has a micro-batch.
        """
        if self.micro_batch is not _UNSAID or workload.phase == "train" or workload.global_batch % self.data:
            return self
        sequences = workload.global_batch // self.data
        groups = self.pipeline if self.virtual > 1 else 1  # interleaved stages need a multiple of the stages
        passes = (n for n in range(self.pipeline, sequences + 1) if sequences % n == 0 and n % groups == 0)
        return dataclasses.replace(self, micro_batch=sequences // next(passes, sequences))

    def check(self, workload: Layered, devices: int | None = None) -> None:
        """Checks that the plan fits a workload and uses all devices.

        Args:
            workload: a layered workload.
            devices: number of devices of the cluster; any by default.

        Raises:
            UserError: for an invalid size, with the allowed sizes.
        """
        for reason in self.reasons(workload, devices):
            raise user_error(*reason[:1], place=reason[1], value=reason[2], allowed=reason[3])

    def reasons(self, workload: Layered, devices: int | None = None) -> list[tuple[str, str, str, str]]:
        """Returns the problems of the plan; none for a valid plan.

        Args:
            workload: a layered workload.
            devices: number of devices of the cluster; any by default.

        Returns:
            Tuples of what, where, value and allowed values.
        """
        self = self.filled(workload)
        found: list[tuple[str, str, str, str]] = []
        if devices is not None and self.devices != devices:
            made = f"tensor {self.tensor} × pipeline {self.pipeline} × data {self.data} × context {self.context}"
            found.append(
                ("plan and cluster have different numbers of devices", "plan", f"{made} = {self.devices}", str(devices))
            )

        def divides(what: str, extent: int, axis: str, by: int) -> None:
            if extent % by:
                allowed = f"divisors of {extent}: {', '.join(map(str, _divisors(extent)))}"
                found.append((f"{what} is not divisible by {axis}", axis, str(by), allowed))

        divides("the number of heads", workload.heads, "tensor", self.tensor)
        divides("the feed-forward width", workload.ffn, "tensor", self.tensor)
        divides("the sequence", workload.sequence, "context", self.context)
        if self.by_heads:
            divides("the number of heads", workload.heads, "tensor × context", self.tensor * self.context)
            divides("the number of key heads", workload.kv_heads, "tensor × context", self.tensor * self.context)
        if self.sequence:
            divides("the sequence", workload.sequence, "tensor × context", self.tensor * self.context)
        divides("the global batch", workload.global_batch, "data", self.data)
        if workload.global_batch % self.data == 0:
            divides("the batch of a replica", workload.global_batch // self.data, "micro_batch", self.micro_batch)
        if self.pipeline * self.virtual > workload.layers:
            allowed = f"at most {workload.layers} layers"
            found.append(("more stages than layers", "pipeline", str(self.pipeline * self.virtual), allowed))
        if self.virtual > 1:
            divides("the number of layers", workload.layers, "virtual", self.pipeline * self.virtual)
        if self.expert > 1 and not workload.experts:
            found.append(("the model has no experts to shard", "expert", str(self.expert), "1"))
        elif self.expert > 1:
            divides("the number of experts", workload.experts, "expert", self.expert)
            divides("the data axis", self.data * self.context, "expert", self.expert)
        return found + phase_reasons(self, workload) + schedule_reasons(self, workload)

    def to_dict(self) -> dict[str, Any]:
        """Converts the plan to the schema `tilesim.plan`.

        Returns:
            A dict for JSON.
        """
        said = {key: value for key, value in asdict(self).items() if value is not _UNSAID}
        return {"schema": SCHEMA, "version": VERSION, **said}

    @staticmethod
    def from_dict(value: Any, place: str = "plan") -> Plan:
        """Builds a plan from a dict.

        Args:
            value: a dict that `to_dict` returned.
            place: name of the dict in error messages.

        Returns:
            The plan.

        Raises:
            UserError: for another schema or an unknown key.
        """
        if not isinstance(value, dict) or value.get("schema") != SCHEMA or value.get("version") != VERSION:
            allowed = f'"schema": "{SCHEMA}", "version": {VERSION}'
            raise user_error("not a plan", place=place, value=shown(value), allowed=allowed)
        return _plan_of({key: one for key, one in value.items() if key not in ("schema", "version")}, place)

    @staticmethod
    def load(source: str | os.PathLike[str] | Mapping[str, Any] | Plan) -> Plan:
        """Loads a plan from a string, a file, or a dict.

        Args:
            source: pairs joined by commas, such as `"tensor=8,pipeline=4,shard=zero1"`; path of a `.json` file; the
                dict of `to_dict`, or a dict of axes such as `{"tensor": 8}`; a Plan.

        Returns:
            The plan.

        Raises:
            UserError: for an unknown name or value, or an invalid file.
        """
        if isinstance(source, Plan):
            return source
        if isinstance(source, Mapping):
            return Plan.from_dict(dict(source)) if "schema" in source else _plan_of(dict(source), "plan")
        text = path_text(source)
        if text.endswith(".json"):
            return Plan.from_dict(read_json(text), text)
        values: dict[str, Any] = {}
        for pair in filter(None, re.split(r"\s*[,;]\s*|\s+(?=\w+\s*=)", text.strip())):
            key, equals, value = (part.strip() for part in pair.partition("="))
            if not equals:
                raise user_error("not a pair", place="plan", value=shown(pair), allowed="name=value, joined by commas")
            if key in values:
                raise user_error("the plan has a name twice", place=key, value=shown(text),
                                 allowed="each name once")  # fmt: skip
            values[key] = int(value) if value.isascii() and value.isdigit() else _BOOLEANS.get(value.lower(), value)
        return _plan_of(values, "plan")

    def replace(self, **changes: Any) -> Plan:
        """Returns the plan with changed fields.

        Args:
            changes: new values by field name.

        Returns:
            A new plan.

        Raises:
            UserError: for an unknown field or value.
        """
        _check_keys(changes, "plan")
        return dataclasses.replace(self, **changes)

    def text(self) -> str:
        """Describes the differences from the default plan, as on the command line.

        Returns:
            Pairs "name=value", joined by commas.
        """
        standard = Plan()
        names = [field.name for field in fields(self) if getattr(self, field.name) != getattr(standard, field.name)]
        if self.micro_batch == 1 and self.micro_batch is not _UNSAID:
            names.append("micro_batch")
        return ",".join(f"{name}={str(getattr(self, name)).lower()}" for name in names) or "tensor=1"


_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False}


_BRIEF = {"tp": "tensor", "pp": "pipeline", "dp": "data", "ep": "expert", "cp": "context", "sp": "sequence"}


def _meant(name: str, value: Any) -> str:
    """Returns the suggestion for a field name of other libraries; "" without one."""
    if name in ("zero", "zero_stage"):
        return f'Write shard="zero{value}"' if value in (1, 2, 3) else 'Write shard="zero1", "zero2" or "zero3"'
    return f"Write {_BRIEF[name]}={value}" if name in _BRIEF else ""


MEANT["Plan"] = MEANT["Plan.replace"] = _meant


def _check_keys(values: dict[str, Any], place: str) -> None:
    names = [field.name for field in fields(Plan)]
    for key in values:
        if key not in names:
            hint = _meant(key, values[key]).replace('"', "") or nearest(key, names)
            raise user_error("unknown key", place=place, value=f"'{key}'", allowed=", ".join(names), suggestion=hint)


def _plan_of(values: dict[str, Any], place: str) -> Plan:
    _check_keys(values, place)
    return Plan(**values)


def _divisors(number: int) -> list[int]:
    return [one for one in range(1, min(number, 1 << 12) + 1) if number % one == 0][:24]
