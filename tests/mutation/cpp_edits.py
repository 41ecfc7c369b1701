"""Edits of C++ by its tokens, as clang-format lays them out: operators between blanks, a statement on a line."""

from __future__ import annotations

import re

from mutation.mutants import Edit

#: What is not code: comments, texts, characters, lines of the preprocessor.
ASIDE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^#[^\n]*', re.DOTALL | re.MULTILINE)
OPERATORS = {
    " < ": (" <= ", " > "), " <= ": (" < ", " >= "), " > ": (" >= ", " < "), " >= ": (" > ", " <= "),
    " == ": (" != ",), " != ": (" == ",), " + ": (" - ",), " - ": (" + ",), " * ": (" / ",), " / ": (" * ",),
    " % ": (" * ",), " += ": (" -= ", " = "), " -= ": (" += ",), " && ": (" || ",), " || ": (" && ",),
}  # fmt: skip
WORDS = {"std::min": "std::max", "std::max": "std::min", "true": "false", "false": "true"}
KINDS = {"<": "comparison", ">": "comparison", "=": "comparison", "!": "comparison", "&": "and, or", "|": "and, or"}
CALL = re.compile(r"^ +(?!return\b|throw\b|delete\b|co_)[A-Za-z_][\w.:\[\]>-]*\([^;{}]*\);$", re.MULTILINE)
ASSIGNMENT = re.compile(r"^ +[a-z_][\w.\[\]>-]* [-+*/|&]?= [^;{}]*;$", re.MULTILINE)
LEAP = re.compile(r"\b(?:continue|break);")
RETURN = re.compile(r"\breturn (?!\{\};)([^;{}]+);")
CONDITION = re.compile(r"\b(?:if|while) \(")
NUMBER = re.compile(r"(?<![\w.'])\d+(?![\w.'])")


def cpp_edits(source: str) -> list[Edit]:
    """Every edit of a C++ source. Some do not compile."""
    code = ASIDE.sub(lambda found: re.sub(r"[^\n]", "\0", found[0]), source)
    edits = _operators(code) + _words(code)
    for found in NUMBER.finditer(code):
        number = int(found[0])
        edits += [Edit(*found.span(), str(new), "constant") for new in (number + 1, number - 1) if new >= 0]
    for pattern in (CALL, ASSIGNMENT):
        for found in pattern.finditer(code):
            start = found.start() + len(found[0]) - len(found[0].lstrip())
            edits.append(Edit(start, found.end(), ";", "statement left out"))
    edits += [Edit(*found.span(), ";", "statement left out") for found in LEAP.finditer(code)]
    edits += [Edit(*found.span(), "return {};", "nothing returned") for found in RETURN.finditer(code)]
    edits += _conditions(code, source)
    return edits


def _operators(code: str) -> list[Edit]:
    edits = []
    for old, news in OPERATORS.items():
        for found in re.finditer(re.escape(old), code):
            kind = "arithmetic" if old in (" += ", " -= ") else KINDS.get(old[1], "arithmetic")
            edits += [Edit(*found.span(), new, kind) for new in news]
    return edits


def _words(code: str) -> list[Edit]:
    found = re.finditer(r"std::(?:min|max)\b|\b(?:true|false)\b", code)
    edits = [Edit(*word.span(), WORDS[word[0]], "constant" if "::" not in word[0] else "least, most") for word in found]
    return edits + [Edit(*sign.span(), "", "sign dropped") for sign in re.finditer(r"(?<=[( ])[!-](?=[a-z_(])", code)]


def _conditions(code: str, source: str) -> list[Edit]:
    edits = []
    for found in CONDITION.finditer(code):
        depth, end = 1, found.end()
        while depth and end < len(code):
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        inside = source[found.end() : end - 1]
        if ";" not in inside and not re.match(r"(?:const )?auto\b", inside) and not re.search(r"[^=!<>]=[^=]", inside):
            edits.append(Edit(found.end(), end - 1, f"!({inside})", "condition negated"))
    return edits
