"""Finds the Boost.Test cases in source text: pytest can name them before anything is built."""

import re
from pathlib import Path

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MACRO = re.compile(
    r"\bBOOST_(?:"
    r"(?P<end>AUTO_TEST_SUITE_END)\s*\("
    r"|(?P<suite>AUTO_TEST_SUITE|FIXTURE_TEST_SUITE)\s*\(\s*(?P<suite_name>\w+)"
    r"|DATA_TEST_CASE_F\s*\(\s*\w+\s*,\s*(?P<data_name>\w+)"
    r"|(?:AUTO_TEST_CASE|FIXTURE_TEST_CASE|DATA_TEST_CASE|AUTO_TEST_CASE_TEMPLATE|FIXTURE_TEST_CASE_TEMPLATE)"
    r"\s*\(\s*(?P<case_name>\w+)"
    r")"
)


def cases_in(text: str) -> list[str]:
    """The cases of one file as `suite/case`; a data-driven or template case is one name."""
    cases: list[str] = []
    suites: list[str] = []
    for match in _MACRO.finditer(_COMMENT.sub("", text)):
        if match["end"]:
            suites.pop()
        elif match["suite"]:
            suites.append(match["suite_name"])
        else:
            cases.append("/".join([*suites, match["data_name"] or match["case_name"]]))
    return cases


def cases_by_room(tests_cpp: Path) -> dict[str, list[str]]:
    """For each directory of tests/cpp, the cases of its files in the order of the files."""
    rooms: dict[str, list[str]] = {}
    for file in sorted(tests_cpp.glob("*/*.cpp")):
        rooms.setdefault(file.parent.name, []).extend(cases_in(file.read_text(encoding="utf-8")))
    return rooms


def programs_of_rooms(tests_cpp: Path) -> dict[str, str]:
    """Room → the program with its cases, without `test_`."""
    lines = (tests_cpp / "CMakeLists.txt").read_text(encoding="utf-8")
    found = re.findall(r"^set\(TILESIM_TESTS_(\w+) ([\w ]+)\)", lines, re.MULTILINE)
    return {room: name for name, rooms in found for room in rooms.split()}
