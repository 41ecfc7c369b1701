"""What of StableHLO and CHLO is left out, with the reason, and the table of everything for the documentation."""

from __future__ import annotations

_TOKENS = "orders side effects by tokens; a graph has none"
_DYNAMIC = "shapes that are known only when it runs; export with static shapes"
_QUANTIZED = "quantized element types; write scale and zero point as operations"
_DEPRECATED = "left the specification; run stablehlo-legalize-deprecated-ops first"

#: operations without a meaning here, and why
EXCLUDED: dict[str, str] = {
    "stablehlo.after_all": _TOKENS,
    "stablehlo.create_token": _TOKENS,
    "stablehlo.infeed": _TOKENS,
    "stablehlo.outfeed": _TOKENS,
    "stablehlo.send": _TOKENS,
    "stablehlo.recv": _TOKENS,
    "stablehlo.tuple": "tuples; export with flat results",
    "stablehlo.get_tuple_element": "tuples; export with flat results",
    "stablehlo.dynamic_conv": _DYNAMIC,
    "stablehlo.dynamic_iota": _DYNAMIC,
    "stablehlo.dynamic_pad": _DYNAMIC,
    "stablehlo.set_dimension_size": _DYNAMIC,
    "stablehlo.uniform_quantize": _QUANTIZED,
    "stablehlo.uniform_dequantize": _QUANTIZED,
    "stablehlo.cross-replica-sum": _DEPRECATED,
    "stablehlo.einsum": _DEPRECATED,
    "stablehlo.unary_einsum": _DEPRECATED,
    "stablehlo.torch_index_select": _DEPRECATED,
}

#: operations that end a region, or belong to the printed form
STRUCTURE = ("stablehlo.return",)


def documented(handled: set[str], dialects: dict[str, list[str]]) -> str:
    """The table of docs/stablehlo.md.

    Args:
        handled: operations with a handler.
        dialects: all operations of each dialect, by its name.

    Returns:
        Markdown.
    """
    lines = []
    for dialect, names in dialects.items():
        read = [name.split(".", 1)[1] for name in names if name in handled]
        expanded = [
            name.split(".", 1)[1]
            for name in names
            if name not in handled and name not in EXCLUDED and name not in STRUCTURE
        ]
        lines += [f"## {dialect}", "", "Read: " + ", ".join(f"`{name}`" for name in read) + ".", ""]
        if expanded:
            how = "Read through the dialect's own expansion (`chlo-legalize-to-stablehlo`), where it has one: "
            lines += [how + ", ".join(f"`{name}`" for name in expanded) + ".", ""]
        left = {name: EXCLUDED[name] for name in names if name in EXCLUDED}
        if left:
            lines += ["| left out | because |", "|---|---|"]
            lines += [f"| `{name.split('.', 1)[1]}` | {reason} |" for name, reason in left.items()]
            lines += [""]
    return "\n".join(lines)
