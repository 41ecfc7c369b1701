"""Writes the programs of the corpus: module, XLA's partition of it, Shardy's shardings, inputs and outputs.

Run as a script in a process of its own, since the number of devices is fixed when JAX starts: DIRECTORY [NAME ..].
"""

import importlib
import os
import pathlib
import sys

import corpus
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from jax_programs import partitioned_text
from jax_shardings import said

jax = corpus.jax
GROUPS = ("layers", "places", "images", "moves", "loops")


def placed(spec, mesh):
    if isinstance(spec, corpus.P):
        return corpus.NamedSharding(mesh, spec)
    return None if spec is None else tuple(placed(part, mesh) for part in spec)


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
    after_shardy(text, folder / "shardy.mlir")
    compiled = lowered.compile({"xla_dump_to": str(folder), "xla_dump_hlo_pass_re": "spmd-partitioning",
                                "xla_dump_large_constants": True})  # fmt: skip
    (folder / "partitioned.mlir").write_text(partitioned_text(folder))
    if together:
        found = compiled(*jax.device_put(tuple(arguments), compiled.input_shardings[0]))
    else:
        corpus.constraining[0] = False
        found = jax.jit(lambda *given: function(*given))(*arguments)
        corpus.constraining[0] = True
    np.savez(folder / "inputs.npz", *arguments)
    np.savez(folder / "outputs.npz", *[np.asarray(output) for output in jax.tree.leaves(found)])


def main(directory, *names):
    """Writes the named programs, or all."""
    for group in GROUPS:
        importlib.import_module(group)
    for place, name in enumerate(corpus.PROGRAMS):
        rng = np.random.default_rng(place)
        arguments = [(rng.integers(-12, 13, shape) / 4).astype(np.float32) for shape in corpus.PROGRAMS[name][1]]
        if not names or name in names:
            write(pathlib.Path(directory, name), name, arguments)


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    main(*sys.argv[1:])
