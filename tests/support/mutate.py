"""Damages JSON files: flipped bits, truncation, deleted and renamed keys, wrong types, huge numbers."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1,
    7,
    2**20,
    2**31,
    2**40,
    2**62,
    2**63 - 1,
    -(2**63),
    10**30,
    0.5,
    -1e308,
    "",
    "x",
    "1e9",
    "core",
    "9223372036854775807 * 9223372036854775807",
    "16 EiB",
    "((((((((((1))))))))))",
    "\u0000\ud7ff",
    [],
    {},
    [[]],
    [1, 2, 3],
    {"a": 1},
]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) below a JSON value."""
    if isinstance(value, dict):
        items: Iterator[tuple[Any, Any]] = iter(list(value.items()))
    elif isinstance(value, list):
        items = iter(list(enumerate(value)))
    else:
        return
    for key, inner in items:
        yield value, key
        yield from places(inner)


def damage_tree(tree: Any, choose: random.Random) -> None:
    """Changes one place of a JSON value."""
    found = list(places(tree))
    container, key = choose.choice(found)
    what = choose.randrange(6)
    if what == 0:
        del container[key]
    elif what == 1 and isinstance(container, dict):
        container[str(key)[:-1] or "q"] = container.pop(key)
    elif what == 2:
        other, at = choose.choice(found)  # a value from elsewhere
        container[key] = copy.deepcopy(other[at])
    elif what == 3 and isinstance(container[key], int):
        container[key] = choose.choice([container[key] + 1, container[key] - 1, -container[key], container[key] << 20])
    elif what == 4 and isinstance(container[key], list) and container[key]:
        container[key] = container[key] * choose.choice([2, 3]) if choose.random() < 0.5 else container[key][:-1]
    else:
        container[key] = copy.deepcopy(choose.choice(VALUES))


def damaged(text: str, choose: random.Random) -> str:
    """A damaged copy of a JSON text: sometimes still JSON, seldom still legal."""
    what = choose.randrange(10)
    if what == 0:
        return text[: choose.randrange(len(text))]
    if what == 1:
        data = bytearray(text.encode())
        for _ in range(choose.choice([1, 1, 2, 8])):
            data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
        return data.decode(errors="surrogateescape").encode(errors="surrogateescape").decode("latin-1")
    if what == 2:
        at = choose.randrange(len(text))
        return text[:at] + choose.choice(["{", "[", ",", '"', "0", "-", "}", "]", "[" * 500, '{"a":' * 300]) + text[at:]
    tree = json.loads(text)
    for _ in range(choose.choice([1, 1, 1, 2, 3])):
        if next(places(tree), None) is not None:
            damage_tree(tree, choose)
    return json.dumps(tree, indent=choose.choice([None, 1]))
