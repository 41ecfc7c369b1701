"""Sharded programs of JAX on 8 virtual devices: their modules before and after XLA's partitioner, inputs and outputs.

Run as a script in a process of its own, since the number of devices is fixed when JAX starts: DIRECTORY.
"""

import glob
import json
import os
import pathlib
import sys

import numpy as np

GSPMD = ("tensor", "fsdp", "psum", "experts", "ring", "partly")  # written by the older partitioner too


def programs(jax, jnp, mesh, P, shard_map):
    """Name: (function, argument shapes, argument shardings or None, output sharding or None)."""
    lax = jax.lax

    def mapped(function, inside, outside, **options):
        return shard_map(function, mesh=mesh, in_specs=inside, out_specs=outside, **options)

    def constrained(x, *spec):
        return lax.with_sharding_constraint(x, jax.sharding.NamedSharding(mesh, P(*spec)))

    def layer(x, w, v):
        return jax.nn.relu(x @ w) @ v

    def loss(w, v, x):
        return (layer(x, w, v) ** 2).sum()

    def gradients(w, v, x):
        return jax.grad(loss, argnums=(0, 1))(w, v, x)

    def sequence(x, w, v):
        h = constrained(x, "x", "y", None)
        h = constrained(h, "x", None, None) @ w
        return constrained(jax.nn.gelu(h) @ v, "x", "y", None)

    def ring(x):
        def step(i, state):
            total, moving = state
            return total + moving * (i + 1), lax.ppermute(moving, "y", [(j, (j + 1) % 4) for j in range(4)])

        return lax.fori_loop(0, 4, step, (jnp.zeros_like(x), x))[0]

    def chosen(x):
        total = lax.psum(x.sum(), ("x", "y"))
        return lax.cond(total > 0, lambda v: lax.pmax(v, "y"), lambda v: lax.pmin(v, "y"), x)

    def experts(x, w):
        sent = lax.all_to_all(x, "y", 0, 0, tiled=True)
        return lax.all_to_all(jnp.tanh(sent @ w[0]), "y", 0, 0, tiled=True)

    def own(x):
        return x + lax.axis_index("x").astype(x.dtype) * 10 + lax.axis_index("y").astype(x.dtype)

    def halo(x):
        left = lax.ppermute(x[-1:], "y", [(j, j + 1) for j in range(3)])
        return x + jnp.concatenate([left, x[:-1]])

    return {
        "tensor": (layer, [(8, 16), (16, 32), (32, 16)], [P("x"), P(None, "y"), P("y", None)], P("x", None)),
        "data": (gradients, [(16, 8), (8, 4), (32, 16)], [P(), P(), P(("x", "y"))], (P(), P())),
        "fsdp": (gradients, [(16, 8), (8, 16), (32, 16)], [P("y"), P("y"), P(("x", "y"))], (P("y"), P("y"))),
        "sequence": (sequence, [(4, 8, 16), (16, 32), (32, 16)], [P("x"), P(None, "y"), P("y")], None),
        "psum": (mapped(lambda x: lax.psum(x, "y"), P("x", "y"), P("x")), [(8, 16)], None, None),
        "index": (mapped(own, P("x", "y"), P("x", "y")), [(8, 16)], None, None),
        "gather": (
            mapped(lambda x: lax.all_gather(x, "y", axis=1, tiled=True), P("x", "y"), P("x"), check_vma=False),
            [(8, 16)],
            None,
            None,
        ),
        "scatter": (
            mapped(lambda x: lax.psum_scatter(x, "y", scatter_dimension=1, tiled=True), P("x"), P("x", "y")),
            [(8, 16)],
            None,
            None,
        ),
        "experts": (mapped(experts, (P("y"), P("y")), P("y")), [(64, 8), (4, 8, 8)], None, None),
        "ring": (mapped(ring, P("x", "y"), P("x", "y")), [(8, 16)], None, None),
        "branch": (mapped(chosen, P("x", "y"), P("x", None), check_vma=False), [(8, 16)], None, None),
        "halo": (mapped(halo, P("y"), P("y")), [(16, 4)], None, None),
        "both": (mapped(lambda x: x * 2 + lax.psum(x, "x"), P(("x", "y")), P(("x", "y"))), [(32, 4)], None, None),
        "partly": (
            mapped(lambda x: lax.psum(jnp.tanh(x), "x"), P("x"), P(), axis_names={"x"}),
            [(8, 16)],
            [P("x", "y")],
            None,
        ),
        "free": (
            mapped(lambda x, w: lax.psum(jnp.tanh(x) @ w, "x"), (P(None, "x"), P("x")), P(), axis_names={"x"}),
            [(8, 16), (16, 32)],
            [P("y", "x"), P("x", None)],
            P("y", None),
        ),
    }


def partitioned_text(folder):
    """The module that XLA's partitioner has left in a folder, as text: bytecode takes a process to be read."""
    from jax.interpreters import mlir
    from jaxlib import _hlo, _jax
    from jaxlib.mlir import ir

    from tilesim.cluster.partitioners.xla_child import AXES, listed

    (found,) = glob.glob(os.path.join(folder, "*after_spmd-partitioning*"))
    parsed = _hlo.hlo_module_from_text(AXES.sub(listed, pathlib.Path(found).read_text()))
    made = _jax.mlir.hlo_to_stablehlo(parsed.as_serialized_hlo_module_proto())
    with mlir.make_ir_context(), ir.Location.unknown():
        return ir.Module.parse(made).operation.get_asm(large_elements_limit=None)


def write(jax, directory, name, jitted, arguments):
    """A program's modules, inputs and outputs."""
    lowered = jitted.lower(*arguments)
    folder = os.path.join(directory, name)
    os.makedirs(folder)
    pathlib.Path(folder, "module.mlir").write_text(lowered.as_text())
    compiled = lowered.compile({"xla_dump_to": folder, "xla_dump_hlo_pass_re": "spmd-partitioning"})
    pathlib.Path(folder, "partitioned.mlir").write_text(partitioned_text(folder))
    outputs = jax.tree.leaves(compiled(*jax.device_put(tuple(arguments), compiled.input_shardings[0])))
    places = []
    for output in outputs:
        indices = output.sharding.devices_indices_map(output.shape)
        row = [
            [[s.start or 0, s.stop or n] for s, n in zip(indices[d], output.shape, strict=True)] for d in jax.devices()
        ]
        places.append(row)
    np.savez(os.path.join(folder, "inputs.npz"), *arguments)
    np.savez(os.path.join(folder, "outputs.npz"), *[np.asarray(output) for output in outputs])
    pathlib.Path(folder, "places.json").write_text(json.dumps(places))


def main(directory):
    """Writes all programs, with Shardy and with GSPMD."""
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    from jax import shard_map
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))
    rng = np.random.default_rng(0)

    def placed(specs):
        if isinstance(specs, PartitionSpec):
            return NamedSharding(mesh, specs)
        return None if specs is None else type(specs)(placed(spec) for spec in specs)

    for shardy in (True, False):
        jax.config.update("jax_use_shardy_partitioner", shardy)
        jax.clear_caches()
        for name, (function, shapes, inside, outside) in programs(jax, jnp, mesh, PartitionSpec, shard_map).items():
            arguments = [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
            if not shardy and name not in GSPMD:
                continue
            options = {}
            if inside is not None:
                options["in_shardings"] = tuple(placed(inside))
            if outside is not None:
                options["out_shardings"] = placed(outside)
            write(jax, directory, f"{name}.{'shardy' if shardy else 'gspmd'}", jax.jit(function, **options), arguments)
    text = {}
    for spec in (
        PartitionSpec("x"),
        PartitionSpec(None, "y"),
        PartitionSpec("y", "x"),
        PartitionSpec(("y", "x"), None),
    ):
        sharding = NamedSharding(mesh, spec)
        indices = sharding.devices_indices_map((8, 8))
        string = str(sharding._to_xla_hlo_sharding(2))
        text[string] = [[[s.start or 0, s.stop or 8] for s in indices[device]] for device in jax.devices()]
    pathlib.Path(directory, "strings.json").write_text(json.dumps(text))


if __name__ == "__main__":
    main(sys.argv[1])
