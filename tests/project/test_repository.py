"""What is in the repository: sources, no products, nothing of one machine."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCTS = {".so", ".o", ".a", ".pyc", ".pyd", ".whl", ".egg", ".dll", ".dylib"}
ABSOLUTE = re.compile(r"(?<![\w.~$}])/(?:work|home|Users|root|mnt)/\w[\w./-]*")
MEGABYTE = 1 << 20


def repository_files() -> list[Path]:
    """Files that git knows or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def texts() -> dict[str, str]:
    found = {}
    for path in repository_files():
        try:
            found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


def test_no_products() -> None:
    products = [str(path) for path in repository_files() if path.suffix in PRODUCTS or "__pycache__" in path.parts]
    assert not products


def test_no_large_files() -> None:
    large = [
        f"{path}: {path.stat().st_size} bytes" for path in repository_files() if path.stat().st_size > 4 * MEGABYTE
    ]
    assert not large


def test_no_paths_of_one_machine() -> None:
    found = [f"{name}: {match[0]}" for name, text in texts().items() for match in ABSOLUTE.finditer(text)]
    assert not found, "\n".join(found)


def test_files_that_run_first_are_there() -> None:
    text = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    named = re.findall(r'"(tests/[^"]+\.py)",', text)
    assert len(named) >= 10
    assert not [name for name in named if not (ROOT / name).is_file()]
