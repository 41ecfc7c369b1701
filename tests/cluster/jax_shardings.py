"""Programs of JAX with shardings, before and after Shardy's propagation. Script, in a process of its own: DIRECTORY."""

import os
import pathlib
import sys


def programs(jax, jnp, P, constrained):
    """Name: (function, argument shapes, argument shardings (None: open), output shardings or None)."""
    lax = jax.lax

    def mlp(x, w, v):
        return jnp.tanh(x @ w) @ v

    def loss(w, v, x):
        return (mlp(x, w, v) ** 2).sum()

    def gradients(w, v, x):
        return jax.grad(loss, argnums=(0, 1))(w, v, x)

    def sequence(x, w, v):
        h = constrained(x, "x", "y", None)
        h = constrained(h, "x", None, None) @ w
        return constrained(jnp.tanh(h) @ v, "x", "y", None)

    def experts(x, up, down):
        return jnp.einsum("ecf,efd->ecd", jnp.tanh(jnp.einsum("ecd,edf->ecf", x, up)), down)

    def routed(x, chosen, up):
        sent = constrained(jnp.einsum("td,te->etd", x, chosen), "y", None, None)
        return jnp.einsum("etf,te->tf", jnp.einsum("etd,edf->etf", sent, up), chosen)

    def softmax(s):
        e = jnp.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def heads(x, q, k, v, o):
        def split(w):
            return (x @ w).reshape(x.shape[0], x.shape[1], 8, 4)

        scores = softmax(jnp.einsum("bshd,bthd->bhst", split(q), split(k)))
        return jnp.einsum("bhst,bthd->bshd", scores, split(v)).reshape(x.shape) @ o

    def vocabulary(ids, table, w):
        return lax.gather(
            table, ids.astype(jnp.int32)[..., None],
            lax.GatherDimensionNumbers(offset_dims=(2,), collapsed_slice_dims=(0,), start_index_map=(0,)),
            slice_sizes=(1, table.shape[1]), mode="clip",
        ) @ w  # fmt: skip

    def head(x, table, chosen):
        s = x @ table.T
        s = s - s.max(-1, keepdims=True)
        return ((jnp.log(jnp.exp(s).sum(-1, keepdims=True)) - s) * chosen).sum()

    def cache(q, k, v, new_k, new_v):
        k = lax.dynamic_update_slice(k, new_k, (0, 0, 5, 0))
        v = lax.dynamic_update_slice(v, new_v, (0, 0, 5, 0))
        return jnp.einsum("bhst,bhtd->bhsd", softmax(jnp.einsum("bhsd,bhtd->bhst", q, k)), v), k, v

    def ring(q, k, v):
        """Attention block by block of the keys."""

        def step(i, state):
            top, below = state
            block = lax.dynamic_slice_in_dim(k, i * 4, 4, 1), lax.dynamic_slice_in_dim(v, i * 4, 4, 1)
            e = jnp.exp(jnp.einsum("bsd,btd->bst", q, block[0]))
            return top + jnp.einsum("bst,btd->bsd", e, block[1]), below + e.sum(-1, keepdims=True)

        top, below = lax.fori_loop(0, 4, step, (jnp.zeros_like(q), jnp.zeros_like(q[..., :1])))
        return top / below

    def layers(x, w):
        return lax.scan(lambda h, own: (jnp.tanh(h @ own), None), x, w)[0]

    def chosen(x, w):
        return lax.cond(x.sum() > 0, lambda a: jnp.tanh(a @ w), lambda a: a * 2, x)

    def conv(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), [(1, 1), (1, 1)])

    def pooled(x, w):
        return lax.reduce_window(jnp.tanh(conv(x, w)), -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def conv_gradient(x, w):
        return jax.grad(lambda w: (jnp.tanh(conv(x, w)) ** 2).sum())(w)

    def differences(x):
        return lax.pad(x[:, 1:] - x[:, :-1], 0.0, [(0, 0, 0), (1, 0, 0)]) * x

    def norm(x, g, w):
        m = x.mean(-1, keepdims=True)
        return ((x - m) * lax.rsqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5) * g) @ w

    def merged(x, w):
        return jnp.tanh(x.reshape(-1, x.shape[-1]) @ w).reshape(*x.shape[:-1], -1)

    def moved(x, y):
        return jnp.concatenate([x.T, y], axis=1) * jnp.arange(16.0)[:, None]

    def ordered(x):
        return jnp.cumsum(lax.sort(x, dimension=1), axis=1) + x.argmax(axis=1).astype(x.dtype)[:, None]

    weights = [(16, 32), (32, 16)]
    plane = [(4, 8, 16, 16), (8, 8, 3, 3)]
    return {
        "tensor": (mlp, [(8, 16), *weights], [P("x"), P(None, "y"), P("y", None)], None),
        "tensor_gradients": (gradients, [*weights, (8, 16)], [P(None, "y"), P("y"), P("x")], None),
        "fsdp": (gradients, [*weights, (64, 16)], [P("y"), P("y"), P(("x", "y"))], (P("y"), P("y"))),
        "data": (gradients, [*weights, (64, 16)], [P(), P(), P(("x", "y"))], None),
        "sequence": (sequence, [(4, 8, 16), *weights], [P("x"), P(None, "y"), P("y")], None),
        "experts": (experts, [(8, 4, 16), (8, 16, 32), (8, 32, 16)], [None, P("y", None, "x"), None], None),
        "routed": (routed, [(16, 8), (16, 4), (4, 8, 32)], [P("x"), None, P("y")], P("x", None)),
        "heads": (
            heads,
            [(4, 8, 32), *[(32, 32)] * 4],
            [P("x"), P(None, "y"), P(None, "y"), P(None, "y"), P("y", None)],
            P("x", None, None),
        ),
        "vocabulary": (vocabulary, [(4, 8), (32, 16), (16, 8)], [P("x"), P("y"), None], None),
        "width": (vocabulary, [(4, 8), (32, 16), (16, 8)], [P("x"), P(None, "y"), P("y")], None),
        "head": (head, [(16, 16), (32, 16), (16, 32)], [P("x"), P("y"), None], P()),
        "cache": (
            cache,
            [(4, 8, 1, 16), (4, 8, 32, 16), (4, 8, 32, 16), (4, 8, 1, 16), (4, 8, 1, 16)],
            [None, P("x", "y"), P("x", "y"), None, None],
            None,
        ),
        "ring": (ring, [(4, 16, 8)] * 3, [P("x", "y")] * 3, None),
        "layers": (layers, [(8, 16), (3, 16, 16)], [P("x"), P(None, None, "y")], None),
        "chosen": (chosen, [(8, 16), (16, 16)], [P("x"), P(None, "y")], None),
        "halo": (conv, plane, [P("x", None, "y"), None], None),
        "halo_channels": (conv, plane, [P("x", None, "y"), P()], P("x", None, "y")),
        "pooled": (pooled, plane, [P(None, None, "x", "y"), P()], None),
        "halo_gradient": (conv_gradient, plane, [P(None, None, "x"), P("y")], None),
        "differences": (differences, [(8, 16)], [P("x", "y")], None),
        "norm": (norm, [(8, 8, 16), (16,), (16, 32)], [P("x", "y"), P(), P()], None),
        "merged": (merged, [(4, 8, 16), (16, 32)], [P("x", "y"), None], None),
        "split": (lambda x, w: (x @ w).reshape(8, 4, 8), [(8, 16), (16, 32)], [None, P(None, ("y", "x"))], None),
        "moved": (moved, [(8, 16), (16, 4)], [P("x", "y"), None], None),
        "ordered": (ordered, [(8, 16)], [P("x", "y")], None),
    }


def said(ir, region):
    """Every result says its sharding: what Shardy left without one is whole on each device."""
    for block in region.blocks:
        for op in block.operations:
            for inner in op.operation.regions:
                said(ir, inner)
            results = op.operation.results
            if "sdy.sharding" in op.operation.attributes or not results or op.operation.name == "sdy.constant":
                continue
            whole = ", ".join(f"<@mesh, [{', '.join('{}' for _ in result.type.shape)}]>" for result in results)
            text = f"#sdy.sharding_per_value<[{whole}]>"
            op.operation.attributes["sdy.sharding"] = ir.Attribute.parse(text)


def main(directory):
    """Writes all programs."""
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.interpreters import mlir
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    from jaxlib.mlir import ir, passmanager

    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))

    def placed(specs):
        if specs is None or isinstance(specs, PartitionSpec):
            return None if specs is None else NamedSharding(mesh, specs)
        return tuple(placed(spec) for spec in specs)

    def constrained(x, *spec):
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec(*spec)))

    for name, (function, shapes, inside, outside) in programs(jax, jnp, PartitionSpec, constrained).items():
        arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
        options = {"in_shardings": placed(inside)} | ({} if outside is None else {"out_shardings": placed(outside)})
        text = jax.jit(function, **options).lower(*arguments).as_text()
        pathlib.Path(directory, f"{name}.mlir").write_text(text)
        with mlir.make_ir_context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            passmanager.PassManager.parse("builtin.module(sdy-propagation-pipeline)").run(module.operation)
            for function in module.body.operations:
                if function.operation.name == "func.func":
                    said(ir, function.operation.regions[0])
            pathlib.Path(directory, f"{name}.shardy.mlir").write_text(str(module))


if __name__ == "__main__":
    main(sys.argv[1])
