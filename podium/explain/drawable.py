"""Drawable: results that have a picture get `plot` and `picture`, whatever they show."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, ClassVar


class Drawable:
    """The frame: a result names its function of `podium.explain.drawings`. Drawing needs matplotlib."""

    drawing: ClassVar[str]

    def plot(self, ax: Any = None) -> Any:
        """Draw it into these axes of matplotlib, or into a new figure, which notebooks show; returns the axes."""
        return self._draw()(self, ax=ax)

    def picture(self, path: str | os.PathLike[str]) -> None:
        """Draw it to an SVG or PNG file, by its suffix."""
        self._draw()(self, path)

    def _draw(self) -> Any:
        return getattr(import_module("podium.explain.drawings"), self.drawing)
