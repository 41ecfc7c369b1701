"""Kernels of eager torch, torch.compile and XLA: counted by hand, views held against torch, order, prices."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

import tilesim as ts
from tilesim.analytic.gpu.backward import backward_kernels
from tilesim.analytic.gpu.compiled import count, price_kernels
from tilesim.analytic.gpu.strides import compact, contiguous, viewed
from tilesim.models._published import TextSizes, spelled_out

L, W, H, F, V, P, B, S = 3, 64, 4, 256, 1000, 64, 2, 32
SIZES = {family: TextSizes(family, L, W, H, F, V, P) for family in ("bert", "gpt2", "opt")}
# per layer, then the rest of the network, each written out from the published modules:
#   bert   products: query, key, value, scores, context, output, up, down; copies for the batched products: query, key,
#          value, and of the context before it is flattened; divide, mask, softmax; 2 adds, 2 norms; gelu
#          around: 2 embeddings, 2 adds, norm, pooler, tanh, classifier
#   gpt2   one product for query, key and value; divide, where, softmax; gelu in 8 kernels; around: embedding, add,
#          norm, head
#   opt    query times scale, 3 products; mask, maximum, softmax; relu; around as gpt2
EAGER = {"bert": (8 + 4 + 3 + 4 + 1, 8), "gpt2": (6 + 4 + 3 + 4 + 8, 4), "opt": (8 + 1 + 4 + 3 + 4 + 1, 4)}


def seconds(graph: ts.Graph, device: str, compiler: str, **constants: float) -> float:
    return sum(
        c.seconds for c in price_kernels(count(graph, compiler), ts.Device.load(device), constants=constants).costs
    )


@pytest.mark.parametrize("family", SIZES)
def test_eager_launches_by_hand(family: str) -> None:
    layer, around = EAGER[family]
    result = ts.estimate(spelled_out(SIZES[family], B, S), "a100", compiler="eager")
    assert len(result.kernels().rows) == L * layer + around
    assert all(row["launches"] == 1 for row in result.kernels().rows)


def test_compiled_kernels_of_a_layer_by_hand() -> None:
    """Scores, mask and softmax are one kernel, as are an add and the norm behind it; copies and gelu stay alone."""
    for compiler in ("torch", "xla"):
        rows = ts.estimate(spelled_out(SIZES["bert"], B, S), "a100", compiler=compiler).kernels().rows
        # bert: 8 products, 4 copies, softmax, 2 norms, gelu; around: embeddings with norm, pooler, tanh, classifier
        assert len(rows) == L * (8 + 4 + 1 + 2 + 1) + 4
    # gpt2: 6 products, one copy of the three thirds, one of the context, softmax, 2 norms, gelu; the embedding joins
    # the first norm, the last add joins the last norm; then the head
    rows = ts.estimate(spelled_out(SIZES["gpt2"], B, S), "a100", compiler="torch").kernels().rows
    assert len(rows) == L * (6 + 2 + 1 + 2 + 1) + 2
    # opt with xla: relu goes into the epilogue of the product before it
    plain, fused = (
        ts.estimate(spelled_out(SIZES["opt"], B, S), "a100", compiler=name).kernels().rows for name in ("torch", "xla")
    )
    assert len(plain) - len(fused) == L
    assert [row for row in fused if row["kind"] == "library" and "relu" in row["fused"]]


def moved(graph: ts.Graph, compiler: str) -> float:
    """Bytes of all kernels that are no library's."""
    return sum(k.bytes for k in count(graph, compiler).kernels if k.call < 0)


def test_bytes_of_a_layer_by_hand() -> None:
    """Differences of two depths leave what a layer moves: x is one activation, s the scores, g the hidden one."""
    x, s, g = B * S * W * 4.0, B * H * S * S * 4.0, B * S * F * 4.0
    small = W * 4.0  # a scale or a bias of a norm
    mask = {"bert": B * S * 4.0, "gpt2": S * S * 1.0}
    want = {
        # copies 4 · 2x; divide, mask and softmax 2s each; adds 3x, norms 2x; gelu
        ("bert", "eager"): 8 * x + 6 * s + 4 + mask["bert"] + 2 * (3 * x + 2 * x + 2 * small) + 2 * g,
        ("bert", "torch"): 8 * x + 2 * s + 4 + mask["bert"] + 2 * (3 * x + 2 * small) + 2 * g,
        # gelu: pow, multiply, add, multiply, tanh, add, multiply read and write one, two of them two
        ("gpt2", "eager"): 8 * x + 6 * s + 8 + mask["gpt2"] + 2 * (3 * x + 2 * x + 2 * small) + 18 * g + 5 * 4,
        # the sum of a residual is written beside its norm
        ("gpt2", "torch"): 8 * x + 2 * s + 8 + mask["gpt2"] + 2 * (4 * x + 2 * small) + 2 * g + 5 * 4,
    }
    for (family, compiler), expected in want.items():
        deep, deeper = (
            moved(spelled_out(TextSizes(family, layers, W, H, F, V, P), B, S), compiler) for layers in (2, 3)
        )
        assert deeper - deep == pytest.approx(expected, abs=64), (family, compiler)  # scalars: a few bytes each


def test_backward_pass_of_a_layer_by_hand() -> None:
    x, s, g, small = B * S * W * 4.0, B * H * S * S * 4.0, B * S * F * 4.0, W * 4.0
    found = []
    for layers in (2, 3):
        counted = count(spelled_out(TextSizes("bert", layers, W, H, F, V, P), B, S), "eager")
        parts = backward_kernels(counted)
        found.append((sum(k.bytes for k, _ in parts if k.call < 0), sum(times for _, times in parts)))
    assert found[1][1] - found[0][1] == 2 * 8  # two products for each of eight
    # copies; divide; softmax with its result; norms with x twice more; gelu with its operand; six biases; what four
    # read (query, key, value, residual) is added up three times, what two read (up, residual) once
    want = 8 * x + 2 * s + 3 * s + 2 * (5 * x + 2 * small) + 3 * g + 5 * x + g + 9 * x + 3 * x
    assert found[1][0] - found[0][0] == pytest.approx(want, abs=64)


def test_backward_pass_of_what_is_not_modelled() -> None:
    with pytest.raises(ts.Unsupported, match="eager"):
        backward_kernels(count(ts.models.build("mlp"), "torch"))
    with pytest.raises(ts.Unsupported, match="convolution"):
        backward_kernels(count(ts.models.build("resnet18"), "eager"))


def test_flash_attention_is_one_kernel_without_copies() -> None:
    graph = ts.models.build("bert-base", sequence=64)
    names = [row["kernel"] for row in ts.estimate(graph, "h100", compiler="eager").kernels().rows]
    assert sum(name.endswith("attention.self") for name in names) == 12
    assert not any("copy" in name for name in names)


def test_views_are_torchs() -> None:
    """Random walks of views on storages: whether torch can view, the strides it gives, and how it lays results out."""
    torch = pytest.importorskip("torch")
    random.seed(5)
    for _ in range(1500):
        shape = [random.choice((1, 2, 3, 4, 6)) for _ in range(random.randint(1, 4))]
        tensor = torch.zeros(shape)
        for _ in range(random.randint(0, 3)):
            if random.random() < 0.5:
                tensor = tensor.permute(random.sample(range(tensor.dim()), tensor.dim()))
            else:
                axis = random.randrange(tensor.dim())
                tensor = tensor.narrow(axis, 0, random.randint(1, tensor.shape[axis]))
        wanted = factors(tensor.numel())
        found = viewed(tuple(tensor.shape), tensor.stride(), wanted)
        try:
            real = tensor.view(wanted)
        except RuntimeError:
            assert found is None, (tensor.shape, tensor.stride(), wanted)
            continue
        assert found is not None, (tensor.shape, tensor.stride(), wanted)
        long = [axis for axis, extent in enumerate(wanted) if extent != 1]
        assert [found[axis] for axis in long] == [real.stride()[axis] for axis in long]
        laid = compact(tuple(tensor.shape), tensor.stride())
        result = (tensor + 1).stride()
        long = [axis for axis, extent in enumerate(tensor.shape) if extent != 1]
        assert [laid[axis] for axis in long] == [result[axis] for axis in long]
        assert contiguous(tensor.shape) == tensor.contiguous().stride() or 1 in tensor.shape


def factors(number: int) -> tuple[int, ...]:
    parts = []
    while number > 1:
        parts.append(random.choice([n for n in range(2, number + 1) if number % n == 0]))
        number //= parts[-1]
    parts += [1] * random.randint(0, 2)
    random.shuffle(parts)
    return tuple(parts) or (1,)


_VIEWS = {
    "view", "t", "transpose", "permute", "expand", "_unsafe_view", "slice", "select", "split", "detach", "unsqueeze",
}  # fmt: skip


def test_eager_kernels_are_what_torch_dispatches() -> None:
    """A layer of each family in torch: what is dispatched and is no view is one of our kernels."""
    torch = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = func.overloadpacket.__name__
            if name not in _VIEWS:
                self.names.append(name)
            return func(*args, **(kwargs or {}))

    def heads(x: Any) -> Any:
        return x.view(B, S, H, W // H).permute(0, 2, 1, 3)

    def linear(x: Any, outputs: int) -> Any:
        return torch.nn.functional.linear(x, torch.zeros(outputs, x.shape[-1]), torch.zeros(outputs))

    def norm(x: Any) -> Any:
        return torch.nn.functional.layer_norm(x, (W,), torch.zeros(W), torch.zeros(W))

    def conv1d(x: Any, outputs: int) -> Any:
        found = torch.addmm(torch.zeros(outputs), x.view(-1, x.shape[-1]), torch.zeros(x.shape[-1], outputs))
        return found.view(B, S, outputs)

    def bert(x: Any) -> Any:
        q, k, v = (heads(linear(x, W)) for _ in range(3))
        p = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(W // H) + torch.zeros(B, 1, 1, S), -1)
        context = torch.matmul(p, v).permute(0, 2, 1, 3).reshape(B, S, W)
        x = norm(linear(context, W) + x)
        return norm(linear(torch.nn.functional.gelu(linear(x, F)), W) + x)

    def gpt2(x: Any) -> Any:
        q, k, v = (heads(part) for part in conv1d(norm(x), 3 * W).split(W, 2))
        p = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(W // H)
        p = torch.softmax(torch.where(torch.ones(1, 1, S, S, dtype=torch.bool), p, -1e30), -1)
        x = x + conv1d(torch.matmul(p, v).permute(0, 2, 1, 3).reshape(B, S, W), W)
        y = conv1d(norm(x), F)
        y = 0.5 * y * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (y + 0.044715 * torch.pow(y, 3.0))))
        return x + conv1d(y, W)

    made = {"zeros", "ones", "scalar_tensor"}
    for family, layer in (("bert", bert), ("gpt2", gpt2)):
        with torch.no_grad(), Counter() as counter:
            layer(torch.zeros(B, S, W))
        launched = [name for name in counter.names if name not in made]
        assert len(launched) == EAGER[family][0], launched


@pytest.mark.parametrize("compiler", ["eager", "torch", "xla"])
def test_kernels_run_in_order_and_name_every_operation(compiler: str) -> None:
    for graph in (spelled_out(SIZES["gpt2"], B, S), ts.models.build("resnet18"), ts.models.build("qwen2.5-1.5b")):
        counted = count(graph, compiler)
        every = {name for kernel in counted.kernels for name in kernel.writes}
        done: set[str] = set()
        for kernel in counted.kernels:
            assert all(name in done for name in kernel.reads if name in every and name not in kernel.writes)
            done |= set(kernel.writes)
        named = {name for kernel in counted.kernels for name in kernel.operations}
        free = ("constant", "reshape", "transpose", "slice", "broadcast", "bitcast", "dynamic_slice")
        assert {op["name"] for op in counted.core.operations() if op["kind"] not in free} <= named


@pytest.mark.parametrize("device", ["t4", "a100", "h100", "rtx-pro-6000", "mi300x"])
def test_a_compiler_never_loses(device: str) -> None:
    graphs = [spelled_out(SIZES[family], B, S) for family in SIZES]
    graphs += [ts.models.build(name) for name in ("resnet18", "mobilenet-v2", "mlp", "dlrm")]
    for graph in graphs:
        eager, torch, xla = (seconds(graph, device, name) for name in ("eager", "torch", "xla"))
        assert xla <= torch * (1 + 1e-9) <= eager * (1 + 2e-9), graph


def test_time_grows_with_the_batch_and_falls_with_rates() -> None:
    for compiler in ("eager", "torch", "xla"):
        times = [seconds(spelled_out(SIZES["gpt2"], batch, S), "t4", compiler) for batch in (1, 2, 4, 16, 64)]
        assert times == sorted(times)
        graph = spelled_out(SIZES["bert"], 64, S)
        shares = [seconds(graph, "t4", compiler, memory_share=share) for share in (0.3, 0.6, 0.9)]
        assert shares == sorted(shares, reverse=True)


def test_few_elements_wait_for_the_host() -> None:
    """One token: every kernel is shorter than its launch, so eager takes what the host takes."""
    graph = spelled_out(TextSizes("bert", 2, 64, 4, 256, 100, 8), 1, 1)
    result = ts.estimate(graph, "h100", compiler="eager")
    launches = sum(row["launches"] for row in result.kernels().rows)
    assert result.seconds == pytest.approx(launches * 8e-6, rel=0.05)


def test_a_compiler_that_is_none() -> None:
    graph = ts.workloads.matmul(64, 64, 64)
    with pytest.raises(ts.UserError, match=r"(?s)unknown compiler.*'torhc'.*eager, torch, xla.*torch"):
        ts.estimate(graph, "t4", compiler="torhc")
    with pytest.raises(ts.UserError, match=r"(?s)GPUs.*tpu-v5e"):
        ts.estimate(graph, "tpu-v5e", compiler="xla")
    assert ts.estimate(graph, "t4").kernels().rows == []
    notes = " ".join(ts.estimate(graph, "t4", compiler="torch").approximations)
    assert "torch.compile" in notes and "us per launch" in notes


def softmax_by_hand(rows: int, width: int) -> ts.Graph:
    b = ts.GraphBuilder("softmax", dtype="bf16")
    x = b.input("x", (rows, width)).convert("f32")
    part = b.apply("exp", x - x.max(-1, keep_dims=True))
    b.output((part / part.sum(-1, keep_dims=True)).convert("bf16"), "y")
    return b.build()


def test_kernels_of_xla_end_with_their_reductions() -> None:
    """Largest, sum, quotient: each reads the scores again, exp is made twice, and only the result is stored."""
    rows, width = 4096, 1000
    own = count(softmax_by_hand(rows, width), "xla").kernels
    scores, row = 2 * rows * width, 4 * rows
    assert [kernel.bytes for kernel in own] == [scores + row, scores + 2 * row, 2 * scores + 2 * row]
    assert sum("exp" in name for kernel in own for name in kernel.operations) == 2
    (one,) = count(softmax_by_hand(rows, width), "torch").kernels
    assert one.bytes == 2 * scores


def test_what_is_cheaper_read_is_stored() -> None:
    """A sum of four tensors that two reductions over different axes read: once from memory, not four times again."""
    b = ts.GraphBuilder("sums")
    a, *others = (b.input(name, (512, 512)) for name in "acde")
    total = a
    for one in others:
        total = total + one
    b.output(total.sum(0), "down")
    b.output(b.apply("exp", total.transpose(1, 0)).max(0), "across")
    moved = sum(kernel.bytes for kernel in count(b.build(), "xla").kernels)
    tensor = 4 * 512 * 512
    assert moved <= 4 * tensor + 2 * tensor + 2 * 4 * 512


def test_a_small_mask_beside_a_chain_is_a_kernel_of_its_own() -> None:
    """The chain over all heads stays one kernel, though it reads what a loop over fewer elements makes."""
    b = ts.GraphBuilder("masked")
    x = b.input("x", (8, 256, 256)) * 0.5
    row, column = (b.op("iota", shape=[256, 256], dim=dim, dtype="i32") for dim in (0, 1))
    hidden = b.apply("greater", column, row)
    b.output(b.apply("exp", b.apply("select", hidden, b.scalar(0.0), x)), "y")
    sizes = sorted(kernel.bytes for kernel in count(b.build(), "xla").kernels)
    assert sizes[-1] <= 2 * 4 * 8 * 256 * 256 + 256 * 256 + 8
