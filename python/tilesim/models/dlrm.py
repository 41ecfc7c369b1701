"""DLRM (Naumov et al., 2019): embeddings of categories, dense features, their dot products.

Sizes are those of the MLPerf benchmark on Criteo Terabyte with tables of at most 40 million rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..base.errors import user_error
from ..graph import Graph, GraphBuilder, Tensor
from ._network import network

__all__ = ["DlrmConfig", "dlrm", "dlrm_mlperf"]


@dataclass(frozen=True)
class DlrmConfig:
    """Rows of the tables, width of an embedding, and widths of the two networks."""

    name: str
    rows: tuple[int, ...]
    width: int
    dense: int
    bottom: tuple[int, ...]
    top: tuple[int, ...]


# https://github.com/mlcommons/training: recommendation, day-count of Criteo Terabyte with max_ind_range 40 000 000
DLRM_MLPERF = DlrmConfig(
    "dlrm",
    (
        39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938, 155, 4, 976,
        14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36,
    ),
    128,
    13,
    (512, 256, 128),
    (1024, 1024, 512, 256, 1),
)  # fmt: skip


def _network(b: GraphBuilder, x: Tensor, widths: tuple[int, ...], name: str, last: str) -> Tensor:
    """Linear layers with ReLU, named as in an nn.Sequential; `last` is the function of the last one."""
    for i, width in enumerate(widths):
        x = b.linear(x, width, name=f"{name}.{2 * i}", scale=math.sqrt(6 / x.shape[-1]))
        x = b.apply(last if i == len(widths) - 1 else "relu", x, name=f"{name}.{2 * i + 1}")
    return x


@network
def dlrm(config: DlrmConfig, batch: int = 2048, lookups: int = 1, dtype: str = "f32") -> Graph:
    """A DLRM of any size."""
    if lookups < 1 or config.bottom[-1] != config.width:
        raise user_error(
            "inconsistent sizes of a DLRM", place=f"model '{config.name}'",
            value=f"{lookups} lookups, bottom network {config.bottom}, embeddings of {config.width}",
            allowed="at least 1 lookup, and a bottom network whose last width is that of an embedding",
        )  # fmt: skip
    b = GraphBuilder(config.name, dtype=dtype)
    dense = b.input("dense", (batch, config.dense))
    ids = [b.input(f"categories.{i}", (batch, lookups), "i32") for i in range(len(config.rows))]
    parts = [_network(b, dense, config.bottom, "bot_l", "relu")]
    for i, rows in enumerate(config.rows):
        table = b.weight(f"emb_l.{i}.weight", (rows, config.width), scale=math.sqrt(1 / rows))
        found: Tensor = b.op("embedding", table, ids[i], name=f"emb_l.{i}")
        parts.append(found.sum(1) if lookups > 1 else found.reshape(batch, config.width))
    count = len(parts)
    stacked = b.concat([part.reshape(batch, 1, config.width) for part in parts], axis=1, name="features")
    products: Tensor = b.op(
        "contract", stacked, stacked, a_batch=[0], b_batch=[0], a_contract=[2], b_contract=[2], name="interaction"
    )
    # each pair occurs once: row i has its products with the earlier features
    pairs = [products[:, i, :i] for i in range(1, count)]
    x = b.concat([parts[0], *pairs], axis=1, name="interaction.pairs")
    b.output(_network(b, x, config.top, "top_l", "sigmoid"), "probability")
    return b.build()


@network
def dlrm_mlperf(batch: int = 2048, dtype: str = "f32") -> Graph:
    """DLRM of the MLPerf benchmark, 24,036,595,969 parameters, one lookup per table for each sample."""
    return dlrm(DLRM_MLPERF, batch, 1, dtype)
