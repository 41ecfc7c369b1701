"""Seconds per translation unit of a build, slowest first, from Ninja's log: `python bench/compile_time.py [BUILD]`."""

import sys
from pathlib import Path

SHOWN = 5


def seconds_per_unit(build: Path) -> dict[str, float]:
    """Object file → wall seconds; objects that no longer exist are left out."""
    lines = (build / ".ninja_log").read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return {
        output: (int(end) - int(start)) / 1000
        for start, end, _, output, _ in rows
        if output.endswith(".o") and (build / output).exists()
    }


def main() -> None:
    build = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("build/pytest")
    if not (build / ".ninja_log").exists():
        sys.exit(f"no build log in {build}")
    seconds = seconds_per_unit(build)
    print(f"{len(seconds)} translation units, {sum(seconds.values()):.0f} s of compiling")
    for output, spent in sorted(seconds.items(), key=lambda item: -item[1])[:SHOWN]:
        print(f"{spent:7.1f} s  {output}")


if __name__ == "__main__":
    main()
