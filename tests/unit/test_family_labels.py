"""What the family files say about where each constant comes from, held against the defaults and the entries named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tilesim as ts
from tilesim.analytic import attention, conv, families, gemm, menus, vector
from tilesim.analytic.constants import standard
from tilesim.analytic.families import Entry, protocol
from tilesim.analytic.gpu import compiled
from tilesim.analytic.schemes import scheme
from tilesim.machine.device import Device

# The device whose rows each family's constants were fitted on, or for which they were carried.
DEVICES = {
    "ada": "l40s", "ampere": "a100", "hopper": "h100", "turing": "t4", "volta": "v100", "blackwell": "b200",
    "blackwell-rtx": "rtx-pro-6000", "xe2": "b60",
}  # fmt: skip


def entries() -> Iterator[tuple[str, Entry]]:
    for name in sorted({Device.load(name).family for name in ts.Device.names()}):
        for entry in families.family(name).entries:
            yield name, entry


def defaults(family: str, entry: Entry) -> dict[str, float]:
    """The values that a fit starts from, before any row is looked at."""
    device = Device.load(DEVICES[family])
    products = (
        {}
        if ":" in entry.scheme or "/" in entry.scheme or entry.operation == "network"
        else standard(device, scheme(entry.scheme, device), protocol(entry.engine).casts)
    )
    if entry.operation == "gemm":
        return products
    module = {"conv": conv, "vector": vector, "network": compiled}.get(entry.operation, attention)
    found = {name: float(info["default"]) for name, info in module.CONSTANTS.items()}
    return {**found, **products} if entry.operation == "conv" else found


def same(one: float, other: float) -> bool:
    return float(f"{one:.4g}") == float(f"{other:.4g}")


FOUND = list(entries())


def test_every_constant_says_where_it_is_from() -> None:
    assert len(FOUND) > 30
    for family, entry in FOUND:
        assert set(entry.provenance) == set(entry.constants), (family, entry.scheme, entry.engine)
        for name, text in entry.provenance.items():
            known = text.startswith(
                ("fitted on ", "carried: ", "default", "as ", "assumption: ", "start ", "best rate ", "read off ")
            )
            assert known, (family, entry.scheme, name, text)
            assert "None" not in text


@pytest.mark.parametrize(("family", "entry"), FOUND, ids=[f"{f}-{e.operation}-{e.scheme}-{e.engine}" for f, e in FOUND])
def test_a_constant_called_default_is_the_default(family: str, entry: Entry) -> None:
    known = defaults(family, entry)
    for name, text in entry.provenance.items():
        if text.startswith("default: the rows do not show it") or text == "default: no rows of this family":
            assert same(entry.constants[name], known[name]), (name, entry.constants[name], known[name])
        if text.startswith("fitted") and "from" in text and "(default)" in text:
            start = float(text.split("from ")[-1].split(" (default)")[0])
            assert same(start, known[name]), (name, text, known[name])
        if text.startswith("as launch"):
            assert same(entry.constants[name], entry.constants["launch"]), name


@pytest.mark.parametrize(
    ("family", "entry"), [pair for pair in FOUND if any("carried" in t for t in pair[1].provenance.values())]
)
def test_a_carried_constant_is_that_of_its_source(family: str, entry: Entry) -> None:
    for name, text in entry.provenance.items():
        if not text.startswith("carried: "):
            continue
        source, _, engine = text.removeprefix("carried: ").partition(";")[0].partition(", ")
        whose, _, of = source.partition(" ")
        found = families.family(whose).find("gemm", of, engine)
        assert found is not None and found.engine == engine, text
        value = found.constants[name]
        if "of the 16 bits" in text or "as many bytes per cycle" in text:
            bits = {"fp8": 8, "nvfp4": 4}[entry.scheme]
            value *= bits / 16
        assert same(entry.constants[name], value) or abs(entry.constants[name] / value - 1) < 1e-3, (name, text)


def test_menus_say_where_they_were_read() -> None:
    """Every menu has a source, and every entry's menu exists; a menu read off rows says off how many, and of what."""
    for family, entry in FOUND:
        assert gemm.kernels(entry.kernels), (family, entry.kernels)
        assert menus.SOURCES[entry.kernels]
    for name, text in menus.SOURCES.items():
        assert gemm.kernels(name)
        if "read off" in text:
            assert any(word.isdigit() for word in text.split("read off")[1].split()), (name, text)
    with pytest.raises(ts.UserError, match="library-rules"):
        gemm.kernels("cublas")
