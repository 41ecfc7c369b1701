"""Tables of the command line: those of `base.columns`, which `print` lays out as well."""

from ..base.columns import ROWS, Column, bar, bound, cut, folded, layout, name, number, percent, text

__all__ = ["ROWS", "Column", "bar", "bound", "cut", "folded", "layout", "name", "number", "percent", "text"]
