"""Builds graphs of single operations, as in kernel benchmarks, and layered transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _core
from .base.arguments import integer
from .base.checked import checked
from .base.lazy import listed
from .graph import Graph, GraphBuilder, user_error
from .models.layered import Layered
from .models.layered_presets import layered

__all__ = [
    "attention",
    "conv2d",
    "elementwise",
    "embedding",
    "experts",
    "layer_norm",
    "layered",
    "matmul",
    "rms_norm",
    "softmax",
    "sparse_matmul",
    "transformer_step",
]
__dir__ = listed(__all__)


@checked()
def matmul(m: int, n: int, k: int, *, dtype: str = "f32", batch: int | None = None) -> Graph:
    """Builds a matrix product, [m, k] · [k, n].

    Args:
        m: rows of the result.
        n: columns of the result.
        k: contracted extent.
        dtype: data type of operands and result.
        batch: number of independent products; no batch axis by default.

    Returns:
        Graph with inputs a, b and output y.

    Raises:
        UserError: for a negative extent or an unknown dtype.
    """
    m, n, k = (integer(name, value, 0) for name, value in (("m", m), ("n", n), ("k", k)))
    b = GraphBuilder("matmul", dtype=dtype)
    lead = () if batch is None else (integer("batch", batch, 0),)
    b.output(b.matmul(b.input("a", (*lead, m, k)), b.input("b", (*lead, k, n)), name="matmul"), "y")
    return b.build()


@checked()
def sparse_matmul(
    m: int,
    n: int,
    k: int,
    a_density: float = 1.0,
    b_density: float = 0.1,
    format: str = "bitmap",
    seed: int = 0,
    *,
    dtype: str = "f32",
) -> Graph:
    """Builds a matrix product, [m, k] · [k, n], whose operands contain zeros; the reference computes it densely.

    Args:
        m: rows of the result.
        n: columns of the result.
        k: contracted extent.
        a_density: share of nonzero elements of a; below 1, a is a weight with random zeros, else an input.
        b_density: share of nonzero elements of b, which is a weight.
        format: format of operands with zeros: bitmap, csr, csc (zeros anywhere), block:N (blocks of N by N are
            zero or full), zero_tiles (the same with tiles of 128 by 128), 2:4 (at most two of four elements along k are
            nonzero); recorded as a_format and b_format of the operation.
        seed: seed of the random positions and values.
        dtype: data type of the operands; nonzero values are integers up to 7.

    Returns:
        Graph with weight b, input or weight a, and output y.

    Raises:
        UserError: for a negative extent, a density outside 0 to 1 (2:4: 0 to 0.5, or 1 for a), an unknown format
            or dtype.
    """
    from .graph.zeros import operand

    m, n, k = (integer(name, value, 0) for name, value in (("m", m), ("n", n), ("k", k)))
    b = GraphBuilder("sparse_matmul", dtype=dtype)
    dense_a = a_density == 1
    of_a = None if dense_a else operand("a", (m, k), a_density, format, 1, seed, b.dtype)
    of_b = operand("b", (k, n), b_density, format, 0, seed, b.dtype)
    left = b.input("a", (m, k)) if of_a is None else b.weight("a", data=of_a)
    attributes: dict[str, Any] = {"a_batch": [], "a_contract": [1], "b_batch": [], "b_contract": [0]}
    attributes.update({"b_format": format} if dense_a else {"a_format": format, "b_format": format})
    b.output(b.op("contract", left, b.weight("b", data=of_b), name="sparse_matmul", **attributes), "y")
    return b.build()


@checked("kernel", "stride", "padding", "dilation")
def conv2d(
    batch: int,
    channels: int,
    height: int,
    width: int,
    filters: int,
    kernel: int | Sequence[int] = 3,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    dtype: str = "f32",
) -> Graph:
    """Builds a two-dimensional convolution of an input [batch, channels, height, width].

    Args:
        batch: number of images.
        channels: channels of the input.
        height: height of the input in elements.
        width: width of the input in elements.
        filters: output channels.
        kernel: height and width of the window in elements.
        stride: step of the window in elements.
        padding: zeros on both sides in elements.
        dilation: distance of kernel taps in elements.
        groups: number of independent convolutions over equal parts of the channels.
        dtype: data type of operands and result.

    Returns:
        Graph with inputs x, w and output y.

    Raises:
        UserError: for extents that do not fit, or an unknown dtype.
    """
    b = GraphBuilder("conv2d", dtype=dtype)
    taps = tuple(kernel) if isinstance(kernel, Sequence) else (kernel, kernel)
    groups = integer("groups", groups, 1)
    x = b.input("x", (batch, channels, height, width))
    w = b.input("w", (filters, integer("channels", channels, 0) // groups, *taps))
    y = b.conv2d(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups, name="conv2d")
    b.output(y, "y")
    return b.build()


@checked()
def softmax(*shape: int, axis: int = -1, dtype: str = "f32") -> Graph:
    """Builds a softmax along one axis.

    Args:
        shape: extents of the input.
        axis: index of the axis; negative numbers count from the end.
        dtype: data type of input and result.

    Returns:
        Graph with input x and output y.

    Raises:
        UserError: for an axis that does not exist, or an unknown dtype.
    """
    b = GraphBuilder("softmax", dtype=dtype)
    b.output(b.input("x", shape).softmax(axis), "y")
    return b.build()


@checked()
def layer_norm(*shape: int, epsilon: float = 1e-5, dtype: str = "f32") -> Graph:
    """Builds a layer normalization over the last axis, with scale and bias.

    Args:
        shape: extents of the input.
        epsilon: added to the variance.
        dtype: data type of operands and result.

    Returns:
        Graph with inputs x, scale, bias and output y.

    Raises:
        UserError: for a shape without axes, or an unknown dtype.
    """
    b = GraphBuilder("layer_norm", dtype=dtype)
    x = b.input("x", shape)
    scale, bias = b.input("scale", shape[-1:]), b.input("bias", shape[-1:])
    b.output(b.layer_norm(x, scale, bias, epsilon=epsilon, name="layer_norm"), "y")
    return b.build()


@checked()
def attention(
    batch: int,
    heads: int,
    queries: int,
    depth: int,
    *,
    keys: int | None = None,
    key_heads: int | None = None,
    causal: bool = False,
    window: int | None = None,
    dtype: str = "f32",
) -> Graph:
    """Builds scaled dot-product attention: prefill or decode (one query), grouped, causal or windowed.

    Args:
        batch: number of sequences.
        heads: number of query heads.
        queries: length of the query sequence.
        depth: extent of one head.
        keys: length of the key sequence; `queries` by default.
        key_heads: number of key and value heads; fewer than `heads` (the default) are shared by query heads.
        causal: whether to mask keys after the query.
        window: number of visible keys up to the query's position; all by default.
        dtype: data type of operands and result.

    Returns:
        Graph with inputs q, k, v and output y.

    Raises:
        UserError: for extents that do not fit, or an unknown dtype.
    """
    batch, heads, queries, depth = (
        integer(name, value, 0)
        for name, value in (("batch", batch), ("heads", heads), ("queries", queries), ("depth", depth))
    )
    b = GraphBuilder("attention", dtype=dtype)
    shared = (batch, heads if key_heads is None else key_heads, queries if keys is None else keys, depth)
    q, k, v = b.input("q", (batch, heads, queries, depth)), b.input("k", shared), b.input("v", shared)
    more: dict[str, Any] = {} if window is None else {"window": integer("window", window, 1)}
    b.output(b.attention(q, k, v, causal=causal, name="attention", **more), "y")
    return b.build()


@checked()
def elementwise(function: str, *shape: int, dtype: str = "f32") -> Graph:
    """Builds one elementwise operation.

    Args:
        function: name, such as "add" or "gelu_erf".
        shape: extents of the operands.
        dtype: data type of the operands.

    Returns:
        Graph with inputs x0, x1, ..., as many as the function takes, and output y.

    Raises:
        UserError: for an unknown function or dtype.
    """
    b = GraphBuilder(function, dtype=dtype)
    arity = _core.function_arity(function)
    inputs = [b.input(f"x{i}", shape, "bool" if function == "select" and i == 0 else None) for i in range(arity)]
    b.output(b.apply(function, *inputs, name=function), "y")
    return b.build()


@checked()
def rms_norm(*shape: int, epsilon: float = 1e-6, dtype: str = "f32") -> Graph:
    """Builds a normalization by the root mean square over the last axis, with a scale.

    Args:
        shape: extents of the input.
        epsilon: added to the mean square.
        dtype: data type of operands and result.

    Returns:
        Graph with inputs x, scale and output y.

    Raises:
        UserError: for a shape without axes, or an unknown dtype.
    """
    b = GraphBuilder("rms_norm", dtype=dtype)
    x, scale = b.input("x", shape), b.input("scale", shape[-1:])
    axis = len(shape) - 1
    y = b.op("normalize", x, scale, mode="rms", dims=[axis], epsilon=epsilon, name="rms_norm")
    b.output(y, "y")
    return b.build()


@checked()
def embedding(tokens: int, vocabulary: int, width: int, *, dtype: str = "f32") -> Graph:
    """Builds an embedding lookup: rows of a table by index.

    Args:
        tokens: number of rows to look up.
        vocabulary: rows of the table.
        width: elements of a row.
        dtype: data type of the table.

    Returns:
        Graph with inputs table, ids (i32) and output y, [tokens, width].

    Raises:
        UserError: for a negative extent or an unknown dtype.
    """
    named = (("tokens", tokens), ("vocabulary", vocabulary), ("width", width))
    tokens, vocabulary, width = (integer(name, value, 0) for name, value in named)
    b = GraphBuilder("embedding", dtype=dtype)
    table, ids = b.input("table", (vocabulary, width)), b.input("ids", (tokens,), "i32")
    b.output(b.op("embedding", table, ids, name="embedding"), "y")
    return b.build()


@checked()
def experts(tokens: int, width: int, hidden: int, count: int = 8, chosen: int = 2, *, dtype: str = "f32") -> Graph:
    """Builds a mixture-of-experts layer: router, gated networks of each token's experts, weighted sum.

    Args:
        tokens: rows of the input.
        width: elements of a row.
        hidden: inner width of one expert in elements.
        count: number of experts.
        chosen: experts per token.
        dtype: data type of operands and result.

    Returns:
        Graph with input x, the weights, and output y, [tokens, width].

    Raises:
        UserError: for an extent below one, too many chosen experts, or an unknown dtype.
    """
    from .models.experts import Experts, expert_weights, mix

    named = (("tokens", tokens), ("width", width), ("hidden", hidden), ("count", count), ("chosen", chosen))
    tokens, width, hidden, count, chosen = (integer(name, value, 1) for name, value in named)
    if chosen > count:
        raise user_error(
            "a token chooses more experts than exist", place="chosen", value=str(chosen), allowed=f"{count}"
        )
    b = GraphBuilder("experts", dtype=dtype)
    mixture = Experts(count, chosen)
    parts = expert_weights("experts", mixture, width, hidden, 1.0)
    w = {part.name: b.weight(part.name, part.shape, scale=part.scale) for part in parts}
    b.output(mix(b, b.input("x", (1, tokens, width)), w, "experts", mixture).reshape(tokens, width), "y")
    return b.build()


@checked()
def transformer_step(
    layers: int,
    hidden: int,
    heads: int,
    vocab: int,
    sequence: int,
    global_batch: int,
    ffn: int | None = None,
    gated: bool = False,
    kv_heads: int | None = None,
    head_size: int | None = None,
    dtype: str = "bf16",
    attention: str = "flash",
    phase: str = "train",
    experts: Sequence[int] | None = None,
    *,
    routing: Sequence[int] | int | None = None,
    name: str = "transformer",
) -> Layered:
    """Describes one step of a transformer of equal layers, for plans over many devices (`ts.cluster.step`).

    Args:
        layers: number of layers.
        hidden: width in elements.
        heads: number of query heads.
        vocab: rows of the embedding table, which the output head shares.
        sequence: tokens per sequence.
        global_batch: sequences per step, over all devices.
        ffn: width of the feed-forward part; four times `hidden` by default.
        gated: whether the feed-forward part is gated: three matrix products instead of two.
        kv_heads: number of key and value heads; `heads` by default.
        head_size: elements of a query, key or value head; by default hidden / heads, which must be an integer.
        dtype: bf16, f16, f32, or bf16-amp (parameters in f32, products in bf16).
        attention: "flash" does not store attention scores, "unfused" stores them.
        phase: "train"; "prefill": all tokens of a sequence forward, logits of the last; "decode": one token per
            sequence against keys and values of `sequence` tokens.
        experts: experts per layer, and experts per token; by default the layers have no experts.
        routing: measured tokens per expert, or the seed of random choices; equal by default. Over an
            expert axis the device with the most tokens determines the time.
        name: name of the model.

    Returns:
        The workload.

    Raises:
        UserError: for an extent below one, heads that do not divide each other or, without head_size, the width, or
            an unknown name.
    """
    count, chosen = experts if experts is not None and len(experts) == 2 else (0, 0)
    if experts is not None and (len(experts) != 2 or not 1 <= chosen <= count):
        raise user_error(
            "experts is not a pair of numbers", place="experts", value=str(experts), allowed="(count, chosen)"
        )
    return Layered(
        layers, hidden, heads, vocab, sequence, global_batch, ffn or 0, gated, kv_heads or 0, head_size or 0, dtype,
        attention, phase, count, chosen, name=name, routing=routing,  # type: ignore[arg-type]
    )  # fmt: skip
