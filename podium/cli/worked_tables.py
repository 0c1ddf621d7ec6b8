"""`podium lab worked-numbers` for the terminal: a table per source, and what is wrong where a source differs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from podium._runtime.words import counted
from podium.cli.application import show
from podium.cli.terminal import print_table
from podium.lab.worked.example import Example

_COLUMNS = "", "example", "printed", "by hand", "ours", "agrees"
_KINDS = {"number": "numbers", "formula": "formulas, at inputs of ours"}
Numbered = tuple[int, Example]


def print_worked(examples: Sequence[Example]) -> None:
    for (source, kind), group in groupby(enumerate(examples, 1), key=lambda line: (line[1].source, line[1].kind)):
        lines = list(group)
        show(f"{source}: {_KINDS[kind]}")
        print_table(_COLUMNS, [_cells(number, example) for number, example in lines])
        for numbers, slip in _slips(lines):
            show(f"{numbers}: {slip}")
        show("")
    agree = sum(example.agrees for example in examples)
    show(f"{counted(len(examples), 'example')}: {agree} agree with the source, {len(examples) - agree} do not.")


def worked_json(examples: Sequence[Example]) -> dict[str, Any]:
    return {
        "examples": [example.as_dict() for example in examples],
        "agree": sum(example.agrees for example in examples),
        "differ": sum(not example.agrees for example in examples),
        "unexpected": sum(not example.is_expected for example in examples),
    }


def unexpected(examples: Iterable[Example]) -> list[str]:
    """A sentence per example of which Podium computes another value than the arithmetic gives."""
    wrong = (example for example in examples if not example.is_expected)
    return [
        f"{one.what}: expected {one.by_hand} = {one.expected:.7g} but Podium computes {one.ours:.7g}. "
        "Run podium doctor, and report it."
        for one in wrong
    ]


def _cells(number: int, example: Example) -> tuple[str, ...]:
    ours = _shown(example.ours, example.digits)
    return str(number), example.what, _printed(example), example.by_hand, ours, "yes" if example.agrees else "no"


def _printed(example: Example) -> str:
    """What the source prints; of a formula its value too, of one that is the arithmetic beside it nothing else."""
    value = _shown(example.printed_value, example.digits)
    if example.kind == "number" or value == example.printed:
        return example.printed
    return value if example.printed == example.by_hand else f"{example.printed} = {value}"


def _shown(value: float, digits: int) -> str:
    """Rounded, without zeros at the end: 0.6797, 31."""
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _slips(lines: Sequence[Numbered]) -> list[tuple[str, str]]:
    """What is wrong, with the numbers of the lines it explains."""
    by_slip: dict[str, list[str]] = {}
    for number, example in lines:
        if example.slip:
            by_slip.setdefault(example.slip, []).append(str(number))
    return [(", ".join(numbers), slip) for slip, numbers in by_slip.items()]
