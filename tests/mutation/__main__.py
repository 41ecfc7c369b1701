"""How many small changes of the sources the tests notice: the mutation score.

    python tests/mutation python --seed 16 --count 120
    python tests/mutation cpp --seed 16 --count 40 --rooms engine/dram machine

Works on a copy of the tree below build/mutation and prints each mutant with its fate, survivors with their change. The
list goes to build/mutation/<language>-<seed>.json as well. Python mutants meet the tests that run their line, by the
map that `mutation.covered` writes; C++ mutants the tests of their room (`rooms.py`).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from mutation.trial import CppTrial, Fate, PythonTrial, Trial  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(prog="python tests/mutation", description=__doc__.partition("\n")[0])
    parser.add_argument("language", choices=["python", "cpp"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40, help="mutants that compile")
    parser.add_argument("--skip", type=int, default=0, help="of the same seed, those tried before")
    parser.add_argument("--rooms", nargs="*", default=[], help="beginnings of paths below the package; default: all")
    parser.add_argument("--except", nargs="*", default=[], dest="without", help="beginnings of paths left out")
    parser.add_argument("--seconds", type=float, default=90, help="of tests for one mutant")
    parser.add_argument("--only", nargs="*", type=int, default=None, help="numbers of mutants: tried again")
    parser.add_argument("--tests", nargs="*", default=[], help="these tests instead of those that run the line")
    options = parser.parse_args()
    kind: type[Trial] = PythonTrial if options.language == "python" else CppTrial
    trial = kind(ROOT, options.seconds, options.tests)
    report = ROOT / "build" / "mutation" / f"{options.language}-{options.seed}.json"
    known = json.loads(report.read_text()) if report.exists() else {}
    tried = 0
    for number, mutant in enumerate(trial.mutants(options.seed, options.rooms, options.without)):
        if tried == options.count + options.skip and options.only is None:
            break
        if options.only is not None and number > max(options.only):
            break
        if tried < options.skip or (options.only is not None and number not in options.only):
            tried += 1
            continue
        fate, by = trial.fate(mutant)
        tried += fate is not Fate.BROKEN
        where = f"{mutant.path}:{mutant.first}"
        known[str(number)] = {
            "where": where, "kind": mutant.kind, "fate": fate.value, "by": by, "diff": mutant.diff(ROOT),
        }  # fmt: skip
        print(f"{number} {fate.value}: {where} {mutant.kind} {by}", flush=True)
        if fate is Fate.SURVIVED:
            print(mutant.diff(ROOT), flush=True)
        report.write_text(json.dumps(known, indent=1))
    fates = [entry["fate"] for entry in known.values()]
    print(", ".join(f"{fate.value}: {fates.count(fate.value)}" for fate in Fate))


if __name__ == "__main__":
    main()
