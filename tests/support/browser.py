"""Pages in a real browser, and everything that goes wrong in them.

The browser is Debian's chromium (TILESIM_BROWSER names another, and then the tests may not be left out).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NAMED = os.environ.get("TILESIM_BROWSER", "")
BROWSER = NAMED or shutil.which("chromium") or shutil.which("chromium-browser") or ""
LACKS = "" if BROWSER else "no chromium: apt-get install chromium"
if importlib.util.find_spec("playwright") is None:
    LACKS = "playwright is not installed: pip install 'tilesim[test]'"
READY = "document.documentElement.dataset.charts === 'ready'"
OUTSIDE = """[...document.querySelectorAll('body *')].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width > 0 && box.right > innerWidth + 1 && !one.closest('.window');
  }).map((one) => one.outerHTML.slice(0, 120))"""


class Opened:
    """A page in a tab, with everything that went wrong in it."""

    def __init__(self, tab: Any) -> None:
        self.tab = tab
        self.wrong: list[str] = []
        tab.on("pageerror", lambda error: self.wrong.append(f"error {error}"))
        tab.on("console", lambda said: self.wrong.append(said.text) if said.type in ("error", "warning") else None)
        tab.on("request", lambda sent: None if sent.url.startswith("file:") else self.wrong.append(sent.url))

    def rows(self, table: str = "operations") -> list[list[str]]:
        """Texts of the rows in sight."""
        found: list[list[str]] = self.tab.evaluate(
            f"""[...document.querySelectorAll('#table-{table} > .window tbody tr:not(.space)')]
              .map((row) => [...row.children].map((cell) => cell.textContent))"""
        )
        return found

    def range(self, chart: str) -> tuple[float, float]:
        """What a chart shows across."""
        start, end = self.tab.evaluate(
            f"(() => {{ const x = tilesim.charts.get('{chart}').plot.x_range; return [x.start, x.end]; }})()"
        )
        return start, end


Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        found = driver.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield found
        found.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Open]:
    made: list[Opened] = []

    def call(path: Path, width: int = 1440, charts: bool = True, **options: Any) -> Opened:
        page = Opened(browser.new_page(viewport={"width": width, "height": 900}, **options))
        page.tab.goto(path.as_uri())
        page.tab.wait_for_function(READY if charts else "document.documentElement.dataset.tables === 'ready'")
        made.append(page)
        return page

    yield call
    wrong = [text for page in made for text in page.wrong]
    for page in made:
        page.tab.close()
    assert not wrong, wrong
