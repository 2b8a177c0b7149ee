"""The built files of the browser side (`static/`, made from `extensions/widgets`); they ship with the package.

The large Graphviz library is kept compressed (`viz.js.gz`).
"""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent / "static"


def path(name: str) -> Path:
    """Where a built file is. Raises FileNotFoundError when the front end was never built."""
    found = _HERE / name
    if not found.is_file():
        raise FileNotFoundError(f"{name} is not built: run `make front-end`")
    return found


@cache
def text(name: str) -> str:
    """The text of a built file; one that ends in `.gz` is unpacked."""
    data = path(name).read_bytes()
    return (gzip.decompress(data) if name.endswith(".gz") else data).decode("utf-8")
