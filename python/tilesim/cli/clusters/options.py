"""Options of the commands about clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ...base.declared import Stage, option
from ...base.errors import user_error
from ..options import MACHINE, WORKLOAD

LAYERED = "gpt3-175b, llama-3-70b, ..., or a JSON file, as ts.workloads.transformer_step(...).save writes it"
WorkloadFile = Annotated[str, typer.Argument(help=f"{LAYERED}.")]
AnyWorkload = Annotated[
    str,
    typer.Argument(
        help=f"{LAYERED}; a StableHLO module for several devices (.mlir, .stablehlo), what ts.cluster.Spmd.save wrote "
        "(.spmd.json), llama3-100m, resnet50, ..."
    ),
]


@dataclass(frozen=True)
class On(Stage):
    """The cluster."""

    panel = MACHINE

    cluster: str = option("", "NAME, NAME:devices as dgx-a100:64, or a file.", "--cluster", required=True)


@dataclass(frozen=True)
class LayeredSizes(Stage):
    """What a layered workload is built with; none of them: as trained."""

    panel = WORKLOAD

    phase: str | None = option(None, "train, prefill or decode; train if none.")
    batch: int | None = option(None, "Sequences over all devices; as trained if none, 1 in prefill, decode.", least=1)
    context: int | None = option(
        None, "Tokens of a sequence, of decode in the cache; as trained if none, or 2048.", least=1
    )
    dtype: str | None = option(None, "Of weights and activations: bf16, f16, ...; as trained if none.")

    def of(self, workload: str) -> Any:
        """The workload, of other sizes than its own where they are given."""
        from ...models.layered_presets import layered, layered_names

        given = self.given()
        if given and workload not in layered_names() and not workload.endswith(".json"):
            what = "only layered workloads take other sizes than their own"
            raise user_error(what, place=", ".join(f"--{name}" for name in given), value=f"'{workload}'",
                             allowed=", ".join(layered_names()), suggestion="Leave the option out")  # fmt: skip
        return layered(workload, **given) if given else workload


@dataclass(frozen=True)
class StepOptions(Stage):
    """What a step takes beside workload and cluster; the arguments of `ts.cluster.step` say what each means."""

    panel = MACHINE

    plan: str | None = option(
        None, "tensor=8,pipeline=4,... or a JSON file; replicas if none. Modules have none.", panel=WORKLOAD
    )
    predictor: str = option("closed", "closed; of modules also table:FILE.csv, table:FILE.csv:interpolate, engine.")
    network_model: str = option(
        "closed",
        "closed, flows; of modules also chunks; of collectives and traces all.",
        "--network",
        "--model",
    )
    overlap: str = option("library", "none, ready or library.")
    library: str | None = option(None, "Costs of a library: nccl, xla-tpu, plain; a file.")
    framework: str | None = option(
        None, "megatron, fsdp, xla, serving or unfitted; by default by plan and phase. Modules take none."
    )
    symmetry: bool = option(True, "One device per class is simulated.")
