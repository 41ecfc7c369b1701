"""Operations of StableHLO that are left out, each with the reason."""

from __future__ import annotations

#: operations without a meaning here, and why
EXCLUDED: dict[str, str] = {
    **{
        f"stablehlo.{name}": "left the specification; write dot_general, gather or all_reduce"
        for name in ("cross-replica-sum", "einsum", "torch_index_select", "unary_einsum")
    },
    "stablehlo.set_dimension_size": "shapes that are known only when it runs; export with static shapes",
}

#: read through `stablehlo-legalize-quant-to-math`
QUANTIZED = ("stablehlo.uniform_dequantize", "stablehlo.uniform_quantize")

#: operations that end a region, or belong to the printed form
STRUCTURE = ("stablehlo.return",)


def documented() -> str:
    """The table of docs/how_to/input_formats.md."""
    return "".join(f"| `{name}` | {reason} |\n" for name, reason in EXCLUDED.items())
