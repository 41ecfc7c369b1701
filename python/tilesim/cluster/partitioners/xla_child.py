# mypy: ignore-errors
"""Compiles a module for several virtual devices and writes the program of XLA's partitioner. Runs in a separate process
(FOLDER DEVICES) without Tilesim, and uses jax's public interfaces if they exist."""

import glob
import itertools
import json
import os
import pathlib
import re
import sys

import jax
import numpy as np
from jax.extend import backend
from jax.extend.mlir import hlo_to_stablehlo
from jax.extend.sharding import get_hlo_sharding_from_serialized_proto
from jax.interpreters import mlir
from jaxlib import _hlo  # jaxlib has no public name for the reader of HLO text
from jaxlib.mlir import ir

# The converter from HLO loses the order of groups along mesh axes, so the groups first become lists.
AXES = re.compile(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))? \{([^}]*)\}")
NAME = "tilesim_mesh"


def listed(found):
    """Converts groups along mesh axes or sub-axes ("'x':(2)4") to lists of devices."""
    names = re.findall(r"'([^']+)'=", found[1])
    sizes = [int(size) for size in re.findall(r"=(\d+)", found[1])]
    order = np.arange(np.prod(sizes))
    if found[2]:
        order = order.reshape([int(dim) for dim in found[2].split(",")])
        order = order.transpose([int(dim) for dim in found[3].split(",")] if found[3] else None)
    chosen = [(names.index(name), int(before or 1), int(size or 0))
              for name, before, size in re.findall(r"'([^']+)'(?::\((\d+)\)(\d+))?", found[4])]  # fmt: skip
    cut = []  # parts of each mesh axis, major first: (axis, product of the earlier parts, size)
    for axis, extent in enumerate(sizes):
        ends = sorted({1, extent, *(end for one, before, size in chosen if one == axis and size
                                    for end in (before, before * size))})  # fmt: skip
        cut += [(axis, low, high // low) for low, high in itertools.pairwise(ends)]
    picked = [[place for place, (one, low, _) in enumerate(cut)
               if one == axis and before <= low < before * (size or sizes[axis])]
              for axis, before, size in chosen]  # fmt: skip
    inside = [place for places in picked for place in places]
    rest = [place for place in range(len(cut)) if place not in inside]
    extents = [size for _, _, size in cut]
    rows = (
        order.reshape(extents)
        .transpose(rest + inside)
        .reshape(-1, np.prod([extents[place] for place in inside], dtype=int))
    )
    return "replica_groups={" + ",".join("{" + ",".join(map(str, row)) + "}" for row in rows) + "}"


def named_mesh(module, mesh, changed):
    """Returns the symbol of the mesh in a module, and adds a missing mesh."""
    wanted = ir.Attribute.parse(f"#sdy.mesh<{mesh}>")
    own = [op for op in module.body.operations if op.operation.name == "sdy.mesh"]
    for op in own:
        if op.attributes["mesh"] == wanted:
            return op.attributes["sym_name"].value
    if own and changed:
        if len(own) > 1:
            sys.exit("the module has several meshes; mesh= is ambiguous")
        own[0].attributes["mesh"] = wanted
        return own[0].attributes["sym_name"].value
    named = {"sym_name": ir.StringAttr.get(NAME), "mesh": wanted}
    ir.Operation.create("sdy.mesh", attributes=named, ip=ir.InsertionPoint.at_block_begin(module.body))
    return NAME


def entry(module):
    """Returns the entry function."""
    return next(op for op in module.body.operations if op.operation.name == "func.func"
                and op.attributes["sym_name"].value == "main")  # fmt: skip


def annotated(module, given):
    """Writes shardings as attributes of the arguments and results of the entry function."""
    key, prefix = "mhlo.sharding", ""
    if given["mesh"]:
        key, prefix = "sdy.sharding", f"#sdy.sharding<@{named_mesh(module, given['mesh'], given['changed'])}, "
    main = entry(module)
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    for place, texts, number in (("arg_attrs", given["inputs"], len(kind.inputs)),
                                 ("res_attrs", given["outputs"], len(kind.results))):  # fmt: skip
        own = list(main.attributes[place]) if place in main.attributes else [ir.DictAttr.get({})] * number
        for index, text in texts.items():
            kept = {one.name: one.attr for one in ir.DictAttr(own[int(index)]) if one.name != key}
            if text:
                kept[key] = ir.Attribute.parse(f"{prefix}{text}>") if prefix else ir.StringAttr.get(text)
            own[int(index)] = ir.DictAttr.get(kept)
        if number:
            main.attributes[place] = ir.ArrayAttr.get(own)


def free(module):
    """Removes the shardings of the entry function's results, so that XLA selects them, as under jax.jit."""
    main = entry(module)
    number = len(ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results)
    own = main.attributes["res_attrs"] if "res_attrs" in main.attributes else [ir.DictAttr.get({})] * number
    return [not any(one.name in ("mhlo.sharding", "sdy.sharding") for one in ir.DictAttr(each)) for each in own]


def as_text(shardings):
    """Converts shardings to XLA's syntax."""
    return [str(get_hlo_sharding_from_serialized_proto(one.SerializeToString())) for one in shardings or []]


def main(folder, devices):
    """Compiles the module, and writes `partitioned` and `borders.json` to the folder."""
    given = json.loads(pathlib.Path(folder, "given.json").read_text())
    with mlir.make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(pathlib.Path(folder, "module").read_bytes())
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), devices)
        module.operation.attributes["mhlo.num_partitions"] = number
        if given["inputs"] or given["outputs"] or given["changed"]:
            annotated(module, given)
        open_results = free(module)
        text = module.operation.get_asm(large_elements_limit=None)
    options = backend.get_compile_options(1, devices, np.arange(devices).reshape(1, devices))
    options.executable_build_options.use_spmd_partitioning = True
    options.executable_build_options.use_shardy_partitioner = "sdy." in text
    if open_results:
        options.executable_build_options.allow_spmd_sharding_propagation_to_output = open_results
    made = backend.get_backend().compile_and_load(text.encode(), tuple(jax.devices()), options)
    borders = {"inputs": as_text(made.get_parameter_shardings()), "outputs": as_text(made.get_output_shardings())}
    (dumped,) = glob.glob(os.path.join(folder, "*after_spmd-partitioning*.txt"))
    parsed = _hlo.hlo_module_from_text(AXES.sub(listed, pathlib.Path(dumped).read_text()))
    pathlib.Path(folder, "partitioned").write_bytes(hlo_to_stablehlo(parsed.as_serialized_hlo_module_proto()))
    pathlib.Path(folder, "borders.json").write_text(json.dumps(borders))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
