"""Shared by every test: where the sources lie, and the closing lines of ctest."""

import collections
import gc
import importlib.util
import itertools
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# One thread for each process: those of BLAS and torch wait in loops, and the other processes have work to do. Read when
# numpy and torch are imported, so it comes before them; children inherit it.
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# Compiled modules are kept, those with rewritten assertions too: processes that tests start, and later runs, read them.
if "TILESIM_MUTANT" not in os.environ:  # whose modules change within a second
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(Path(__file__).resolve().parents[1] / "build" / "pycache"))
    sys.dont_write_bytecode, sys.pycache_prefix = False, os.environ["PYTHONPYCACHEPREFIX"]

# The garbage collector went through half a million objects of libraries and of tests again and again: a tenth of all.
gc.set_threshold(10_000, 20, 10)

CTEST_REPORT = pytest.StashKey[list[str]]()
#: Files that take longest, first of all: the last file of a run of several processes must not be a long one. The C++
#: tests come first, since their compiler waits for nobody. (`--dist loadfile --no-loadscope-reorder` keeps this order.)
LONGEST = (
    "tests/project/test_ctest.py", "tests/docs/test_notebooks.py", "tests/docs/test_pages.py",
    "tests/docs/test_page_commands.py", "tests/docs/test_exercises.py", "tests/badinput/test_fuzz.py",
    "tests/functional/frontends/test_transformers.py", "tests/project/test_terminal.py",
    "tests/cluster/test_places.py", "tests/cluster/test_shardings.py", "tests/cluster/test_random_partition.py",
    "tests/reference/test_samples.py", "tests/functional/frontends/test_torch_models.py",
    "tests/timing/test_fusion_price.py",
)  # fmt: skip
#: What the suite compares with: with TILESIM_ALL_TESTS set, as continuous integration does, none may be missing.
FRAMEWORKS = ("torch", "jax", "onnx", "transformers", "safetensors", "optuna", "yaml", "mkdocs", "ipywidgets")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree."""
    return Path(__file__).resolve().parents[1]


def pytest_configure(config: pytest.Config) -> None:
    for name in ("COLUMNS", "LINES"):  # of whoever started the tests: readline sets them in a process of pytest-xdist
        os.environ.pop(name, None)
    missing = [name for name in FRAMEWORKS if importlib.util.find_spec(name) is None]
    if missing and os.environ.get("TILESIM_ALL_TESTS"):
        raise pytest.UsageError(f"not installed, and TILESIM_ALL_TESTS is set: {', '.join(missing)}")
    config.stash[CTEST_REPORT] = []
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of whom a shell has put into the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def bounds_of_every_run() -> Iterator[None]:
    """No run of any test takes less time, or moves fewer bytes, than the bound that its result carries."""
    module = importlib.import_module("tilesim.timing.simulate")
    simulate = module._simulate

    def checked(program: Any, target: Any, options: Any) -> Any:
        result = simulate(program, target, options)
        bounds = result.bounds
        # Beyond the limit steady loops are extended; a table may give tiles any time, as some tests do.
        if bounds is not None and result.data["tile_operations"] <= module.LIMIT and options.latencies is None:
            assert result.memory_bytes >= bounds.bytes * (1 - 1e-9), (program, target, bounds)
            assert result.seconds >= bounds.seconds * (1 - 1e-9), (program, target, bounds)
        return result

    module._simulate = checked
    yield
    module._simulate = simulate


def combined(item: pytest.Item) -> set[Any]:
    """Of a case of three parametrizations or more, each pair of values beside each other; of one that is marked
    `singly`, each value; of another case none."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    marks = [mark.args[0] for mark in item.iter_markers("parametrize")]
    names = [re.split(r",\s*", mark) if isinstance(mark, str) else mark for mark in marks]
    values = [str([(name, params[name]) for name in own]) for own in names if "seed" not in own]
    if any(item.iter_markers("singly")):
        return set(values)
    return set(itertools.combinations(values, 2)) if len(values) > 2 else set()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What of a family of cases is slow: of random ones (parameter `seed`) all but the first third, three at least; of
    those marked `few(n)` all but every n-th; of combinations of three parametrizations or more, and of those marked
    `singly`, each that is not needed for all pairs of values, or all values (`combined`)."""
    together: dict[str, list[tuple[pytest.Item, set[Any]]]] = collections.defaultdict(list)
    few: dict[str, list[pytest.Item]] = collections.defaultdict(list)
    seeds: dict[tuple[str, ...], list[pytest.Item]] = collections.defaultdict(list)
    for item in items:
        params, name = getattr(getattr(item, "callspec", None), "params", {}), item.nodeid.partition("[")[0]
        if "seed" in params:
            seeds[(name, *(str(value) for key, value in params.items() if key != "seed"))].append(item)
        if any(item.iter_markers("slow")):
            continue
        if own := combined(item):
            together[name].append((item, own))
        if any(item.iter_markers("few")):
            few[name].append(item)
    for cases in together.values():
        left = set().union(*(own for _, own in cases))
        while left:
            chosen = max(cases, key=lambda case: len(case[1] & left))
            left -= chosen[1]
            cases.remove(chosen)
    rest = [item for cases in together.values() for item, _ in cases]
    rest += [item for family in seeds.values() for item in family[max(3, len(family) // 3) :]]
    for family in few.values():
        rest += [item for place, item in enumerate(family) if place % item.get_closest_marker("few").args[0]]
    for item in rest:
        item.add_marker("slow")
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(LONGEST)))


def pytest_collection_finish() -> None:
    gc.freeze()  # what stands now stays to the end: no collection looks at it again


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)  # in a process of pytest-xdist
    if output is not None:
        output["ctest"] = session.config.stash[CTEST_REPORT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of pytest-xdist has ended; one of them has run ctest."""
    node.config.stash[CTEST_REPORT].extend(getattr(node, "workeroutput", {}).get("ctest", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = config.stash[CTEST_REPORT]
    if lines:
        terminalreporter.section("ctest")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def ctest_report(request: pytest.FixtureRequest) -> list[str]:
    """Lines printed below the tests: the C++ tests append what ctest said last."""
    return request.config.stash[CTEST_REPORT]
