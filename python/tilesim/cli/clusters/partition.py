"""`tilesim cluster partition`: shards a program over devices and lists its collectives."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ...base.arguments import unused
from ...base.errors import shown, user_error
from ...base.files import read_json
from ..load import load_graph, write
from ..options import Quiet
from ..screen import say

WHOLE, SEVERAL = "-", "+"  # an axis that is not sharded; separator of mesh axes


def partition(
    file: Annotated[str, typer.Argument(help="A graph, a StableHLO module, or a file of `Spmd.save`.")],
    mesh: Annotated[str | None, typer.Option(help="Mesh of named axes: d=4,t=2; default: the graph's own.")] = None,
    shardings: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=d,-,t+u: mesh axes that shard each axis of a value, - for none; or a JSON file of "
            'the form {"NAME": ["d", null, ["t", "u"]]}. Repeatable.'
        ),
    ] = None,
    by: Annotated[str, typer.Option(help="Partitioner: own, shardy or xla.")] = "own",
    *,
    out: Quiet,
) -> None:
    from ...cluster.partition import partition as divided
    from ...cluster.spmd import Spmd

    if file.endswith(".spmd.json"):
        given = {"mesh": (mesh, None), "shardings": (shardings or None, None), "by": (by, "own")}
        unused("the option does not apply to a partitioned program", "a graph", **given)
        spmd = Spmd.load(file)
    else:
        spmd = divided(load_graph(file), mesh, _shardings(shardings or []), by)
    rows = spmd.collectives()
    if out.json is not None:
        data = {"name": spmd.name, "devices": spmd.devices, "collectives": rows.rows, "records": spmd.records}
        write(data, out.json)
    if not out.silent:
        say([f"{spmd.name}: {spmd.devices} devices", *([] if out.quiet else str(rows).splitlines())])


def _shardings(texts: list[str]) -> dict[str, Any]:
    """Parses shardings by tensor name into the form that `ts.partition` expects."""
    found: dict[str, Any] = {}
    for text in texts:
        if text.endswith(".json"):
            rows = read_json(text)
            if not isinstance(rows, dict):
                raise user_error(
                    "not a dict of shardings", place=text, value=shown(rows), allowed='{"NAME": ["d", null]}'
                )
        else:
            name, equal, axes = text.partition("=")
            if not equal or not name:
                raise user_error("not a sharding", place="--shardings", value=shown(text),
                                 allowed="NAME=d,-,t+u, a JSON file")  # fmt: skip
            rows = {name: axes if axes.startswith("[") else tuple(map(_axis, axes.split(",")))}
        for name, value in rows.items():
            if name in found:
                raise user_error("a value has two shardings", place="--shardings", value=shown(name), allowed="one")
            found[name] = value
    return found


def _axis(text: str) -> Any:
    text = text.strip()
    return None if text in (WHOLE, "") else tuple(part.strip() for part in text.split(SEVERAL))
