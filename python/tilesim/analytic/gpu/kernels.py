"""Lists the kernels that a GPU framework launches for a graph: eager torch, torch.compile, XLA.

Eager launches one kernel per operation. Both compilers call libraries for products, convolutions and attention, and
fuse elementwise operations and row reductions over the same elements: before and after a reduction, in sequence, and
in parallel over one operand. To avoid cycles, each group has a level above the groups that it reads, and a node joins
a group only if all other groups that it reads have lower levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import unknown
from .groups import KernelGroup, grouped
from .nodes import KernelNode, nodes_of

__all__ = ["COMPILERS", "ON_TPU", "Kernel", "kernels", "kernels_of"]

#: the model of each compiler, for the notes of a result
COMPILERS = {
    "eager": "eager torch: one kernel per operation, biases in the epilogues of products, copies where a library "
    "cannot read a view",
    "torch": "torch.compile (inductor): elementwise chains are fused with adjacent reductions; products, convolutions "
    "and attention are library calls with their bias",
    "xla": "XLA: each kernel recomputes the elementwise chains that it reads, where that moves fewer bytes; a kernel "
    "ends with its reductions; ReLU or tanh GELU after a product is in its epilogue",
    "serving": "a serving engine of language models: captured graphs; products of the same rows are merged, operations "
    "between two library calls are one kernel, caches are updated in place; only the last token of a prompt has logits",
}

ON_TPU = (
    "XLA on TPUs: products are fused with the loops of their operands, and with loops over their results up to "
    "reductions; each kernel recomputes the elementwise chains that it reads, where that moves fewer bytes"
)


@dataclass
class Kernel:
    """One launch of a kernel, or several launches of an operation that a framework decomposes."""

    name: str
    kind: str  # "library", "pointwise" or "reduction"
    operations: tuple[str, ...]
    launches: int = 1
    bytes: float = 0.0
    written: float = 0.0  # the part of the bytes that is written
    flops: float = 0.0  # on vector lanes; for a library call, those of its operation
    rows: float = 0.0
    call: int = -1  # index of the operation that a library call computes; -1 for other kernels
    epilogue: bool = False  # whether the library call adds a bias, with weights stored outputs by inputs
    panel: float = 0.0  # bytes of a product's smaller operand that come from memory
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    #: moved and total bytes of each tensor between kernels that a cache may hold
    passed: tuple[tuple[float, float], ...] = ()


def check_compiler(name: str) -> str:
    """Checks a compiler's name."""
    if name not in COMPILERS:
        raise unknown("compiler", name, COMPILERS)
    return name


def kernels(
    operations: Sequence[Mapping[str, Any]], outputs: Iterable[str], compiler: str, tpu: bool = False
) -> list[Kernel]:
    """Returns the kernels of a graph with inlined calls, in a valid order."""
    eager = check_compiler(compiler) == "eager"
    nodes, kept = nodes_of(operations, outputs, eager, tpu)
    groups = [KernelGroup(node, i) for i, node in enumerate(nodes)] if eager else grouped(nodes, compiler == "xla", tpu)
    if compiler == "xla":
        groups = _recompute(groups, kept, tpu)
    return kernels_of(groups, nodes, kept)


def kernels_of(groups: list[KernelGroup], nodes: Sequence[KernelNode], stored: set[str]) -> list[Kernel]:
    """Converts groups to kernels with the bytes that each reads and writes."""
    read_by = _read_by(groups)
    between = {node.writes.base for node in nodes if node.writes is not None}
    return [_kernel(group, index, read_by, stored, between) for index, group in enumerate(groups)]


def _read_by(groups: Sequence[KernelGroup]) -> dict[str, set[int]]:
    """Returns the indices of the groups that read each storage, by storage name."""
    found: dict[str, set[int]] = {}
    for index, group in enumerate(groups):
        for node in (*group.nodes, *group.again.values()):
            for view in node.reads:
                if view.base not in group.again:
                    found.setdefault(view.base, set()).add(index)
    return found


_AGAIN = 32  # most operations that one value may need recomputed


def _recompute(groups: list[KernelGroup], stored: set[str], tpu: bool) -> list[KernelGroup]:
    """Recomputes elementwise results in their readers, if the recomputation reads fewer bytes than the result has.

    On TPUs, products also recompute their operands. The saving then includes the kernel that would compute the result,
    divided among its readers.
    """
    maker = {node.writes.base: node for group in groups for node in group.nodes if node.writes is not None}
    gone: set[str] = set()
    readers = _read_by(groups)
    for group in groups:
        own = {node.writes.base for node in group.nodes if node.writes is not None}
        if group.kind == "library" and not (tpu and group.first.activates):
            continue
        read = {one.base for node in group.nodes for one in node.reads}
        for view in [view for node in group.nodes for view in node.reads]:
            node = maker.get(view.base)
            if node is None or not node.cheap or view.base in own or view.base in group.again:
                continue
            cone = _cone(node, maker, own)
            leaves = {one.base: one.base_bytes for part in cone for one in part.reads if one.base not in own}
            inner = {part.writes.base for part in cone if part.writes is not None}
            more = sum(bytes_ for base, bytes_ in leaves.items() if base not in inner and base not in read)
            saved = view.base_bytes
            if tpu and view.base not in stored:
                saved += (saved + sum(leaves.values())) / len(readers[view.base])
            if cone and more < saved:
                group.again.update({part.writes.base: part for part in cone if part.writes is not None})
                read.update(one.base for part in cone for one in part.reads)
                gone.update(inner)
    read_by = _read_by(groups)
    return [
        group
        for index, group in enumerate(groups)
        if not (bases := {node.writes.base for node in group.nodes if node.writes is not None}) & gone
        or any(base in stored or read_by.get(base, set()) - {index} for base in bases)
    ]


def _cone(node: KernelNode, maker: Mapping[str, KernelNode], own: set[str]) -> list[KernelNode]:
    """Lists an elementwise node and the elementwise nodes before it; empty if there are too many."""
    found: dict[int, KernelNode] = {}
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if id(one) in found:
            continue
        found[id(one)] = one
        if len(found) > _AGAIN:
            return []
        before = [maker[view.base] for view in one.reads if view.base in maker and view.base not in own]
        waiting += [part for part in before if part.cheap]
    return list(found.values())


def _kernel(
    group: KernelGroup, index: int, read_by: Mapping[str, set[int]], stored: set[str], between: set[str]
) -> Kernel:
    made = {node.writes.base: node.writes for node in group.nodes if node.writes is not None}
    views: dict[str, dict[str, float]] = {}
    whole: dict[str, float] = {}
    for node in (*group.nodes, *group.again.values()):
        for view, amount in zip(node.reads, node.read_bytes, strict=True):
            if view.base not in group.again and (view.base not in made or len(group.nodes) == 1):
                views.setdefault(view.base, {})[view.name] = amount
                whole[view.base] = view.base_bytes
    reads = {base: min(sum(parts.values()), whole[base]) for base, parts in views.items()}
    written = {base: view for base, view in made.items() if base in stored or read_by.get(base, set()) - {index}}
    if len(group.nodes) == 1:
        written = made
    last = group.nodes[-1]
    passes = last.passes if len(group.nodes) == 1 else 1.0
    passed = [(passes * amount, whole[base]) for base, amount in reads.items() if base in between]
    passed += [(passes * view.bytes, view.base_bytes) for base, view in written.items() if base not in stored]
    call = next((node for node in group.nodes if node.kind == "library"), None)
    made_of = sum(reads.values())
    return Kernel(
        last.name,
        group.kind,
        tuple(dict.fromkeys(name for node in (*group.nodes, *group.again.values()) for name in node.operations)),
        max(node.launches for node in group.nodes) if len(group.nodes) == 1 else 1,
        passes * (made_of + sum(view.bytes for view in written.values())),
        passes * sum(view.bytes for view in written.values()),
        sum(node.flops for node in (*group.nodes, *group.again.values())),
        float(max(node.blocks for node in group.nodes)),
        call.call if call else -1,
        call.epilogue if call else False,
        min(call.panel, made_of) if call else 0.0,
        tuple(views),
        tuple(written),
        tuple(passed),
    )
