"""Damages files: bytes, tokens of a text, values and keys of JSON, headers, members of an archive; seeded.

`damaged(data, form, choose, others)` gives one damaged copy. A form says what the file's structure is, so that most
copies are still read far into: numbers near every limit, shapes that wrap, texts that are paths or no text, keys twice.
"""

from __future__ import annotations

import io
import json
import random
import re
import sqlite3
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from support.damage_bytes import LONGEST, TEXTS, bytes_damaged
from support.damage_proto import proto_damaged

NUMBERS = [
    *("0", "-1", "1", "2", "3", "7", "255", "65535", "65536", "1048576"),
    *(
        str(base + more)
        for base in (1 << 31, 1 << 32, 1 << 53, 1 << 61, 1 << 62, 1 << 63, 1 << 64)
        for more in (-1, 0, 1)
    ),
    *(str(-(1 << 31)), str(-(1 << 63)), str(-(1 << 63) - 1), "9" * 30, "9" * 500, "1e308", "-1e308", "1e309", "1e-320"),
    *("nan", "NaN", "Infinity", "-Infinity", "0.5", "-0.0", "007", "0x10", "1_000", "true", "null", "1e9", "1e18"),
]
SHAPES = [
    *([1 << 61], [1 << 31, 1 << 31], [1 << 32, 1 << 32], [40, 107367629, 536903681], [(1 << 40) - 1, (1 << 17) + 1]),
    *([0], [], [1 << 62, 4], [-1, 4], [0, 1 << 40, 1 << 40], [1] * 70, [1 << 56], [2, 3], [1 << 20, 1 << 20]),
]

LARGE = [(1 << shift) + more for shift in (20, 31, 40, 56, 60, 61, 62, 63) for more in (-1, 0, 1)]

Choose = random.Random


# --- JSON, by its tokens: a change costs microseconds, and keys twice or numbers of any length can be written ---

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


class Spans:
    """Where the values and members of a JSON text lie, as (start, end); found once per sample."""

    def __init__(self, text: bytes) -> None:
        """Reads an undamaged text."""
        self.text = text
        self.values: list[tuple[int, int]] = []
        self.members: list[tuple[int, int]] = []  # key and value of an object, or an element of a list
        self.keys: list[tuple[int, int]] = []
        open_, start = [], -1
        tokens = [(match[0], match.start(), match.end()) for match in TOKEN.finditer(text)]
        after_colon, member = False, [-1]
        for word, begin, end in tokens:
            if word in (b"{", b"["):
                open_.append((word, begin, member[-1] if after_colon else begin))
                member.append(-1)
                after_colon = False
            elif word in (b"}", b"]"):
                member.pop()
                _, start, whole = open_.pop()
                self.values.append((start, end))
                if open_:
                    self.members.append((whole, end))
            elif word == b":":
                after_colon = True
                self.keys.append((member[-1], start))
            elif word == b",":
                after_colon = False
            elif open_ and open_[-1][0] == b"{" and not after_colon:
                member[-1], start = begin, end
            else:
                self.values.append((begin, end))
                if open_:
                    self.members.append((member[-1] if after_colon else begin, end))
        self.numbers = [(a, b) for a, b in self.values if re.fullmatch(rb"-?\d{1,18}", text[a:b])]


def _literal(choose: Choose) -> bytes:
    what = choose.random()
    if what < 0.45:
        return choose.choice(NUMBERS).encode()
    if what < 0.7:
        return json.dumps(choose.choice(TEXTS), ensure_ascii=choose.random() < 0.5).replace("\\\\ud", "\\ud").encode()
    if what < 0.85:
        return json.dumps(choose.choice(SHAPES)).encode()
    if what < 0.9:
        deep = choose.choice([2, 50, 190, 210, 20_000])
        return b"[" * deep + b"]" * deep
    return choose.choice([b"[]", b"{}", b"null", b"true", b'{"a": 1}', b"[[]]", b"[1, 2, 3]", b'["x"]', b"[null]"])


def _json_change(spans: Spans, choose: Choose, others: Sequence[Spans]) -> tuple[int, int, bytes]:
    """One splice: start, end, what stands there now."""
    text, what = spans.text, choose.random()
    if spans.numbers and choose.random() < 0.4:  # gently: most of these are still read
        begin, end = choose.choice(spans.numbers)
        number = int(text[begin:end])
        return (
            begin,
            end,
            b"%d" % choose.choice([number + 1, number - 1, number * 2, number // 2, number << 20, 0, -number]),
        )
    if what < 0.4:
        begin, end = choose.choice(spans.values)
        return begin, end, _literal(choose)
    if what < 0.55:  # a value from elsewhere
        begin, end = choose.choice(spans.values)
        other = choose.choice([spans, *others])
        first, last = choose.choice(other.values)
        return begin, end, other.text[first:last]
    if what < 0.65 and spans.keys:
        begin, end = choose.choice(spans.keys)
        first, last = choose.choice(spans.keys)
        fresh = choose.choice([text[begin : end - 2] + b'"', b'""', b'"\\u0000"', text[first:last], b'"x.y"'])
        return begin, end, fresh
    if not spans.members:
        return 0, len(text), _literal(choose)
    begin, end = choose.choice(spans.members)
    if what < 0.75:  # gone, with its comma
        comma = re.compile(rb"\s*,").match(text, end)
        return begin, comma.end() if comma else end, b"" if comma else b"null"
    if what < 0.85:  # twice, or very often
        one = text[begin:end] + b", "
        times = choose.choice([1, 1, 2, 10, 10_000])
        return begin, begin, one * max(1, min(times, LONGEST // len(one)))
    if what < 0.92:  # exchanged with another
        first, last = choose.choice(spans.members)
        return begin, end, text[first:last]
    first, last = choose.choice(spans.values)
    deep = choose.choice([1, 2, 100, 201])
    return first, last, b"[" * deep + text[first:last] + b"]" * deep


def _renumbered(spans: Spans, choose: Choose) -> bytes:
    """One number replaced wherever it stands, as an extent that several shapes share: most of these are read."""
    begin, end = choose.choice(spans.numbers)
    old = spans.text[begin:end]
    new = b"%d" % choose.choice([0, 1, int(old) + 1, int(old) * 2, int(old) << 8, *LARGE])
    parts, at = [], 0
    for first, last in spans.numbers:
        if spans.text[first:last] == old:
            parts += [spans.text[at:first], new]
            at = last
    return b"".join([*parts, spans.text[at:]])


def json_damaged(spans: Spans, choose: Choose, others: Sequence[Spans] = ()) -> bytes:
    """Some changes of a JSON text; those that overlap an earlier one are left out."""
    if choose.random() < 0.12:
        return bytes_damaged(spans.text, choose)
    if spans.numbers and choose.random() < 0.25:
        return _renumbered(spans, choose)
    changes = sorted(_json_change(spans, choose, others) for _ in range(choose.choice([1, 1, 1, 1, 2, 4])))
    parts, at = [], 0
    for begin, end, new in changes:
        if begin >= at:
            parts += [spans.text[at:begin], new]
            at = end
    return b"".join([*parts, spans.text[at:]])


# --- bytes and tokens of other texts ---


WORD = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|[A-Za-z_][\w.\-]*|\"[^\"\n]*\"")


def text_damaged(data: bytes, choose: Choose, others: Sequence[bytes] = ()) -> bytes:
    """Words and numbers replaced, lines gone, twice, exchanged, cells too few or too many; or bytes."""
    if choose.random() < 0.15:
        return bytes_damaged(data, choose)
    for _ in range(choose.choice([1, 1, 1, 2, 4])):
        what, words = choose.random(), list(WORD.finditer(data))
        if what < 0.55 and words:
            one, other = choose.choice(words), choose.choice(words)
            fresh = choose.choice(
                [choose.choice(NUMBERS).encode(), choose.choice(TEXTS).encode("utf-8"), other[0], b"", b"\xff\xfe"]
            )
            data = data[: one.start()] + fresh + data[one.end() :]
        elif what < 0.8:
            lines = data.splitlines(keepends=True) or [b""]
            at, pick = choose.randrange(len(lines)), choose.random()
            if pick < 0.3:
                del lines[at]
            elif pick < 0.6:
                lines[at:at] = [lines[at]] * choose.choice([1, 2, min(3000, 1 + LONGEST // (len(lines[at]) + 1))])
            else:
                lines[at], lines[0] = lines[0], lines[at]
            data = b"".join(lines)
        else:
            at = choose.randrange(len(data) + 1)
            marks = [
                b",", b",,,,", b'"', b"\n", b"\r\n", b"\0", b"(", b"}" * 9, b"{" * 300, b"[" * 300, b"<", b":", b"#",
            ]  # fmt: skip
            data = data[:at] + choose.choice([*marks, b"\t", b"%", *(other[:200] for other in others)]) + data[at:]
    return data[:LONGEST]


# --- files with a header, archives ---


def header_damaged(data: bytes, start: int, choose: Choose, find: Callable[[bytes], Spans]) -> bytes:
    """A length of 8 bytes at `start`, JSON of that length behind it, then elements."""
    if choose.random() < 0.25:
        return bytes_damaged(data, choose)
    length = int.from_bytes(data[start : start + 8], "little")
    text = json_damaged(find(data[start + 8 : start + 8 + length]), choose)
    text += b" " * (-(len(text) + start + 8) % 64)
    said = len(text) if choose.random() < 0.9 else choose.choice([0, 1, len(text) + 1, len(data), 1 << 40, 1 << 63])
    rest = data[start + 8 + length :]
    if choose.random() < 0.1:
        rest = rest[: choose.randrange(len(rest) + 1)]
    return data[:start] + said.to_bytes(8, "little") + text + rest


def zip_damaged(data: bytes, choose: Choose) -> bytes:
    """A member with other contents and the right sum, another name, twice, gone; or bytes of the archive."""
    if choose.random() < 0.3:
        return bytes_damaged(data, choose)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    at = choose.randrange(len(members))
    what, (info, contents) = choose.random(), members[at]
    if what < 0.65:
        changed = text_damaged(contents, choose) if choose.random() < 0.3 else bytes_damaged(contents, choose)
        members[at] = (info, changed)
    elif what < 0.75:
        members[at] = (
            zipfile.ZipInfo(choose.choice(["../x.npy", "", "x", "a" * 300, info.filename + ".npy"])),
            contents,
        )
    elif what < 0.85:
        members.append((zipfile.ZipInfo(choose.choice(members)[0].filename), contents))
    elif what < 0.95:
        del members[at]
    else:
        members[at] = (info, bytes(1 << 20))
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # names twice are meant
        for one, contents in members:
            archive.writestr(one, contents, one.compress_type)
    return out.getvalue()


def store_damaged(data: bytes, choose: Choose) -> bytes:
    """A value of the table `results` changed, of another type, or gone; or bytes of the database."""
    if choose.random() < 0.5:
        return bytes_damaged(data, choose)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store")
        path.write_bytes(data)
        connection = sqlite3.connect(path)
        rows = connection.execute("SELECT key, value FROM results ORDER BY key").fetchall()
        key, value = choose.choice(rows)
        text = json_damaged(Spans(value.encode()), choose)
        fresh = choose.choice(
            [text.decode("utf-8", "replace"), text.decode("utf-8", "replace"), text, None, 3, "[]", "null"]
        )
        with connection:
            connection.execute("UPDATE OR IGNORE results SET value = ? WHERE key = ?", (fresh, key))
            if choose.random() < 0.1:
                connection.execute(
                    choose.choice(["DROP TABLE results", "ALTER TABLE results RENAME COLUMN value TO v"])
                )
        connection.close()
        return path.read_bytes()


# --- by form ---

_known: dict[bytes, Spans] = {}


def spans_of(text: bytes) -> Spans:
    """Of a sample; kept."""
    if text not in _known:
        _known[text] = Spans(text)
    return _known[text]


def damaged(data: bytes, form: str, choose: Choose, others: Sequence[bytes] = ()) -> bytes:
    """A damaged copy; a tsim is JSON behind 8 bytes and its length, a safetensors JSON behind its length."""
    if form == "json":
        return json_damaged(spans_of(data), choose, [spans_of(other) for other in others])
    if form == "text":
        return text_damaged(data, choose, others)
    if form in ("tsim", "safetensors"):
        return header_damaged(data, 8 if form == "tsim" else 0, choose, spans_of)
    plain = {"zip": zip_damaged, "proto": proto_damaged, "store": store_damaged, "bytes": bytes_damaged}
    return plain[form](data, choose)
