"""What screen readers and keyboards need and the theme leaves out: levels of headings, names of regions."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx


def name_regions(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Captions of the navigation are headings of level 2."""
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


def finish(app: Sphinx, error: Exception | None) -> None:
    """Name the two sidebars."""
    if error is not None:
        return
    for path in app.outdir.rglob("*.html"):
        text = path.read_text("utf-8")
        text = text.replace('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="Pages">')
        text = re.sub(
            r'<aside class="toc-drawer( no-toc)?">', r'<aside class="toc-drawer\1" aria-label="This page">', text
        )
        path.write_text(text, "utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", name_regions, priority=900)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
