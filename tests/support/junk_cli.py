"""Every command line with one of its arguments or options replaced by junk.

`python -m support.junk_cli SEED COUNT START`: as `support.junk`.
"""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import random
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

from support.command import commands as every_command
from support.junk import MEMORY
from support.junk_arguments import prepare
from tilesim.base.paths import sample
from tilesim.cli import main as cli

JUNK = {
    "no text": "", "zero": "0", "minus one": "-1", "fraction": "1.5", "nan": "nan", "infinity": "inf",
    "2^63": str(2**63), "2^200": str(2**200), "digits": "9" * 5000, "1e400": "1e400", "text": "junk",
    "long text": "x" * 10**4, "surrogate": "\udcff", "line": "a\nb", "markup": "[bold]{x}%s", "brackets": "[" * 3000,
    "braces": "{}", "equals": "=", "name=number": "a=1", "path=digits": "core.array.count=" + "9" * 5000,
    "path=brackets": "core.array.count=" + "[" * 3000, "commas": ",,,", "colon": "matmul:,,",
    "directory": "folder.json", "folder": ".", "missing": "missing.json", "missing folder": "missing/file.json",
    "device": "/dev/null", "dash": "-", "graph": "graph.json", "result": "result.json", "csv": "measured.csv",
}  # fmt: skip

#: what each command needs; a parameter without a value is one of these by its name
ARGUMENTS: dict[str, str] = {
    "machine new file": "made.json", "machine new from_": "edge-8", "machine diff a": "tpu-v2",
    "machine diff b": "tpu-v3", "cases": "measured.csv", "device show name": "h100", "model": "matmul:4,4,4",
    "model show model": "mlp", "suite name": "none", "graph": "graph.json", "what": "matmul:4,4,4", "name": "tpu-v3",
    "path": "graph.json", "program": "program.json", "file": "graph.json", "device": "h100",
    "measurements": "measured.csv", "part": "DDR4-2400", "output": "written.json", "dtype": "bf16",
    "workload": "matmul:4,4,4",
}  # fmt: skip


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Words and click's object of every command; what `measure` starts runs for as long as it was asked to."""
    return ((words, command) for words, command in every_command() if words[0] != "measure")


#: Checks of tables that take long: of their first rows, as test_terminal.py does.
LONG = ("noc", "network")


def few_rows() -> None:
    """Files of the working directory with those rows."""
    for table in LONG:
        rows = sample(table).read_text(encoding="utf-8").splitlines()[:4]
        pathlib.Path(f"{table}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def line(words: tuple[str, ...], command: Any, replaced: str = "", junk: str = "") -> list[str]:
    """The command line: what is required, and junk for one parameter."""
    found = list(words)
    if words[0] == "validate" and words[-1] in LONG and replaced != "cases":
        found += ["--cases", f"{words[-1]}.csv"]
    for parameter in command.params:
        argument = parameter.param_type_name == "argument"
        value = junk if parameter.name == replaced else None
        if value is None and parameter.required:
            value = ARGUMENTS.get(" ".join((*words, parameter.name)), ARGUMENTS.get(parameter.name, "1"))
        if value is None:
            continue
        if argument:
            found += [value]
        else:
            found += [parameter.opts[-1] if not parameter.is_flag else parameter.opts[0]]
            found += [] if parameter.is_flag else [value]
    return found


def cases() -> list[tuple[str, list[str]]]:
    """Name and command line of all."""
    return [
        (f"{' '.join(words)} {parameter.name}={name}", line(words, command, parameter.name, junk))
        for words, command in commands()
        for parameter in command.params
        if parameter.name != "help"
        for name, junk in JUNK.items()
        if not getattr(parameter, "is_flag", False) or name == "text"
    ]


def attempt(words: list[str]) -> str:
    """Empty, or what was wrong with how the command ended."""
    out, said = io.StringIO(), io.StringIO()
    code: Any = 0
    sys.argv = ["tilesim", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
            cli.main()
    except SystemExit as ended:
        code = 0 if ended.code is None else ended.code
    except BaseException:
        return traceback.format_exc()
    text = said.getvalue()
    lines = [one for one in text.splitlines() if one.strip()]
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if "Traceback" in text:
        return text
    if code == 2 and not lines and not out.getvalue():
        return "no message"
    if code and any(one.startswith("tilesim: ") for one in lines) and len(lines) > 1:
        return f"{len(lines)} lines: {text}"
    return ""


def main() -> None:
    seed, count, start = (int(word) for word in sys.argv[1:4])
    chosen = [case for case in cases() if not sys.argv[4:] or sys.argv[4] in case[0]]
    if count:
        chosen = random.Random(seed).sample(chosen, min(count, len(chosen)))
    warnings.simplefilter("ignore")
    os.chdir(tempfile.mkdtemp())
    prepare()
    few_rows()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    for at, (name, words) in enumerate(chosen[start:], start):
        print(f"{at} {name}", flush=True)
        signal.setitimer(signal.ITIMER_PROF, 20)  # some commands simulate a lot
        signal.setitimer(signal.ITIMER_REAL, 120)
        wrong = attempt(words)
        if wrong:
            text = wrong.encode("ascii", "backslashreplace").decode()[-3000:]
            print("\n".join("! " + one for one in text.split("\n")), flush=True)
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("done")


if __name__ == "__main__":
    main()
