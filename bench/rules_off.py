"""How often a rule of fusion makes "best" slower: random small graphs × machines, compiled with all rules and without
each. Prints the ten worst (cycles with all rules over cycles without one), how many are over 1.02, and a rate.

`rules_off.py [--count N] [--first SEED] [--shown N]`
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.random_blocks import random_block, without_each_rule


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=240, help="graphs")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--shown", type=int, default=10, help="rows")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    found = []
    for seed in range(arguments.first, arguments.first + arguments.count):
        graph, machine = random_block(seed)
        found += [(ratio, rule, graph.name, machine) for rule, ratio in without_each_rule(graph, machine).items()]
    seconds = time.perf_counter() - begin
    found.sort(reverse=True)
    for ratio, rule, name, machine in found[: arguments.shown]:
        print(f"{ratio:6.3f}  {rule:12} {name:20} {machine}")
    slower = sum(ratio > 1.02 for ratio, *_ in found)
    mean = math.exp(sum(math.log(ratio) for ratio, *_ in found) / max(1, len(found)))
    print(f"{slower} of {len(found)} slower by over 2 % ({slower / max(1, len(found)):.1%}), geometric mean {mean:.3f}")
    print(f"{arguments.count / seconds:.1f} graphs per second")


if __name__ == "__main__":
    main()
