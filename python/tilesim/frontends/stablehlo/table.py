"""Unsupported operations of StableHLO and CHLO with their reasons."""

from __future__ import annotations

#: unsupported operation -> reason
EXCLUDED: dict[str, str] = {
    **{
        f"stablehlo.{name}": "removed from the specification; use dot_general, gather or all_reduce"
        for name in ("cross-replica-sum", "einsum", "torch_index_select", "unary_einsum")
    },
    "stablehlo.set_dimension_size": "dynamic shapes; export with static shapes",
}

#: operations that the pass `stablehlo-legalize-quant-to-math` expands
QUANTIZED = ("stablehlo.uniform_dequantize", "stablehlo.uniform_quantize")

#: operations that end a region
STRUCTURE = ("stablehlo.return",)


def documented() -> str:
    """Returns the table in docs/how_to/input_formats.md."""
    return "".join(f"| `{name}` | {reason} |\n" for name, reason in EXCLUDED.items())
