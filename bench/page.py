"""The page of a result: size, seconds to write it, first paint and filter in a browser, by number of operations.

`page.py [--fast] [--json FILE] [--browser PATH]`. The result has real figures of one product in every row; its names
are those of a decoder's layers. Without playwright or chromium the last two columns are left out.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tilesim as ts

GOAL = "10,000 operations: <= 3 MB, first paint <= 1000 ms, filter <= 50 ms"
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
FILTER = """(() => {
  const input = document.querySelector('#table-operations input');
  const times = [];
  for (const text of ['attention', 'block.7', 'layers.12.', 'x', '']) {
    input.value = text;
    const begin = performance.now();
    input.dispatchEvent(new Event('input'));
    document.querySelector('#table-operations .window').getBoundingClientRect();
    times.push(performance.now() - begin);
  }
  return Math.max(...times);
})()"""


def of(operations: int) -> ts.Result:
    """A result of so many operations.

    Args:
        operations: their number.

    Returns:
        It; cycles add up.
    """
    data: dict[str, Any] = copy.deepcopy(ts.run("matmul:64,64,64", machine="edge-8").data)
    (row,) = data["operations"]
    data["operations"] = []
    for i in range(operations):
        name = f"decoder.layers.{i // 20}.block.{i % 20}.attention.projection"
        more = {"name": name, "operation": [name], "exclusive": row["exclusive"] + i % 997, "start": i}
        more["cycles"] = more["exclusive"]
        data["operations"].append({**row, **more, "bound": ("compute", "memory", "latency")[i % 3]})
    data["cycles"] = sum(one["exclusive"] for one in data["operations"])
    return ts.Result(data)


def in_browser(path: Path, browser: str) -> dict[str, float]:
    """First paint and the slowest of some filters, milliseconds; the best of three openings.

    Args:
        path: of the page.
        browser: chromium.
    """
    from playwright.sync_api import sync_playwright

    found: list[dict[str, float]] = []
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-dev-shm-usage"])
        for _ in range(3):
            tab = started.new_page(viewport={"width": 1440, "height": 900})
            tab.goto(path.as_uri())
            tab.wait_for_function("document.documentElement.dataset.charts === 'ready'")
            found.append({"first_paint_ms": tab.evaluate(PAINT), "filter_ms": tab.evaluate(FILTER)})
            tab.close()
        started.close()
    return {key: min(one[key] for one in found) for key in found[0]}


def main() -> None:
    """Prints a line for each number of operations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fast", action="store_true", help="10,000 operations alone")
    parser.add_argument("--json", help="write the figures")
    parser.add_argument("--browser", default=shutil.which("chromium") or "")
    options = parser.parse_args()
    browser = options.browser if importlib.util.find_spec("playwright") else ""
    if not browser:
        print("no browser: chromium and playwright measure first paint and filter", file=sys.stderr)
    rows = []
    for operations in [10_000] if options.fast else [100, 1_000, 10_000, 100_000]:
        result = of(operations)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.html"
            begin = time.perf_counter()
            result.to_html(path)
            row: dict[str, float] = {"operations": operations, "write_s": time.perf_counter() - begin}
            row["megabytes"] = path.stat().st_size / 1e6
            if browser:
                row |= in_browser(path, browser)
        rows.append(row)
        print("  ".join(f"{key} {value:,.4g}" for key, value in row.items()), flush=True)
    print(f"(goal: {GOAL})")
    if options.json:
        Path(options.json).write_text(json.dumps({"goal": GOAL, "rows": rows}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
