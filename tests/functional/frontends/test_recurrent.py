"""Recurrent layers of torch: counted loops, whose size does not grow with the sequence."""

import numpy as np
import pytest

import tilesim as ts

torch = pytest.importorskip("torch", reason="needs torch: pip install 'tilesim[torch]'")

KINDS = (("LSTM", {}), ("LSTM", {"proj_size": 2}), ("GRU", {}), ("RNN", {}), ("RNN", {"nonlinearity": "relu"}))
#: bidirectional, batch_first, bias, layers
WAYS = ((False, False, True, 1), (True, False, False, 1), (False, True, True, 2), (True, True, True, 2))


def layer(kind, more, way):
    bidirectional, batch_first, bias, layers = way
    torch.manual_seed(0)
    return getattr(torch.nn, kind)(
        5, 4, layers, bias=bias, batch_first=batch_first, bidirectional=bidirectional, **more
    ).eval()


def outputs(module, *args):
    with torch.no_grad():
        return [leaf.numpy() for leaf in torch.utils._pytree.tree_leaves(module(*args))]


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(("kind", "more"), KINDS, ids=lambda x: x if isinstance(x, str) else "".join(x))
def test_layers_equal_torch(kind, more):
    """Results and last states, by the reference and tile by tile, with and without initial states."""
    first = [kind for kind, _ in KINDS].index(kind) + len(more)  # which ways: others for the next kind
    for i, (steps, started) in enumerate(((3, True), (1, False), (3, False))):
        way = WAYS[(first + i) % len(WAYS)]
        module = layer(kind, more, way)
        args = [torch.randn(3, 2, 5)[:, :steps] if way[1] else torch.randn(steps, 2, 5)]
        if started:
            states = [torch.randn_like(x) for x in torch.utils._pytree.tree_leaves(module(*args)[1])]
            args.append(tuple(states) if kind == "LSTM" else states[0])
        graph = ts.from_torch(module, tuple(args))
        leaves = [leaf.numpy() for leaf in torch.utils._pytree.tree_leaves(args)]
        given = dict(zip([row["name"] for row in graph.inputs], leaves, strict=True))
        wanted = outputs(module, *args)
        tiled = ts.execute(ts.compile(graph, "edge-8"), given, numerics="exact")
        for got in (ts.reference(graph, given), tiled):
            for mine, theirs in zip(got.values(), wanted, strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_graphs_do_not_grow_with_the_sequence():
    """One body, however many steps; each is simulated."""
    sizes, cycles = set(), []
    for steps in (8, 64):
        graph = ts.from_torch(layer("LSTM", {}, (True, False, True, 1)), (torch.zeros(steps, 2, 5),))
        sizes.add(sum(len(graph.operations(function)) for function in graph.functions))
        cycles.append(ts.simulate(ts.compile(graph, "edge-8")).cycles)
    assert len(sizes) == 1
    assert 5 < cycles[1] / cycles[0] < 9


def test_dropout_between_layers_is_an_error():
    module = torch.nn.GRU(4, 4, 2, dropout=0.5)  # in training mode
    with pytest.raises(ts.Unsupported, match=r"Call module\.eval"):
        ts.from_torch(module, (torch.zeros(3, 2, 4),))
