"""Operations of torch, many in one module, equal the reference kernels."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402

import tilesim as ts  # noqa: E402
from support.torch_equal import equal  # noqa: E402


class Many(torch.nn.Module):
    def __init__(self, functions: list[Callable[..., Any]]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *args: Any) -> list[Any]:
        return [function(*args) for function in self.functions]


def same(functions: list[Callable[..., Any]], *args: Any) -> ts.Graph:
    return equal(Many(functions), args)


UNARY = [
    torch.abs, torch.exp, torch.exp2, torch.expm1, torch.sin, torch.cos, torch.tan, torch.tanh, torch.sigmoid,
    torch.erf, torch.erfc, torch.atan, torch.sinh, torch.cosh, torch.floor, torch.ceil, torch.round, torch.trunc,
    torch.sign, torch.neg, torch.square, torch.relu, F.silu, F.gelu, F.elu, F.softplus, F.mish, F.hardswish,
    F.hardsigmoid, F.relu6, F.leaky_relu, F.logsigmoid, F.selu, F.celu, F.hardtanh, F.softsign, F.tanhshrink,
    F.hardshrink, F.softshrink, lambda x: F.threshold(x, 0.1, 2.0),
    lambda x: F.gelu(x, approximate="tanh"), lambda x: torch.sqrt(x * x + 0.1), lambda x: torch.rsqrt(x * x + 0.1),
    lambda x: torch.log(x * x + 0.1), lambda x: torch.log2(x * x + 0.1), lambda x: torch.log1p(x * x),
    lambda x: torch.log10(x * x + 0.1), lambda x: torch.asin(x / 10), lambda x: torch.acos(x / 10), lambda x: 1 / x,
    lambda x: x**2, lambda x: x**3, lambda x: (x * x + 1) ** 0.5, lambda x: (x * x + 1) ** 1.7, lambda x: x % 0.7,
    lambda x: x // 0.3, lambda x: torch.fmod(x, 0.7), lambda x: x.clamp(-0.5, 0.7), lambda x: x.clamp(min=0.1),
    lambda x: torch.isnan(x), lambda x: torch.isinf(x / 0), lambda x: torch.isfinite(x), lambda x: torch.frac(x),
    lambda x: torch.nan_to_num(x / 0), lambda x: x.to(torch.int32), lambda x: x > 0.5, lambda x: x.bool(),
    lambda x: torch.where(x > 0, x, -2.0), lambda x: x.masked_fill(x < 0, float("-inf")), lambda x: x.double() * 2,
    lambda x: torch.add(x, x, alpha=2.5), lambda x: torch.rsub(x, 1), lambda x: torch.addcmul(x, x, x, value=0.5),
    lambda x: torch.lerp(x, x * x, 0.3), lambda x: torch.logaddexp(x, 2 * x),
    lambda x: torch.atan2(x, x + 1), lambda x: torch.full_like(x, 3) + x.new_zeros(5), lambda x: torch.sinc(x),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_functions_of_one_operand(dtype: Any) -> None:
    torch.manual_seed(0)
    functions = UNARY if dtype == torch.float32 else UNARY[:40]
    same(functions, (2 * torch.randn(4, 5)).to(dtype))


def test_tensors_of_one_value() -> None:
    """Every spelling, with a shape and a dtype other than the operand's."""
    torch.manual_seed(0)
    functions = [
        lambda x: x.new_full((2, 3), float("-inf")), lambda x: x.new_full((), 2), lambda x: x.new_full((0, 4), 1.5),
        lambda x: x.new_full((5,), 7, dtype=torch.int32), lambda x: torch.full((2,), 3) * x[:, :2],
        lambda x: torch.full_like(x, 2.7, dtype=torch.int64), lambda x: x.new_ones(3), lambda x: x.new_zeros(2, 2),
        lambda x: torch.ldexp(x, torch.tensor(3)), lambda x: torch.ldexp(x, torch.tensor([1, 0, -2, 5, 3])),
    ]  # fmt: skip
    same(functions, torch.randn(4, 5))


def test_scalars_have_all_their_digits() -> None:
    """bf16 x * 0.1 multiplies by 0.1 in f32, not by 0.1 rounded to bf16."""
    x = torch.arange(1, 200, dtype=torch.bfloat16)
    graph = ts.from_torch(Many([lambda x: x * 0.1, lambda x: x + 0.3, lambda x: x / 3]), (x,))
    for got, wanted in zip(ts.reference(graph, (x,)).values(), (x * 0.1, x + 0.3, x / 3), strict=True):
        assert (got.astype("f4") == wanted.float().numpy()).all()


def test_integers_and_bools() -> None:
    a = torch.tensor([[-7, 3, 2], [5, -4, 9]])
    b = torch.tensor([[2, -2, 3], [-3, 4, 5]])
    functions = [
        lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a // b, lambda a, b: a % b, lambda a, b: a / b,
        lambda a, b: torch.div(a, b, rounding_mode="trunc"), lambda a, b: torch.fmod(a, b), lambda a, b: a & b,
        lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: ~a, lambda a, b: a < b, lambda a, b: a * 0.5,
        lambda a, b: (a > 0) & (b > 0), lambda a, b: ~(a > 0), lambda a, b: a.sum(), lambda a, b: a.max(),
        lambda a, b: (a > 0).sum(1), lambda a, b: (a > 0).any(), lambda a, b: (a > 0).all(1), lambda a, b: a.abs(),
        lambda a, b: a.float() @ b.T.float(), lambda a, b: a @ b.T, lambda a, b: a.cumsum(1), lambda a, b: a**2,
        lambda a, b: torch.exp(a), lambda a, b: a.prod(1), lambda a, b: a.to(torch.int8), lambda a, b: a > 0.5,
        lambda a, b: (a > 0) * b, lambda a, b: (a > 0) + (b > 0), lambda a, b: a.clamp(-2, 3),
    ]  # fmt: skip
    same(functions, a, b)


def test_shapes() -> None:
    x = torch.randn(2, 3, 4)
    y = torch.randn(1, 3, 1)
    functions = [
        lambda x, y: x.view(6, 4), lambda x, y: x.permute(2, 0, 1), lambda x, y: x.transpose(-1, 0),
        lambda x, y: x[:, 1:, ::2], lambda x, y: x[..., -1], lambda x, y: x[1], lambda x, y: x.unsqueeze(1),
        lambda x, y: y.squeeze(), lambda x, y: y.expand(2, 3, 4), lambda x, y: torch.cat([x, x], -1),
        lambda x, y: torch.stack([x, x], 1), lambda x, y: x.split(2, -1), lambda x, y: x.chunk(2, 1),
        lambda x, y: x.unbind(0), lambda x, y: x.repeat(2, 1, 3), lambda x, y: x.flip(0, 2),
        lambda x, y: x.roll(1, 2), lambda x, y: x.roll(5), lambda x, y: F.pad(x, (1, 2, 0, 1), value=3),
        lambda x, y: F.pad(x, (1, 2), mode="reflect"), lambda x, y: F.pad(x, (1, 2), mode="replicate"),
        lambda x, y: F.pad(x, (-1, 2)), lambda x, y: x.repeat_interleave(2, 1), lambda x, y: torch.tril(x),
        lambda x, y: torch.triu(x, 1), lambda x, y: x.narrow(2, 1, 2), lambda x, y: x.flatten(),
        lambda x, y: x.unflatten(2, (2, 2)), lambda x, y: x.movedim(0, 2), lambda x, y: x.mT, lambda x, y: x + y,
        lambda x, y: x.new_ones(2) + 1, lambda x, y: torch.zeros(3) + y, lambda x, y: x.reshape(-1),
        lambda x, y: torch.meshgrid(x[0, 0], x[0, 1], indexing="ij"),
        lambda x, y: F.pixel_shuffle(x[None, 0:1].expand(1, 4, 3, 4), 2),
        lambda x, y: x.diagonal(0, 1, 2), lambda x, y: x.unfold(2, 2, 1), lambda x, y: torch.broadcast_tensors(x, y),
    ]  # fmt: skip
    same(functions, x, y)


def test_reductions() -> None:
    x = torch.randn(3, 4, 5)
    functions = [
        lambda x: x.sum(),
        lambda x: x.sum((0, 2)),
        lambda x: x.mean(-1, keepdim=True),
        lambda x: x.amax(1),
        lambda x: x.amin((0, 1)),
        lambda x: x.max(),
        lambda x: x.max(1),
        lambda x: x.min(2, keepdim=True),
        lambda x: x.argmax(),
        lambda x: x.argmax(1),
        lambda x: x.argmin(0, keepdim=True),
        lambda x: x.prod(1),
        lambda x: x.var(1),
        lambda x: x.std((0, 1), unbiased=False),
        lambda x: torch.var_mean(x, 1),
        lambda x: x.norm(dim=1),
        lambda x: x.norm(p=1),
        lambda x: x.logsumexp(1),
        lambda x: x.softmax(1),
        lambda x: F.log_softmax(x, -1),
        lambda x: x.cumsum(1),
        lambda x: x.cumprod(2),
        lambda x: F.normalize(x, dim=1),
        lambda x: x.topk(2),
        lambda x: x.topk(3, dim=1, largest=False),
        lambda x: F.cosine_similarity(x, x + 1, 1),
        lambda x: (x > 0).any(1),
        lambda x: x.mean(),
        lambda x: x.square().sum().sqrt(),
        lambda x: F.glu(x[..., :4]),
    ]  # fmt: skip
    same(functions, x)


def test_products() -> None:
    a, b, v = torch.randn(2, 3, 4), torch.randn(2, 4, 5), torch.randn(4)
    functions = [
        lambda a, b, v: a @ b, lambda a, b, v: a @ v, lambda a, b, v: v @ b, lambda a, b, v: v @ v,
        lambda a, b, v: torch.bmm(a, b), lambda a, b, v: torch.mm(a[0], b[0]), lambda a, b, v: a[:, None] @ b,
        lambda a, b, v: torch.addmm(b[0, :3], a[0], b[1], alpha=0.5, beta=2), lambda a, b, v: torch.outer(v, v),
        lambda a, b, v: torch.baddbmm(a @ b, a, b), lambda a, b, v: torch.einsum("bij,bjk->bki", a, b),
        lambda a, b, v: torch.einsum("bij,j->bi", a, v), lambda a, b, v: F.linear(a, b[0].T, b[0, 0]),
        lambda a, b, v: torch.mv(a[0], v),
    ]  # fmt: skip
    same(functions, a, b, v)


def test_indexing() -> None:
    x, i = torch.randn(4, 5, 6), torch.tensor([2, -1, 0])
    j = torch.tensor([[0, 3], [1, 2]])
    functions = [
        lambda x, i, j: x[i], lambda x, i, j: x[:, i], lambda x, i, j: x[i, i], lambda x, i, j: x[:, i, i],
        lambda x, i, j: x[i, :, i], lambda x, i, j: x[j], lambda x, i, j: x[:, j], lambda x, i, j: x[j, :, j],
        lambda x, i, j: x.index_select(2, j[0]), lambda x, i, j: x[0, 0].gather(0, j[0]),
        lambda x, i, j: x[:2, :2, 0].gather(1, j % 2), lambda x, i, j: F.embedding(j, x[0]),
        lambda x, i, j: torch.take_along_dim(x[:2, :4, 0], j, 1), lambda x, i, j: F.one_hot(j, 5),
        lambda x, i, j: x[[0, -2]],
    ]  # fmt: skip
    same(functions, x, i, j)


def test_writes_into_parts() -> None:
    def parts(x: Any) -> Any:
        y = x.clone()
        y[:, 1] = 5
        y[1:, ::2] = x[1:, ::2] * 2
        y[0, 0] += 3
        z = torch.empty_like(x)
        z[:] = x
        z.add_(1).mul_(2)
        w = torch.zeros_like(x)
        w.copy_(x)
        w.view(-1)[3] = 7
        return y, z, w

    same([parts], torch.randn(3, 4))


def test_uninitialised_memory_that_is_written_over() -> None:
    """Every way to get it, and every way to write over all of it."""

    def written(x: Any) -> list[Any]:
        a = torch.empty(3, 4)
        a[:] = x
        b = torch.empty_like(x).fill_(2.5)
        c = x.new_empty(2, 3, 4)
        for row in range(2):
            c[row] = x * row
        d = torch.empty_strided((3, 4), (1, 3))
        d.copy_(x)
        e = torch.empty(3, 8)
        e[:, :4], e[:, 4:] = x, -x
        f = torch.empty(3, 4).zero_() + x
        g = torch.empty(3, 4)
        torch.add(x, 1, out=g)
        return [a, b, c, d, e, f, g]

    same([written], torch.randn(3, 4))


def test_orders_and_scattered_writes() -> None:
    def put(x: Any, i: Any) -> list[Any]:
        a, b, c, d = (x.clone() for _ in range(4))
        a[i] = 1
        b[:, i] += 2
        c[i, i] = x[:3, :, 0][:, :6].new_zeros(3, 6)
        d[x > 0.5] = 0
        return [a, b, c, d]

    functions = [
        lambda x, i: x.topk(3, 1), lambda x, i: x.sort(1), lambda x, i: x.argsort(2, descending=True), put,
        lambda x, i: torch.zeros(4, 6).scatter(0, i[None, :], 2.0), lambda x, i: x.index_add(1, i, x[:, :3]),
        lambda x, i: x[:, :, 0].scatter_add(1, i[None].expand(4, 3), x[:, :3, 1]),
        lambda x, i: x.index_copy(1, i, x[:, :3]),
        lambda x, i: x[:, 0].scatter_reduce(0, i[:, None].expand(3, 6), x[:3, 1], "amax"),
        lambda x, i: x.index_fill(1, i, 3.0), lambda x, i: x.msort(), lambda x, i: torch.histc(x, 5, -1, 1.5),
    ]  # fmt: skip
    same(functions, torch.randn(4, 5, 6), torch.tensor([2, 0, 3]))
