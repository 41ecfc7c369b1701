"""Renders sections as an HTML page or as a fragment for a notebook."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .. import figures
from ..figures import short
from .elements import Section

__all__ = ["LIBRARY", "document", "fragment"]

#: The package that draws zooming charts, and its scripts.
LIBRARY = "bokeh"
_SCRIPTS = ("server/static/js/bokeh.min.js", "server/static/js/bokeh-api.min.js")
_BUNDLED = ("figures.js", "table.js", "reasons.js", "charts.js", "page.js")
_STILL = ("table", "reasons")  # kinds of elements that are not charts


@lru_cache(maxsize=16)
def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _inline(script: str) -> str:
    """Escapes a script's text for HTML."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def library() -> tuple[str, str]:
    """Returns the scripts of the installed plotting library."""
    found = find_spec(LIBRARY)
    places = [Path(place) for place in (found.submodule_search_locations or ())] if found else []
    for place in places:
        files = [place / name for name in _SCRIPTS]
        if all(file.is_file() for file in files):
            return "\n".join(_inline(file.read_text(encoding="utf-8")) for file in files), ""
    remedy = "pip install 'tilesim[notebook]'"
    return (
        "",
        f"The package {LIBRARY} is not installed: charts do not zoom. Run {remedy} and write the page again.",
    )


def _body(sections: Sequence[Section], live: bool) -> str:
    parts = []
    for i, section in enumerate(sections):
        anchor = escape(section.anchor or f"section-{i}")
        title = f"<h2>{escape(section.title)}</h2>" if section.title else ""
        inner = "".join(part.html(live) for part in section.parts)
        parts.append(f'<section{f""" id="{anchor}" """ if live else ""}>{title}{inner}</section>')
    return "".join(parts)


def fragment(title: str, sections: Sequence[Section]) -> str:
    """Writes HTML for a notebook: no script, no external resources, the first rows of tables."""
    head = f"<h1>{escape(short(title, 300))}</h1>" if title else ""
    return f'<div class="ts-view"><style>{_asset("view.css")}</style>{head}{_body(sections, False)}</div>'


def document(title: str, sections: Sequence[Section], subtitle: str = "") -> str:
    """Writes a self-contained page: tables sort, filter and fold; charts zoom if Bokeh is installed."""
    found = [one for section in sections for part in section.parts if (one := part.data()) is not None]
    charts = any(one["kind"] not in _STILL for one in found)
    scripts, lacking = library() if charts else ("", "")
    data = json.dumps({"units": figures.units(), "parts": found}, separators=(",", ":"), ensure_ascii=False)
    title = short(title, 300)
    links = "".join(f'<a href="#{escape(one.anchor)}">{escape(one.title)}</a>' for one in sections if one.anchor)
    own = "\n".join(_inline(_asset(name)) for name in _BUNDLED)
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>{escape(title)}</title><style>{_asset('view.css')}\n{_asset('page.css')}</style></head>",
            f'<body class="ts-view"><header><div><h1>{escape(title)}</h1><p class="note">{escape(subtitle)}</p></div>',
            '<button id="theme" type="button" aria-label="light or dark">◐</button></header>',
            f"<nav>{links}</nav>",
            f'<p class="note" id="lacking">{escape(lacking)}</p>' if lacking else "",
            f"<main>{_body(sections, True)}</main>",
            f'<script type="application/json" id="data">{_json(data)}</script>',
            f'<script type="text/plain" id="library">{scripts}</script>' if scripts else "",
            f'<script>"use strict";(() => {{\n{own}\n}})();</script></body></html>\n',
        )
    )


def _json(text: str) -> str:
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def parts_of(text: str) -> dict[str, Any]:
    """Reads the data from a page's text."""
    inner = text.partition('id="data">')[2].partition("</script>")[0]
    return dict(json.loads(inner))
