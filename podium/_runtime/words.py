"""Words for people: the nearest name to a misspelt one, numbers with nouns, excerpts, and what a terminal shows."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any


def did_you_mean(word: Any, choices: Iterable[str], cutoff: float = 0.6) -> str:
    """A sentence to put behind an error, or nothing: `" Did you mean 'ndcg'?"`."""
    near = get_close_matches(str(word), list(choices), n=1, cutoff=cutoff)
    return f" Did you mean {near[0]!r}?" if near else ""


def is_slip(word: str, name: str) -> bool:
    """Whether a word is a name with one or two slips of the fingers, not another name: `ndgc`, `presicion`.

    Letters that are swapped are one slip, as is one that is missing, doubled or wrong. The first letter is right.
    """
    if word[:1] != name[:1]:
        return False
    rows = [list(range(len(name) + 1))]  # optimal string alignment
    for i, letter in enumerate(word, 1):
        row = [i]
        for j, other in enumerate(name, 1):
            best = min(rows[-1][j] + 1, row[j - 1] + 1, rows[-1][j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == name[j - 2] and word[i - 2] == other:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1] <= (1 if len(name) < 5 else 2)


def check_choice(what: str, value: Any, choices: Iterable[str]) -> None:
    """Refuse a name that is none of the choices."""
    choices = list(choices)
    if value not in choices:
        raise ValueError(f"{what} must be one of {', '.join(choices)}; got {value!r}.{did_you_mean(value, choices)}")


def counted(number: int, one: str, several: str | None = None) -> str:
    """`counted(1, "row")` -> `1 row`, `counted(2000, "query", "queries")` -> `2,000 queries`."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def program_name() -> str:
    """How this command line is called, to be typed again: `podium`, or `.venv/bin/podium` if that is not on PATH."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":  # python -m podium
        is_found = shutil.which("python") == sys.executable
        return "python -m podium" if is_found else f"{_typed(Path(sys.executable))} -m podium"
    on_path = shutil.which("podium")
    is_typed = called.parent == Path() or called.stem.lower() != "podium"  # or it is not the command line
    return "podium" if is_typed or (on_path and Path(on_path).samefile(called)) else _typed(called)


def _typed(program: Path) -> str:
    """The path as it is shortest, quoted for a shell."""
    here = Path.cwd()
    return shlex.quote(str(program.relative_to(here) if program.is_relative_to(here) else program))


_LONGEST_EXCERPT = 80


def excerpt(value: Any) -> str:
    """A value for a message: quoted, on one line, printable, at most 80 characters."""
    try:
        text = repr(value[: 2 * _LONGEST_EXCERPT] if isinstance(value, str) else value)
    except (ValueError, RecursionError):  # integers of more than 4,300 digits
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST_EXCERPT else f"{text[: _LONGEST_EXCERPT - 3]}..."


# C0 and C1 but for line feed and tab, and what reverses the direction of text: they make a terminal show another text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SURROGATE = re.compile("[\ud800-\udfff]")  # which no output can encode


def printable(text: str) -> str:
    """Text for a terminal, without control characters."""
    return text if text.isprintable() else _SURROGATE.sub("\ufffd", _CONTROL.sub("", text))


def printable_json(text: str) -> str:
    """JSON for a terminal: the same value, with control characters escaped. JSON itself escapes only some."""
    escaped = _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped)
