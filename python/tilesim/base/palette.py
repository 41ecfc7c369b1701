"""Colours with one meaning each on page, notebook and terminal, safe for colour-blind readers.

Source: Paul Tol, "Colour Schemes", SRON/EPS/TN/09-002, scheme "bright".
"""

from __future__ import annotations

__all__ = ["BOUND", "OTHER_COLOUR", "SERIES", "STATE", "TERMINAL"]

BLUE, RED, GREEN, YELLOW, CYAN, PURPLE, GREY = (
    "#4477aa",
    "#ee6677",
    "#228833",
    "#ccbb44",
    "#66ccee",
    "#aa3377",
    "#bbbbbb",
)

SERIES = (BLUE, RED, GREEN, YELLOW, CYAN, PURPLE, GREY)
"""Colours of series without a fixed meaning, in this order."""

OTHER_COLOUR = GREY

BOUND = {
    "compute": BLUE,
    "memory": RED,
    "network": GREEN,
    "dma": "#117733",
    "latency": YELLOW,
    "vector": CYAN,
    "launch": PURPLE,
    "cache": "#cc99bb",
    "host": "#777777",
    "link": "#999933",
}
"""By what bounds an operation (`Result.bottleneck`)."""

STATE = {
    "busy": BLUE,
    "wait_load": RED,
    "wait_store": PURPLE,
    "wait_dependency": YELLOW,
    "wait_port": GREEN,
    "idle": "#88888840",
}
"""By the state of a unit (`Result.units`)."""

TERMINAL = {
    "compute": "blue",
    "memory": "red",
    "network": "green",
    "dma": "bright_green",
    "latency": "yellow",
    "vector": "cyan",
    "launch": "magenta",
}
"""The nearest of a terminal's sixteen colours."""
