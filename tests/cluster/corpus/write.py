"""Writes the programs of the corpus: module, XLA's partition of it, Shardy's shardings, inputs and outputs.

Run as a script in a process of its own, since the number of devices is fixed when JAX starts: DIRECTORY [NAME ..].
NAME.gspmd is the program as the older partitioner has it, without Shardy.
"""

import glob
import importlib
import json
import os
import pathlib
import sys

import corpus
import numpy as np

jax = corpus.jax
GROUPS = ("layers", "places", "images", "moves", "loops")


def placed(spec, mesh):
    if isinstance(spec, corpus.P):
        return corpus.NamedSharding(mesh, spec)
    return None if spec is None else tuple(placed(part, mesh) for part in spec)


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


def places(sharding, shape):
    """Begin and end of each device's part along every axis."""
    indices = sharding.devices_indices_map(shape)
    return [[[s.start or 0, s.stop or n] for s, n in zip(indices[d], shape, strict=True)] for d in jax.devices()]


def after_shardy(text, path):
    """The module with the shardings that Shardy gives its values."""
    from jax.interpreters import mlir
    from jaxlib.mlir import ir, passmanager

    with mlir.make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse("builtin.module(sdy-propagation-pipeline)").run(module.operation)
        for function in module.body.operations:
            if function.operation.name == "func.func":
                said(ir, function.operation.regions[0])
        path.write_text(str(module))


def write(folder, name, arguments):
    """All files of one program."""
    function, _, inside, outside, mesh, together = corpus.PROGRAMS[name]
    options = {"in_shardings": placed(inside, mesh), "keep_unused": True}
    if outside is not None:
        options["out_shardings"] = placed(outside, mesh)
    lowered = jax.jit(function, **options).lower(*arguments)
    folder.mkdir()
    text = lowered.as_text()
    (folder / "module.mlir").write_text(text)
    if not folder.suffix:
        after_shardy(text, folder / "shardy.mlir")
    compiled = lowered.compile({"xla_dump_to": str(folder), "xla_dump_hlo_pass_re": "spmd-partitioning",
                                "xla_dump_large_constants": True})  # fmt: skip
    (folder / "partitioned.mlir").write_text(partitioned_text(folder))
    shardings = jax.tree.leaves(compiled.output_shardings)
    if together:
        found = compiled(*jax.device_put(tuple(arguments), compiled.input_shardings[0]))
    else:
        corpus.constraining[0] = False
        found = jax.jit(lambda *given: function(*given))(*arguments)
        corpus.constraining[0] = True
    parts = [places(one, output.shape) for one, output in zip(shardings, jax.tree.leaves(found), strict=True)]
    (folder / "places.json").write_text(json.dumps(parts))
    np.savez(folder / "inputs.npz", *arguments)
    np.savez(folder / "outputs.npz", *[np.asarray(output) for output in jax.tree.leaves(found)])


def main(directory, *names):
    """Writes the named programs, or all; what GSPMD calls some shardings of an 8 x 8 tensor, with their parts."""
    for group in GROUPS:
        importlib.import_module(group)
    for shardy in (True, False):
        jax.config.update("jax_use_shardy_partitioner", shardy)
        jax.clear_caches()
        for place, name in enumerate(corpus.PROGRAMS):
            rng, folder = np.random.default_rng(place), name if shardy else f"{name}.gspmd"
            if folder in names or (shardy and not names):
                arguments = [
                    (rng.integers(-12, 13, shape) / 4).astype(np.float32) for shape in corpus.PROGRAMS[name][1]
                ]
                write(pathlib.Path(directory, folder), name, arguments)
    P, text = corpus.P, {}
    for spec in (P("x"), P(None, "y"), P("y", "x"), P(("y", "x"), None)):
        sharding = corpus.NamedSharding(corpus.plane, spec)
        text[str(sharding._to_xla_hlo_sharding(2))] = places(sharding, (8, 8))
    pathlib.Path(directory, "strings.json").write_text(json.dumps(text))


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    main(*sys.argv[1:])
