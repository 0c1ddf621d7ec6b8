"""Docstrings and signatures as Markdown."""

from __future__ import annotations

import inspect
import re
from typing import Any

ADDRESS = re.compile(r"<([\w.]+)[^<>]* at 0x[0-9a-f]+>")  # in the repr of a default: another one in every process
PARAMETERS = re.compile(r"\n?^Parameters\n-{3,}\n.*\Z", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+[^`]*`+)")
SPECIAL = re.compile(r"([*<$\\\[\]])")


def text_of(thing: Any) -> str:
    """The docstring without the section that lists parameters; those of a dataclass without one are its signature."""
    text = PARAMETERS.sub("", inspect.getdoc(thing) or "").strip()
    return "" if text.startswith(f"{getattr(thing, '__name__', '')}(") else text


def as_markdown(text: str) -> str:
    """Paragraphs as they are, with characters that Markdown would read as markup escaped; examples as code."""
    return "\n\n".join(_block(block) for block in re.split(r"\n{2,}", text.strip("\n")))


def first_sentence(text: str) -> str:
    return escaped(re.split(r"(?<=[.:])\s", " ".join(text.split("\n\n")[0].split()), maxsplit=1)[0])


def escaped(text: str) -> str:
    """Outside of code, nothing but words."""
    parts = CODE.split(text)
    return "".join(part if part.startswith("`") else SPECIAL.sub(r"\\\1", part) for part in parts)


def _block(block: str) -> str:
    lines = block.split("\n")
    if lines[0].startswith(">>>"):
        return "\n".join(["```pycon", *lines, "```"])
    if all(line.startswith("    ") for line in lines):
        return "\n".join(["```text", *(line[4:] for line in lines), "```"])
    start = next((number for number, line in enumerate(lines) if line.startswith((">>>", "    "))), len(lines))
    rest = lines[start:]
    if start and rest and _is_code(rest):
        rest = ["", _block("\n".join(rest))]
    return "\n".join([*(escaped(line) for line in lines[:start]), *rest])


def _is_code(lines: list[str]) -> bool:
    return lines[0].startswith(">>>") or all(line.startswith("    ") for line in lines)


def signature_of(thing: Any) -> str:
    """`(X, y=None, *, group=None)`, with types where they are declared."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    shown, keyword_only = [], False
    for one in signature.parameters.values():
        if one.name in ("self", "cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and not keyword_only and not any(name.startswith("*") for name in shown):
            shown.append("*")
        keyword_only |= one.kind is one.KEYWORD_ONLY
        shown.append(_parameter(one))
    return f"({', '.join(shown)})"


def _parameter(one: inspect.Parameter) -> str:
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    annotation = one.annotation if isinstance(one.annotation, str) else getattr(one.annotation, "__name__", "")
    typed = f": {annotation}" if one.annotation is not one.empty and annotation not in ("Any", "") else ""
    if one.default is one.empty:
        return f"{stars}{one.name}{typed}"
    value = ADDRESS.sub(r"\1", repr(one.default))
    return f"{one.name}{typed} = {value}" if typed else f"{one.name}={value}"
