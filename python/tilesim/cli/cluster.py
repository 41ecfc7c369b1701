"""`tilesim cluster`: many chips."""

from __future__ import annotations

from .cluster_step import search, step
from .complete import App
from .examples import epilog

cluster_app = App(no_args_is_help=True, help="Programs of many chips.")
cluster_app.command("step", epilog=epilog("cluster step"))(step)
cluster_app.command("search", epilog=epilog("cluster search"))(search)
