"""Random modules of torch: a program of steps over a pool of tensors, drawn by hypothesis.

Functions that jump (floor, comparisons, argmax) read inputs only: on computed values a last bit could turn them.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import nn

F64 = torch.float64
Step = tuple[Callable[..., Any], tuple[int, ...]]

SMOOTH: list[Callable[[Any], Any]] = [
    torch.tanh, torch.sigmoid, torch.relu, F.silu, F.gelu, F.elu, F.softplus, F.hardswish, F.leaky_relu, torch.sin,
    torch.neg, torch.abs, torch.atan, torch.erf, lambda x: x * 0.3 - 1, lambda x: 1 - x, lambda x: x**2 / 8,
    lambda x: torch.exp(-x.abs()), lambda x: torch.sqrt(x.abs() + 0.5), lambda x: torch.log1p(x.abs()),
    lambda x: x.clamp(-1, 0.5), lambda x: F.gelu(x, approximate="tanh"), lambda x: x / 3,
]  # fmt: skip
JUMPS: list[Callable[[Any], Any]] = [
    torch.floor, torch.ceil, torch.round, torch.sign, lambda x: (x > 0.1).to(x.dtype), lambda x: x % 0.75,
    lambda x: torch.where(x > 0, x, x * 2), lambda x: x.masked_fill(x < 0, 0.25),
    lambda x: x.to(torch.int64).to(x.dtype),
]  # fmt: skip
PAIRS: list[Callable[[Any, Any], Any]] = [
    torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, lambda a, b: a / (1 + b * b),
    lambda a, b: torch.add(a, b, alpha=0.5), lambda a, b: torch.lerp(a, b, 0.25), torch.hypot, torch.logaddexp,
    lambda a, b: torch.addcmul(a, a, b, value=0.5), lambda a, b: torch.where(b.isnan(), b, a),
    lambda a, b: F.scaled_dot_product_attention(a, b, b), lambda a, b: torch.einsum("...i,...i->...", a, b),
]  # fmt: skip


def first(value: Any) -> Any:
    """Recurrent layers give a tuple."""
    return value[0] if isinstance(value, tuple) else value


def axis(draw: Any, x: Any) -> int:
    return draw(st.integers(-x.ndim, x.ndim - 1))


def _view(draw: Any, x: Any) -> Callable[[Any], Any]:
    """Something that moves elements, legal for a tensor of this shape."""
    order = draw(st.permutations(range(x.ndim)))
    dim, other = axis(draw, x), axis(draw, x)
    extent = x.shape[dim]
    start = draw(st.integers(0, extent - 1))
    stop, step = draw(st.integers(start + 1, extent)), draw(st.integers(1, 2))
    low, high = draw(st.integers(0, 2)), draw(st.integers(0, 2))

    def part(t: Any) -> Any:
        key = [slice(None)] * t.ndim
        key[dim] = slice(start, stop, step)
        return t[tuple(key)]

    def like(t: Any, at: int) -> Any:
        return torch.ones([len(index) if i == at % t.ndim else size for i, size in enumerate(t.shape)], dtype=t.dtype)

    index = torch.tensor(draw(st.lists(st.integers(-extent, extent - 1), min_size=1, max_size=3)))
    return draw(
        st.sampled_from([
            lambda t: t.permute(order), lambda t: t.transpose(dim, other), part, lambda t: t.flatten(),
            lambda t: t.unsqueeze(dim), lambda t: torch.cat([t, t], dim), lambda t: torch.stack([t, t + 1], dim),
            lambda t: F.pad(t, (low, high), value=0.5), lambda t: t.flip(dim), lambda t: t.roll(low, dim),
            lambda t: t.repeat_interleave(2, dim), lambda t: t.index_select(dim, index % extent),
            lambda t: t.chunk(2, dim)[0], lambda t: t.select(dim, start), lambda t: t.reshape(-1, t.shape[-1]),
            lambda t: t[..., index % t.shape[-1]], lambda t: torch.tril(t) if t.ndim > 1 else t,
            lambda t: t.clone().add_(1), lambda t: t.narrow(dim, start, stop - start), lambda t: t.movedim(dim, 0),
            lambda t: t.index_fill(dim, index % extent, 0.5), lambda t: t.index_add(dim, index % extent, like(t, dim)),
            lambda t: t.gather(dim, torch.zeros_like(t, dtype=torch.int64) + start), lambda t: t.unfold(dim, 1, step),
            lambda t: t.scatter(dim, torch.zeros_like(t, dtype=torch.int64) + start, 1.5), lambda t: t.diff(dim=dim),
            lambda t: t.double().to(t.dtype), lambda t: t.to(torch.bfloat16).to(t.dtype) if t.dtype != F64 else t,
        ])
    )  # fmt: skip


def _reduction(draw: Any, x: Any) -> Callable[[Any], Any]:
    dim, keep = axis(draw, x), draw(st.booleans())
    return draw(
        st.sampled_from([
            lambda t: t.sum(dim, keep), lambda t: t.mean(dim, keep), lambda t: t.amax(dim, keep),
            lambda t: t.softmax(dim),
            lambda t: F.log_softmax(t, dim), lambda t: t.cumsum(dim), lambda t: t.logsumexp(dim, keep),
            lambda t: t.var(dim, unbiased=False, keepdim=keep), lambda t: F.layer_norm(t, t.shape[-1:]),
            lambda t: F.rms_norm(t, t.shape[-1:], eps=0.1), lambda t: t.sum(), lambda t: t.norm(dim=dim),
            lambda t: F.normalize(t, dim=dim, eps=0.1), lambda t: t.prod(dim), lambda t: t.std(dim, keepdim=keep),
            lambda t: t.max(dim, keepdim=keep)[0], lambda t: t.median(dim, keepdim=keep)[0],
            lambda t: t.cummax(dim)[0], lambda t: t.sort(dim)[0], lambda t: t.topk(1, dim)[0],
            lambda t: (t if t.dtype == F64 else t.float()).mean(dim, keepdim=keep).to(t.dtype),
            lambda t: t.amin((dim,), keepdim=keep), lambda t: t.amax(dim, True).sum(dim, keep),
            lambda t: t.mean(dim, True).softmax(dim), lambda t: t.sum((0, -1), True).mean(dim, keep),
        ])
    )  # fmt: skip


def _layer(draw: Any, x: Any) -> nn.Module | None:
    """A layer with weights that takes a tensor of this shape."""
    choices: list[Callable[[], nn.Module]] = []
    if x.ndim >= 1 and x.is_floating_point():
        choices += [lambda: nn.Linear(x.shape[-1], draw(st.integers(1, 5)), bias=draw(st.booleans()))]
        choices += [lambda: nn.LayerNorm(x.shape[-1])]
    if x.ndim == 4:
        groups = draw(st.sampled_from([g for g in (1, 2, 4) if x.shape[1] % g == 0]))
        kernel, stride = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        pad, dilation = draw(st.integers(0, 2)), draw(st.integers(1, 2))
        pool = {"stride": stride, "padding": min(pad, kernel // 2), "ceil_mode": draw(st.booleans())}
        settings = {"stride": stride, "padding": pad, "groups": groups, "bias": draw(st.booleans())}
        choices += [
            lambda: nn.Conv2d(x.shape[1], 2 * groups, kernel, dilation=dilation, **settings),
            lambda: nn.ConvTranspose2d(x.shape[1], 2 * groups, kernel, dilation=dilation, **settings),
            lambda: nn.MaxPool2d(kernel, **pool),
            lambda: nn.AvgPool2d(kernel, count_include_pad=draw(st.booleans()), **pool),
            lambda: nn.AdaptiveAvgPool2d(draw(st.integers(1, 4))),
            lambda: nn.BatchNorm2d(x.shape[1]),
            lambda: nn.GroupNorm(groups, x.shape[1]),
        ]
    if x.ndim == 3:
        pad, dilation, causal = draw(st.integers(0, 2)), draw(st.integers(1, 2)), draw(st.booleans())
        choices += [
            lambda: nn.Conv1d(x.shape[1], 3, 2, padding=pad, dilation=dilation, padding_mode="zeros"),
            lambda: nn.BatchNorm1d(x.shape[1]),
            lambda: nn.InstanceNorm1d(x.shape[1], affine=True),
            lambda: SelfAttention(x.shape[-1], causal),
            lambda: nn.LSTM(x.shape[-1], 3, batch_first=True),
            lambda: nn.GRU(x.shape[-1], 2, batch_first=True),
        ]
    return draw(st.sampled_from(choices))().eval() if choices else None


class SelfAttention(nn.Module):
    """Attention of a sequence to itself; a module, so that copies have weights of their own."""

    def __init__(self, width: int, causal: bool) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(width, 1, batch_first=True)
        self.causal = causal

    def forward(self, x: Any) -> Any:
        size = x.shape[1]
        mask = torch.ones(size, size, dtype=torch.bool).triu(1) if self.causal else None
        return self.attend(x, x, x, need_weights=False, attn_mask=mask)[0]


class RandomModule(nn.Module):
    """Steps over a pool that starts with the inputs; the last tensors come out."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.layers = nn.ModuleList()
        self.largest: float | None = None  #: number on the way; none: not asked for

    def forward(self, *inputs: Any) -> Any:
        pool = list(inputs)
        for function, sources in self.steps:
            pool.append(first(function(*[pool[i] for i in sources])))
        if self.largest is not None and not torch.compiler.is_compiling():
            self.largest = max(float(value.detach().abs().double().max()) for value in pool)
        return tuple(pool[-2:])


@st.composite
def modules(draw: Any) -> tuple[nn.Module, tuple[Any, ...]]:
    """A random module in eval mode and its inputs. Steps that torch refuses are left out."""
    torch.manual_seed(draw(st.integers(0, 2**16)))
    dtype = draw(st.sampled_from([torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16]))
    pairs = [[(2, 3, 4), (3, 4)], [(1, 4, 6, 5), (4, 1, 1)], [(5, 6), (6,)], [(2, 2, 3, 4), (4,)], [(4, 1, 3), (3,)]]
    shapes = draw(st.sampled_from(pairs))
    inputs = tuple(torch.randn(shape).to(dtype) for shape in shapes)
    module, pool = RandomModule(), list(inputs)
    for _ in range(draw(st.integers(1, 7))):
        source = draw(st.integers(0, len(pool) - 1))
        x, sort = pool[source], draw(st.sampled_from(["smooth", "pair", "view", "reduce", "layer", "jump", "product"]))
        sources: tuple[int, ...] = (source,)
        function: Any = None
        if sort == "smooth":
            function = draw(st.sampled_from(SMOOTH))
        elif sort == "jump" and source < len(inputs):
            function = draw(st.sampled_from(JUMPS))
        elif sort in ("pair", "product"):
            sources = (source, draw(st.integers(0, len(pool) - 1)))
            function = torch.matmul if sort == "product" else draw(st.sampled_from(PAIRS))
            if sort == "product" and draw(st.booleans()):
                sources = (source, source)
                function = lambda a, b: a @ b.transpose(-1, -2) / 4  # noqa: E731
        elif sort == "view" and x.ndim:
            function = _view(draw, x)
        elif sort == "reduce" and x.ndim:
            function = _reduction(draw, x)
        elif sort == "layer" and x.ndim:
            layer = _layer(draw, x)
            function = None if layer is None else layer.to(dtype)
        if function is None:
            continue
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # those that come once make what is drawn depend on the past
                value = first(function(*[pool[i] for i in sources]))
        except (RuntimeError, ValueError, IndexError):
            continue
        if value.numel() == 0 or value.numel() > 1 << 16 or not bool(value.isfinite().all()) or value.abs().max() > 1e3:
            continue
        if isinstance(function, nn.Module):
            module.layers.append(function)
        module.steps.append((function, sources))
        pool.append(value)
    return module.eval(), inputs
