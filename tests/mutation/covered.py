"""A pytest plugin that writes which tests run which lines of the Python package.

    PYTHONPATH=build/release/python:tests python -m pytest -p mutation.covered tests/unit

writes build/mutation/covered.json: the tests with their seconds, and per file {line: numbers of tests}. Runs add to
what is there, so that the suite may be recorded in parts. Needs the package `coverage`.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "tilesim"
MAP = Path(os.environ.get("TILESIM_COVERED", ROOT / "build" / "mutation" / "covered.json"))
SECONDS_BETWEEN = 120


class Recorder:
    """Coverage with the name of the running test as its context; written now and then, and at the end."""

    def __init__(self) -> None:
        self.coverage = coverage.Coverage(data_file=None, include=[f"{PACKAGE}/*"], config_file=False)
        self.seconds: dict[str, float] = {}
        self.written = time.monotonic()
        self.coverage.start()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        yield
        if time.monotonic() - self.written > SECONDS_BETWEEN:
            self.write()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = round(self.seconds.get(report.nodeid, 0.0) + report.duration, 3)

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.write()

    def write(self) -> None:
        """Adds what has been seen to the map."""
        known = json.loads(MAP.read_text()) if MAP.exists() else {"tests": {}, "lines": {}}
        known["tests"].update(self.seconds)
        number = {test: index for index, test in enumerate(known["tests"])}
        data = self.coverage.get_data()
        for file in data.measured_files():
            lines = known["lines"].setdefault(Path(file).resolve().relative_to(PACKAGE).as_posix(), {})
            for line, tests in data.contexts_by_lineno(file).items():
                seen = (number[test] for test in tests if test in number)
                lines[str(line)] = sorted({*lines.get(str(line), []), *seen})
        MAP.parent.mkdir(parents=True, exist_ok=True)
        MAP.with_suffix(".new").write_text(json.dumps(known))
        MAP.with_suffix(".new").replace(MAP)
        self.written = time.monotonic()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(), "covered")
