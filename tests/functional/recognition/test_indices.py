"""Index arithmetic of torch is read as views, windows, paddings and rows; torch is the oracle."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tilesim as ts
from support.program_checks import few_cores
from support.torch_equal import Applied, equal


def kinds(graph: ts.Graph) -> set[str]:
    return {op["kind"] for function in graph.to_dict()["functions"] for op in function["ops"]}


def compiled(function: Callable[..., Any], args: tuple[Any, ...], machine: str = "edge-8") -> ts.Graph:
    """The graph, whose reference kernels and whose program give what torch gives."""
    graph = equal(Applied(function), args)
    (found,) = ts.execute(ts.compile(graph, machine), args).values()
    assert np.allclose(np.asarray(found), function(*args).numpy(), rtol=1e-4, atol=1e-4)
    return graph


def ratio(graph: ts.Graph, machine: str, **options: Any) -> float:
    return ts.simulate(ts.compile(graph, machine, **options)).seconds / ts.lower_bound(graph, machine).seconds


ROWS = torch.arange(12)
VIEWS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "unfold": (lambda x: F.unfold(x, 3, padding=1), (2, 3, 7, 9)),
    "unfold, strides": (lambda x: F.unfold(x, (2, 3), stride=(3, 2), padding=(1, 0)), (1, 2, 8, 9)),
    "unfold, dilation": (lambda x: F.unfold(x, 2, dilation=(2, 3)), (2, 2, 6, 8)),
    "patches": (lambda x: F.unfold(x, 2, stride=2), (2, 3, 6, 8)),
    "sliding": (lambda x: x.unfold(1, 4, 3), (3, 14)),
    "strided": (lambda x: torch.as_strided(x, (3, 4, 4, 2, 2), (30, 6, 1, 6, 1)), (3, 30)),
    "diagonal": (lambda x: torch.diagonal(x, 1, 1, 2), (3, 5, 6)),
    "repeated": (lambda x: F.interpolate(x, scale_factor=(2, 3), mode="nearest"), (2, 3, 4, 5)),
    "shuffled": (lambda x: F.pixel_shuffle(x, 2), (2, 8, 3, 5)),
    "rolled": (lambda x: torch.roll(x, (2, -1), (1, 2)), (2, 5, 6, 3)),
    "reversed": (lambda x: x[:, torch.arange(5, -1, -2)], (2, 6, 3)),
    "mixed radix": (lambda x: x[ROWS // 4 + 3 * (ROWS % 4)], (12, 5)),
    "two axes": (lambda x: x[:, (ROWS // 6)[:, None], ROWS[None, :5]], (2, 3, 12)),
    "one element": (lambda x: x[:, torch.tensor([3])], (2, 6)),
    "negative": (lambda x: x[:, torch.arange(-4, 0)], (2, 6)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_known_indices_are_views(name: str) -> None:
    function, shape = VIEWS[name]
    graph = compiled(function, (torch.randn(shape, generator=torch.manual_seed(0)),))
    assert not kinds(graph) & {"gather", "embedding"}


FOLDS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 9 * 2, 35), {"output_size": (7, 9), "kernel_size": 3}),
    "padded": ((2, 9 * 2, 63), {"output_size": (7, 9), "kernel_size": 3, "padding": 1}),
    "strided": ((1, 6 * 3, 12), {"output_size": (8, 9), "kernel_size": (2, 3), "stride": (3, 2), "padding": (1, 0)}),
    "dilated": ((2, 4 * 2, 20), {"output_size": (6, 8), "kernel_size": 2, "dilation": (2, 3)}),
    "patches": ((2, 4 * 3, 12), {"output_size": (6, 8), "kernel_size": 2, "stride": 2}),
}


@pytest.mark.parametrize("name", FOLDS)
def test_known_places_are_paddings(name: str) -> None:
    shape, how = FOLDS[name]
    graph = compiled(lambda x: F.fold(x, **how), (torch.randn(shape, generator=torch.manual_seed(0)),))
    assert "scatter" not in kinds(graph)


@pytest.mark.singly
@pytest.mark.parametrize("places", [torch.arange(0, 8, 2), torch.arange(7, -1, -1), torch.arange(8) // 2 * 2])
@pytest.mark.parametrize("adds", [False, True])
def test_places_written_keep_what_lies_between(places: torch.Tensor, adds: bool) -> None:
    def written(x: Any, part: Any) -> Any:
        x = x.clone()
        x[:, places] = x[:, places] + part if adds else part
        return x

    def added(x: Any, part: Any) -> Any:
        return torch.index_add(x, 1, places, part)

    x, part = torch.randn(6, 8), torch.randn(6, 1).expand(6, len(places)).clone()
    compiled(written, (x, part))
    compiled(added, (x, torch.randn(6, len(places))))


@pytest.mark.parametrize(
    ("mode", "padding"),
    [
        pytest.param(mode, padding, marks=[pytest.mark.slow] * (mode != "bilinear" and i != j))
        for i, mode in enumerate(["nearest", "bilinear", "bicubic"])
        for j, padding in enumerate(["zeros", "border", "reflection"])
    ],
)
def test_sampling_by_indices_reads_rows(mode: str, padding: str) -> None:
    generator = torch.manual_seed(1)
    args = (torch.randn(2, 5, 6, 7, generator=generator), torch.rand(2, 3, 4, 2, generator=generator) * 2.4 - 1.2)
    function = lambda x, grid: F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=False)  # noqa: E731
    graph = compiled(function, args)
    assert "gather" not in kinds(graph)


def read_rows(rng: random.Random) -> tuple[Callable[..., Any], tuple[torch.Tensor, ...]]:
    """Rows of a table by one to three indices, cut, turned, normalized or reduced by what reads them."""
    count, width = rng.choice([3, 64, 1000]), rng.choice([1, 3, 8, 24, 64, 130])
    own = [rng.randint(1, rng.choice([3, 20])) for _ in range(rng.randint(1, 3))]
    order, part = rng.sample(range(len(own) + 1), len(own) + 1), rng.choice([i for i in (1, 2, 3, 5) if width % i == 0])
    reads: dict[str, Callable[[Any], Any]] = {
        "plain": lambda y: y * 3,
        "turned": lambda y: y.permute(order) * 2,
        "parts": lambda y: y.reshape(*own, part, width // part).transpose(-1, -2) + 1,
        "cut": lambda y: y[..., width // 3 :] * 1.5,
        "normalized": lambda y: F.layer_norm(y, (width,)),
        "in one line": lambda y: y.reshape(-1, width) + 1,
    }
    read, axis = reads[rng.choice(list(reads))], rng.choice([None, 0, -1])

    def function(table: Any, *indices: Any) -> Any:
        y = sum(read(F.embedding(index, table)) for index in indices)
        return y if axis is None else y.sum(axis)

    indices = [torch.randint(0, count, own) for _ in range(rng.randint(1, 3))]
    return function, (torch.randn(count, width), *indices)


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3", "chiplet-2"])
def test_readers_fetch_rows_themselves(machine: str) -> None:
    rng = random.Random(machine)
    torch.manual_seed(3)
    for _ in range(8):
        function, args = read_rows(rng)
        mapping = rng.choice(["heuristic", "cost"])
        program = ts.compile(ts.from_torch(Applied(function), args), few_cores(machine), mapping=mapping)
        (found,) = ts.execute(program, args, poison=True, find_races=True).values()
        wanted = function(*args).numpy()
        assert np.allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-4 * max(1, np.abs(wanted).max()))
        assert ts.verify(program).ok


def test_rows_of_one_reader_are_never_stored() -> None:
    graph = equal(Applied(lambda w, i: F.embedding(i, w).sum(1)), (torch.randn(100, 64), torch.zeros(50, 4).long()))
    rows = 50 * 4 * 64 * 4
    assert rows <= ts.simulate(ts.compile(graph, "edge-8")).memory_bytes < 2 * rows


def test_an_index_outside_is_an_error_where_torch_raises() -> None:
    """Rows are numbered over several axes: an index that leaves one must not be one of the next row."""
    x, index = torch.randn(3, 4, 5), torch.tensor([0, 1, 2])
    graph = equal(Applied(lambda a, i: a[i, torch.arange(3), :]), (x, index))
    for wrong in ([0, 3, 1], [0, -4, 1]):
        with pytest.raises(ts.UserError):
            ts.reference(graph, [x, torch.tensor(wrong)])
    graph = equal(Applied(lambda a, i, j: a[i, :, j]), (x, index, index))
    with pytest.raises(ts.UserError):
        ts.reference(graph, [x, index, torch.tensor([0, 5, 1])])


def test_indices_of_all_sorts_equal_torch() -> None:
    """Random indices: of data and known, affine or not, repeated along axes, over any axes, with windows beside."""
    rng = random.Random(7)
    for _ in range(40):
        shape = [rng.randint(1, 6) for _ in range(rng.randint(1, 4))]
        x = torch.randn(shape)
        rank, batch = len(shape), [rng.randint(1, 4) for _ in range(rng.randint(1, 3))]
        fixed: list[Any] = []
        data: list[torch.Tensor] = []
        for axis in range(rank):
            sort = rng.choice(["all", "data", "affine", "table", "all"])
            own = [extent if rng.random() < 0.6 else 1 for extent in batch]
            count = int(np.prod(own))
            if sort == "all":
                fixed.append(slice(None))
            elif sort == "data":
                fixed.append(len(data))
                data.append(torch.randint(0, shape[axis], own))
            elif sort == "affine":
                fixed.append((torch.arange(count) * rng.randint(1, 3) % shape[axis]).reshape(own))
            else:
                fixed.append(torch.tensor([rng.randrange(shape[axis]) for _ in range(count)]).reshape(own))
        if all(isinstance(index, slice) for index in fixed):
            continue

        def take(a: Any, *given: Any, fixed: list[Any] = fixed) -> Any:
            return a[tuple(given[index] if isinstance(index, int) else index for index in fixed)] * 2

        compiled(take, (x, *data))


def test_boxes_of_all_forms_stay_what_they_were() -> None:
    """Random gathers with boxes, index vectors along any axis, known, repeated or of data: the kernel's own values."""
    rng, random_data = random.Random(5), np.random.default_rng(5)
    for _ in range(60):
        shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 3))]
        batch = [rng.randint(1, 4) for _ in range(rng.randint(0, 2))]
        axes = rng.sample(range(len(shape)), rng.randint(1, len(shape)))
        sizes = [rng.randint(1, extent) for extent in shape]
        collapsed = sorted(axis for axis in axes if sizes[axis] == 1 and rng.random() < 0.7)
        at = rng.randint(0, len(batch))
        b = ts.GraphBuilder("boxes")
        x = b.input("x", shape)
        full = [*batch[:at], len(axes), *batch[at:]]
        own = [extent if rng.random() < 0.6 else 1 for extent in full]
        table = random_data.integers(-1, 6, own).astype(np.int64)
        if rng.random() < 0.3:
            table = np.arange(table.size, dtype=np.int64).reshape(own) % 4
        known = rng.random() < 0.6
        indices = b.weight("table", data=table, trainable=False) if known else b.input("i", own, "i64")
        indices = b.op("broadcast", indices, shape=full, dims=list(range(len(full))))
        kept = [axis for axis in range(len(shape)) if axis not in collapsed]
        offsets = sorted(rng.sample(range(len(batch) + len(kept)), len(kept)))
        y = b.op(
            "gather", x, indices, offset_dims=offsets, collapsed_slice_dims=collapsed, start_index_map=axes,
            index_vector_dim=at, slice_sizes=sizes, mode=rng.choice(["clip", "fill"]),
        )  # fmt: skip
        b.output(b.apply("negate", y), "y")
        graph = b.build()
        data = [random_data.standard_normal(shape).astype(np.float32), *([] if known else [table])]
        (wanted,) = ts.reference(graph, data).values()
        graph.optimize()
        (found,) = ts.reference(graph, data).values()
        assert np.array_equal(np.asarray(found), np.asarray(wanted), equal_nan=True)


def test_what_repeats_is_computed_once() -> None:
    """Functions of a repeated vector are of its extent, however it is turned, cut and put together afterwards."""

    def function(v: Any, x: Any) -> Any:
        wide = (v.view(1, 1, 6).expand(4, 5, 6) * 2 + 1).exp()
        turned = wide.permute(2, 0, 1)[1:5].reshape(4, 20)
        return x + torch.cat([turned.sin(), turned.cos()])

    graph = compiled(function, (torch.randn(6), torch.randn(8, 20)))
    rows = [op for f in graph.to_dict()["functions"] for op in f["ops"] if op["kind"] == "elementwise"]
    sizes = [int(np.prod(op["results"][0]["shape"])) for op in rows]
    assert sorted(sizes)[-1] == 160 and all(size <= 8 for size in sorted(sizes)[:-1])


FIGURES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], float]] = {
    "grid_sample": (
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        (torch.randn(8, 32, 40, 40), torch.rand(8, 1, 1200, 2) * 2.2 - 1.1),
        10,
    ),
    "grid_sample, rows of points": (
        lambda x, g: F.grid_sample(x, g, padding_mode="reflection", align_corners=True),
        (torch.randn(8, 32, 40, 40), torch.rand(8, 30, 40, 2) * 2.2 - 1.1),
        10,
    ),
    "grid_sample, bicubic": (
        lambda x, g: F.grid_sample(x, g, mode="bicubic", align_corners=False),
        (torch.randn(8, 32, 40, 40), torch.rand(8, 1, 1200, 2) * 2.2 - 1.1),
        12,
    ),
    "interpolation, bilinear": (
        lambda x: F.interpolate(x, size=(37, 45), mode="bilinear"),
        (torch.randn(2, 32, 28, 28),),
        8,
    ),
    "deformable attention": (
        lambda x, at, w: (F.grid_sample(x, at, align_corners=False) * w[:, None]).sum(-1),
        (torch.randn(8, 32, 40, 40), torch.rand(8, 300, 4, 2) * 2.2 - 1.1, torch.rand(8, 300, 4)),
        10,
    ),
    "embedding bag": (
        lambda w, i: F.embedding(i, w).sum(1),
        (torch.randn(1000, 64), torch.randint(0, 1000, (256, 20))),
        8,
    ),
    "take along an axis": (
        lambda x, i: torch.gather(x, 1, i[:, :, None].expand(-1, -1, 64)),
        (torch.randn(8, 512, 64), torch.randint(0, 512, (8, 300))),
        2,
    ),
    "patches": (lambda x: F.unfold(x, 4, stride=4), (torch.randn(2, 64, 56, 56),), 2),
    "patches back": (lambda x: F.fold(x, (56, 56), 4, stride=4), (torch.randn(2, 64 * 16, 196),), 2),
    "unfold": (lambda x: F.unfold(x, 3, padding=1), (torch.randn(2, 32, 28, 28),), 2),
    "unfold, strides": (lambda x: F.unfold(x, 3, stride=2, padding=1), (torch.randn(4, 32, 56, 56),), 2),
    "fold": (lambda x: F.fold(x, (28, 28), 3, padding=1), (torch.randn(2, 32 * 9, 784),), 2),
    "rows added": (
        lambda x, i, u: torch.index_add(x, 0, i, u),
        (torch.randn(1000, 64), torch.randint(0, 1000, (500,)), torch.randn(500, 64)),
        6,
    ),
    "pixel shuffle": (lambda x: F.pixel_shuffle(x, 2), (torch.randn(2, 64, 28, 28),), 2),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "grid_sample")) for name in FIGURES]
)
def test_time_over_the_bound(name: str) -> None:
    function, args, most = FIGURES[name]
    graph = equal(Applied(function), args, bound=1e-4)
    assert max(ratio(graph, machine) for machine in ("edge-8", "tpu-v3")) <= most
