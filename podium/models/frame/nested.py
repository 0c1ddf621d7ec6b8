"""Models as parameters of other models, as values and as text.

    lambdamart                                       LambdaMART()
    linear(objective=logistic, max_iter=50)          Linear(objective="logistic", max_iter=50)
    lambdamart, linear(transform=["raw", "rank"])    a list of two

Names and settings are those of the registry, as `podium train` takes them.
"""

from __future__ import annotations

from typing import Any

from podium.models.frame.parameters import Kind

_OPEN, _CLOSE = "([{", ")]}"


def is_model(value: Any) -> bool:
    from podium.models.frame.ranker import Ranker

    return isinstance(value, Ranker)


def are_models(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(map(is_model, value))


def read_model(text: str) -> Any:
    """The model that is written so; ValueError for an unknown name or setting."""
    from podium.models.registry import find_model, read_settings

    name, bracket, rest = text.strip().partition("(")
    if bracket and not rest.endswith(")"):
        raise ValueError(f"the settings of {name} do not end with a bracket: {text!r}.")
    entry = find_model(name.strip())
    return entry.kind(**read_settings(entry, _split(rest[:-1])))


def read_models(text: str) -> list[Any]:
    listed = text.strip()
    listed = listed[1:-1] if listed.startswith("[") and listed.endswith("]") else listed
    return [read_model(part) for part in _split(listed)]


def _split(text: str) -> list[str]:
    """Parts between commas that are in no brackets: `a(b, c), d` -> ["a(b, c)", "d"]"""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


MODEL = Kind("a model", is_model, read_model)
MODELS = Kind("models", are_models, read_models)
