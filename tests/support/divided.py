"""What programs of several devices are compared by: bytes that they send, shardings of values, outputs."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import tilesim as ts
from tilesim.cluster.partition import spread_shardings

SCRIPT = Path(__file__).resolve().parents[1] / "cluster" / "corpus" / "write.py"


def written(directory, chosen):
    """Runs the script that writes programs of the corpus, all in one process."""
    command = [sys.executable, str(SCRIPT), str(directory), *chosen]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return Path(directory)


def sent(spmd):
    """Bytes that a device sends."""
    return sum(row["count"] * row["wire_bytes"] for row in spmd.collectives())


def arrays(path):
    """Arrays of an .npz in their order."""
    with np.load(path) as data:
        return list(data.values())


def values(graph):
    """Kind and shape of each value by name."""
    found = {row["name"]: ("input", tuple(row["shape"])) for row in graph.inputs}
    for function in graph.functions:
        prefix = "" if function == graph.functions[0] else f"{function}:"
        for entry in graph.core.operations(function):
            found |= {prefix + row["name"]: (entry["kind"], tuple(row["shape"])) for row in entry["results"]}
    return found


def plain(text):
    """Only what divides: open axes and named replicas aside."""
    return re.sub(r"(, )?\?", "", re.sub(r", (replicated|unreduced)=\{[^}]*\}", "", text))


def differing(module, shardy):
    """Values that our propagation and Shardy's own both know: their number, and those that differ."""
    graph, theirs = (ts.from_stablehlo(path, passes="none") for path in (module, shardy))
    wanted, own = theirs.shardings, spread_shardings(graph)
    known, meant = values(graph), values(theirs)
    # constants are copied to whoever reads them by Shardy, and have no place of their own
    names = [
        value for value, (kind, shape) in known.items()
        if shape and kind != "constant" and value in own and meant.get(value) == (kind, shape)
        and (value in wanted or kind == "input")
    ]  # fmt: skip
    whole = {value: f"[{', '.join('{}' for _ in known[value][1])}]" for value in names}
    pairs = [(value, plain(own[value]), plain(wanted.get(value, whole[value]))) for value in names]
    return len(names), [pair for pair in pairs if pair[1] != pair[2]]
