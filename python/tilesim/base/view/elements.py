"""Converts cards, bars, tables and notes to HTML, and escapes all texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Protocol

from .. import figures
from ..folding import pattern
from ..palette import OTHER_COLOUR

__all__ = [
    "Bar",
    "Bars",
    "Card",
    "Cards",
    "Column",
    "Element",
    "Notes",
    "Picture",
    "Rows",
    "Section",
    "as_text",
    "indexed",
    "packed",
    "picks",
    "rows_of",
]

_FORMS = {
    "count": figures.count,
    "percent": figures.percent,
    "ratio": figures.ratio,
    "duration": figures.duration,
    "size": figures.size,
}
_NOTHING = "–"
_TIP = 240  # most characters of a full name


def as_text(form: str, value: Any) -> str:
    """Formats a value."""
    if value is None:
        return _NOTHING
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if form.startswith("+"):
        return figures.signed(value, lambda one: as_text(form[1:], one))
    if form.startswith("rate:"):
        return figures.rate(value, form.removeprefix("rate:")).rstrip()
    return _FORMS[form](value) if form in _FORMS else str(value)


def picks(table: str, rows: Sequence[int], name: str = "") -> str:
    """Returns HTML attributes that link an element to table rows, so that a click shows their details."""
    if not rows:
        return ""
    told = f' data-name="{escape(name)}"' if name else ""
    return f' data-table="{escape(table)}" data-rows="{" ".join(map(str, rows))}"{told}'


class Element(Protocol):
    """Base class of the elements of a section."""

    def html(self, live: bool = False) -> str:
        """Returns the HTML of the element."""
        ...

    def data(self) -> dict[str, Any] | None:
        """Returns data for the page's script, or None."""
        ...


@dataclass(frozen=True)
class Card:
    """A single figure."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Cards:
    """The headline figures."""

    cards: Sequence[Card]

    def html(self, live: bool = False) -> str:
        """Draws a box per card."""
        boxes = (
            f'<div class="card"><div class="label">{escape(card.label)}</div><div class="value">{escape(card.value)}'
            f"</div>{f'<div class=note>{escape(card.note)}</div>' if card.note else ''}</div>"
            for card in self.cards
        )
        return f'<div class="cards">{"".join(boxes)}</div>'

    def data(self) -> dict[str, Any] | None:
        """Returns None: cards need no script."""
        return None


@dataclass(frozen=True)
class Bar:
    """A stacked bar: parts by name, and a text."""

    name: str
    parts: Mapping[str, float]
    text: str = ""


@dataclass(frozen=True)
class Bars:
    """Stacked bars on one scale, with a legend."""

    rows: Sequence[Bar]
    colours: Mapping[str, str]
    form: str = "count"
    whole: float = 0.0
    caption: str = ""
    whole_names: bool = False

    def html(self, live: bool = False) -> str:
        """Draws one row per bar; widths are relative to `whole` (0: to the longest bar)."""
        whole = self.whole or max((math.fsum(row.parts.values()) for row in self.rows), default=0.0) or 1.0
        used = dict.fromkeys(name for row in self.rows for name, number in row.parts.items() if number > 0)
        legend = "".join(
            f'<span class="key"><i style="background:{self.colours.get(name, OTHER_COLOUR)}"></i>'
            f"{escape(name.replace('_', ' '))}</span>"
            for name in [*(name for name in self.colours if name in used), *(n for n in used if n not in self.colours)]
        )
        lines = []
        for row in self.rows:
            tip = escape(figures.short(row.name, _TIP))
            pieces = "".join(
                f'<i style="width:{100 * number / whole:.3f}%;background:{self.colours.get(name, OTHER_COLOUR)}" '
                f'title="{tip}: {escape(name.replace("_", " "))} {escape(as_text(self.form, number))}"></i>'
                for name, number in row.parts.items()
                if number > 0
            )
            short = tip if self.whole_names else escape(figures.short(row.name, 48))
            lines.append(
                f'<div class="name" title="{tip}">{short}</div>'
                f'<div class="bar">{pieces}</div><div class="text">{escape(row.text)}</div>'
            )
        caption = f'<p class="note">{escape(self.caption)}</p>' if self.caption else ""
        kind = "bars whole" if self.whole_names else "bars"
        return f'<div class="legend">{legend}</div><div class="{kind}">{"".join(lines)}</div>{caption}'

    def data(self) -> dict[str, Any] | None:
        """Returns None: bars need no script."""
        return None


@dataclass(frozen=True)
class Column:
    """A column of a table: key in the rows, header, format.

    `of` computes it: (a, b, scale) is scale × a / b, (a, "", scale) is scale × a, from sums for folded rows. Other
    number columns are added when rows are folded, unless `added` is False. `whole` texts are not shortened.
    """

    key: str
    title: str
    form: str = "count"
    of: tuple[str, str, float] | None = None
    added: bool = True
    shown: bool = True
    whole: bool = False

    def value(self, row: Mapping[str, Any]) -> Any:
        """Returns the column's value in a row."""
        if self.of is None:
            return row[self.key]
        above, below, scale = self.of
        under = row[below] if below else 1.0
        return scale * row[above] / under if under else None


@dataclass(frozen=True)
class Rows:
    """A table: in a page it sorts, filters and folds by layer (from `least` rows on); elsewhere its first rows.

    `order` names the column by which the rows are sorted, largest first; folded rows are sorted by it too.
    """

    name: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]
    fold: str = ""
    choice: str = ""
    colours: Mapping[str, str] = field(default_factory=dict)
    most: int = 12
    what: str = "rows"
    hint: str = ""
    least: int = 13
    order: str = ""

    def html(self, live: bool = False) -> str:
        """Draws the first rows, in a container for the script."""
        columns = [column for column in self.columns if column.shown]
        head = "".join(f'<th scope="col"{_side(column)}>{escape(column.title)}</th>' for column in columns)
        shown = self.rows[: 40 if live else self.most]
        body = "".join("<tr>" + "".join(self._cell(column, row) for column in columns) + "</tr>" for row in shown)
        left = len(self.rows) - len(shown)
        more = f'<p class="note">and {left:,} more {escape(self.what)}</p>' if left else ""
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        if not self.rows:
            return f'<p class="note">no {escape(self.what)}</p>'
        if not live or len(self.rows) < self.least:
            return f'<div class="window">{table}</div>{more}'
        hint = f'<p class="note">{escape(self.hint)}</p>' if self.hint else ""
        room = f'<div class="window" tabindex="0">{table}</div>{more}'
        return f'<div class="table" id="table-{escape(self.name)}">{room}</div>{hint}'

    def _cell(self, column: Column, row: Mapping[str, Any]) -> str:
        value = column.value(row)
        text = escape(as_text(column.form, value))
        if column.form != "text":
            return f"<td>{text}</td>"
        dot = self.colours.get(str(value), "") if column.key == self.choice else ""
        mark = f'<i class="dot" style="background:{dot}"></i>' if dot else ""
        if column.whole:
            return f'<td class="left sentence">{mark}{text}</td>'
        tip = escape(figures.short(as_text("text", value), _TIP))
        return f'<td class="left" title="{tip}">{mark}{escape(figures.short(as_text("text", value), 60))}</td>'

    def data(self) -> dict[str, Any] | None:
        """The columns with their values; repeated texts are stored once."""
        if len(self.rows) < self.least:
            return None
        values = {
            column.key: packed([row[column.key] for row in self.rows]) for column in self.columns if column.of is None
        }
        found = {
            "kind": "table",
            "name": self.name,
            "what": self.what,
            "choice": self.choice,
            "order": self.order,
            "colours": dict(self.colours),
            "columns": [
                {"key": c.key, "title": c.title, "form": c.form, "of": c.of, "added": c.added, "shown": c.shown}
                for c in self.columns
            ],
            "values": values,
            "length": len(self.rows),
        }
        if self.fold:
            patterns = [pattern(str(row[self.fold])) for row in self.rows]
            if len(set(patterns)) < len(patterns):
                found["fold"] = {"key": self.fold, **indexed(patterns)}
        return found


def _side(column: Column) -> str:
    return ' class="left"' if column.form == "text" else ""


def _number(value: Any) -> Any:
    """Rounds a fraction to six digits, and keeps integers; None unless finite."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 1e15 else float(f"{value:.6g}")
    return value


def indexed(texts: Sequence[str]) -> dict[str, Any]:
    """Returns the distinct texts, and the index of each text."""
    places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return {"of": list(places), "at": [places[text] for text in texts]}


def packed(values: list[Any]) -> Any:
    """Encodes a column for the page: a list, indexed texts, or one value for all rows."""
    if all(isinstance(value, str) for value in values):
        return indexed(values) if len(set(values)) <= len(values) / 2 else values
    numbers = [_number(value) for value in values]
    return {"all": numbers[0]} if len(set(numbers)) == 1 else numbers


def rows_of(name: str, rows: Sequence[Mapping[str, Any]], forms: Mapping[str, str], what: str = "rows") -> Rows:
    """Returns a table with the rows' keys as headers; values without a format are shown as text."""
    plain = (bool, float, int, str, type(None))
    rows = [{key: one if isinstance(one, plain) else str(one) for key, one in row.items()} for row in rows]
    columns = []
    for key in rows[0] if rows else ():
        values = [row[key] for row in rows]
        text = any(not isinstance(value, (int, float, type(None))) or isinstance(value, bool) for value in values)
        broken = any(isinstance(value, float) and not value.is_integer() for value in values)
        form = forms.get(key, "text" if text else "rate:" if broken else "count")
        columns.append(Column(key, key.replace("_", " "), form, added=form in ("count", "size", "duration")))
    return Rows(name, columns, rows, what=what)


@dataclass(frozen=True)
class Notes:
    """Sentences, as a paragraph or a list."""

    lines: Sequence[str]

    def html(self, live: bool = False) -> str:
        """Writes a paragraph, or a list."""
        if len(self.lines) == 1:
            return f'<p class="note">{escape(self.lines[0])}</p>'
        return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in self.lines) + "</ul>" if self.lines else ""

    def data(self) -> dict[str, Any] | None:
        """Returns None: notes need no script."""
        return None


@dataclass(frozen=True)
class Picture:
    """An SVG drawing with escaped texts."""

    svg: str
    caption: str = ""

    def html(self, live: bool = False) -> str:
        """Returns the drawing in a scrolling box."""
        caption = f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        return f'<figure><div class="window">{self.svg}</div>{caption}</figure>'

    def data(self) -> dict[str, Any] | None:
        """Returns None: pictures need no script."""
        return None


@dataclass(frozen=True)
class Section:
    """Elements under a title."""

    title: str
    parts: Sequence[Element]
    anchor: str = ""
