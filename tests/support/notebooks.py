"""Notebooks in one kernel of Jupyter, one after another, each with names of its own.

To start a kernel and import the libraries took longer than most notebooks do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SECONDS = 900  # of wall time for a cell: where one hangs, not where a machine is slow
#: Names, figures and settings of the notebook before are gone; modules stay imported.
AFRESH = """import os, sys
if "matplotlib.pyplot" in sys.modules:
    sys.modules["matplotlib.pyplot"].close("all")
    sys.modules["matplotlib.pyplot"].rcdefaults()
os.chdir({folder!r})
%reset -f
"""


class Kernel:
    """Starts with the first notebook."""

    def __init__(self) -> None:
        self.client: Any = None

    def run(self, notebook: Any, folder: Path) -> None:
        """Runs a notebook; its cells have their outputs then."""
        import nbclient
        import nbformat

        if self.client is None:
            self.client = nbclient.NotebookClient(notebook, timeout=SECONDS, kernel_name="python3")
            self.client.create_kernel_manager()
            self.client.owns_km = False  # so that it outlives a notebook
        before = nbformat.v4.new_code_cell(AFRESH.format(folder=str(folder)))
        for one in (nbformat.v4.new_notebook(cells=[before]), notebook):
            self.client.nb = one
            self.client.execute()

    def close(self) -> None:
        """Ends its process."""
        from nbclient.util import run_sync

        if self.client is not None and self.client.kc is not None:
            self.client.kc.stop_channels()
            run_sync(self.client.km.shutdown_kernel)(now=True)
        self.client = None


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """One for the notebooks of a file."""
    made = Kernel()
    yield made
    made.close()
