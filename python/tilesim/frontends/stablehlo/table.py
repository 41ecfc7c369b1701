"""Unsupported operations of StableHLO and CHLO with their reasons, and the table for the documentation."""

from __future__ import annotations

#: unsupported operations, and why
EXCLUDED: dict[str, str] = {
    **{
        f"stablehlo.{name}": "removed from the specification; use dot_general, gather or all_reduce"
        for name in ("cross-replica-sum", "einsum", "torch_index_select", "unary_einsum")
    },
    "stablehlo.set_dimension_size": "dynamic shapes; export with static shapes",
}

#: read through `stablehlo-legalize-quant-to-math`
QUANTIZED = ("stablehlo.uniform_dequantize", "stablehlo.uniform_quantize")

#: operations that end a region
STRUCTURE = ("stablehlo.return",)


def documented(handled: set[str], dialects: dict[str, list[str]]) -> str:
    """The table of docs/how_to/stablehlo.md."""
    lines = []
    for dialect, names in dialects.items():
        read = [name.split(".", 1)[1] for name in names if name in handled]
        expanded = [
            name.split(".", 1)[1]
            for name in names
            if name not in handled and name not in {*EXCLUDED, *STRUCTURE, *QUANTIZED}
        ]
        lines += [f"## {dialect}", "", "Read: " + ", ".join(f"`{name}`" for name in read) + ".", ""]
        if dialect == "stablehlo":
            names_of = ", ".join(f"`{name.partition('.')[2]}`" for name in QUANTIZED)
            lines += [f"Read, with all of quantized types, through `stablehlo-legalize-quant-to-math`: {names_of}.", ""]
        if expanded:
            how = "Read through the dialect's expansion (`chlo-legalize-to-stablehlo`), where it has one: "
            lines += [how + ", ".join(f"`{name}`" for name in expanded) + ".", ""]
        left = {name: EXCLUDED[name] for name in names if name in EXCLUDED}
        if left:
            lines += ["| unsupported | reason |", "|---|---|"]
            lines += [f"| `{name.split('.', 1)[1]}` | {reason} |" for name, reason in left.items()]
            lines += [""]
    return "\n".join(lines)
