"""Layers of JAX with shardings on 8 virtual devices, as `jax_programs.py` writes them. Script: DIRECTORY."""

import os
import sys

import numpy as np
from jax_programs import write


def layers(jax, jnp, P, constrained):
    """Name: (function, argument shapes, argument shardings, output sharding)."""

    def mlp(x, w, v):
        return jax.nn.relu(x @ w) @ v

    def gradients(x, w, v):
        return jax.grad(lambda w, v: (mlp(x, w, v) ** 2).sum(), argnums=(0, 1))(w, v)

    def sequence(x, w, v):
        h = constrained(x, "x", "y", None)
        h = constrained(h, "x", None, None) @ w
        return constrained(jax.nn.relu(h) @ v, "x", "y", None)

    def heads(x, q, k, v, o):
        def split(w):
            return constrained((x @ w).reshape(x.shape[0], x.shape[1], 8, 4), "x", None, "y", None)

        scores = jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", split(q), split(k)), axis=-1)
        return jnp.einsum("bhst,bthd->bshd", scores, split(v)).reshape(x.shape) @ o

    def vocabulary(ids, table):
        return table[ids.astype(jnp.int32)]

    def head(x, table, chosen):
        return -(jax.nn.log_softmax(x @ table.T, axis=-1) * chosen).sum()

    return {
        "tensor": (mlp, [(8, 16), (16, 32), (32, 16)], [P("x"), P(None, "y"), P("y", None)], P("x", None)),
        "tensor_gradients": (
            gradients,
            [(8, 16), (16, 32), (32, 16)],
            [P("x"), P(None, "y"), P("y", None)],
            (P(None, "y"), P("y", None)),
        ),
        "fsdp": (gradients, [(64, 16), (16, 32), (32, 16)], [P(("x", "y")), P("y"), P("y")], (P("y"), P("y"))),
        "data": (gradients, [(64, 16), (16, 32), (32, 16)], [P(("x", "y")), P(), P()], (P(), P())),
        "sequence": (sequence, [(4, 8, 16), (16, 32), (32, 16)], [P("x"), P(None, "y"), P("y")], None),
        "heads": (
            heads,
            [(4, 8, 32), (32, 32), (32, 32), (32, 32), (32, 32)],
            [P("x"), P(None, "y"), P(None, "y"), P(None, "y"), P("y", None)],
            P("x", None, None),
        ),
        "vocabulary": (vocabulary, [(4, 8), (32, 16)], [P("x"), P("y")], P("x", None, None)),
        "head": (head, [(16, 16), (32, 16), (16, 32)], [P("x"), P("y"), P("x", "y")], P()),
    }


def main(directory):
    """Writes all layers."""
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))
    rng = np.random.default_rng(0)

    def placed(specs):
        if isinstance(specs, PartitionSpec):
            return NamedSharding(mesh, specs)
        return None if specs is None else tuple(placed(spec) for spec in specs)

    def constrained(x, *spec):
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec(*spec)))

    for name, (function, shapes, inside, outside) in layers(jax, jnp, PartitionSpec, constrained).items():
        arguments = [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
        options = {"in_shardings": placed(inside)} | ({} if outside is None else {"out_shardings": placed(outside)})
        write(jax, directory, name, jax.jit(function, **options), arguments)


if __name__ == "__main__":
    main(sys.argv[1])
