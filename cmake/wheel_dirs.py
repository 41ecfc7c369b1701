"""Print where the C++ wheels of this interpreter lie, as a CMake list: cmeel prefix; json headers; pybind11 files."""

import sys
from pathlib import Path


def first(relative: str) -> str:
    """The first directory of that name on the import path, or NOTFOUND."""
    for entry in sys.path:
        candidate = Path(entry) / relative
        if entry and candidate.is_dir():
            return candidate.as_posix()
    return f"{relative}-NOTFOUND"


if __name__ == "__main__":
    print(
        first("cmeel.prefix"),
        first("nlohmann_json/include"),
        first("pybind11/share/cmake/pybind11"),
        sep=";",
    )
