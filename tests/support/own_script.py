"""Scripts in a process of their own, as a user starts them.

A process that `multiprocessing` spawns imports the main module again, and inside a test that is the test runner's.
"""

from __future__ import annotations

import ast
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any


def printed(folder: Path, script: str, given: Any) -> Any:
    """What a script prints, as a literal of Python."""
    (folder / "given.pickle").write_bytes(pickle.dumps(given))
    (folder / "script.py").write_text(script, encoding="utf-8")
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(folder / "script.py"), str(folder / "given.pickle")]
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    return ast.literal_eval(ran.stdout)
