"""Plugins: modules of the user that register models, objectives, metrics or formats when they are imported."""

from __future__ import annotations

import os
import sys
from importlib import import_module

imported: list[str] = []  # in this process; worker processes import the same


def import_plugin(name: str) -> None:
    """Import a module that is installed or lies in the current folder."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        import_module(name)
    except Exception as error:  # whatever the code of the plugin raises
        reason = f"{type(error).__name__}: {error}"
        advice = "Give the name of a module that is installed or in the current folder, without .py."
        raise ValueError(f"--plugin {name}: cannot be imported ({reason}). {advice}") from error
    if name not in imported:
        imported.append(name)
