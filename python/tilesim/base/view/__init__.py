"""Pages and notebook views, made of sections with cards, bars, tables and charts.

A result gives elements (`Cards`, `Bars`, `Rows`, `Notes`, `Picture`, and the charts `Points`,
`Boxes`, `Steps`) in sections. `fragment` renders them as light HTML for a notebook; `document` renders a page whose
tables sort, filter and fold and whose charts zoom.
"""

from .charts import Boxes, Points, Steps
from .elements import Bar, Bars, Card, Cards, Column, Notes, Picture, Rows, Section, rows_of
from .pages import document, fragment
from .reasons import Reason, Reasons

__all__ = [
    "Bar",
    "Bars",
    "Boxes",
    "Card",
    "Cards",
    "Column",
    "Notes",
    "Picture",
    "Points",
    "Reason",
    "Reasons",
    "Rows",
    "Section",
    "Steps",
    "document",
    "fragment",
    "rows_of",
]
