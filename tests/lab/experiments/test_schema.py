"""Plain values as records: what annotations allow is taken over, and everything else is named with its path."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from podium.lab.experiments.schema import NOT_EMPTY, Limits, SchemaError, read


@dataclass(frozen=True)
class Part:
    rate: Annotated[float, Limits(above=0, high=1)] | None = None
    kind: Literal["one", "two"] = "one"


@dataclass(frozen=True)
class Whole:
    name: str
    seeds: Annotated[tuple[int, ...], NOT_EMPTY] = (0,)
    parts: dict[str, Part] = field(default_factory=dict)
    rows: list[float | None] = field(default_factory=list)
    rest: Any = None


def test_values_become_the_types_of_their_annotations():
    found = read(Whole, {"name": "n", "seeds": [3, 4], "parts": {"a": {"rate": 1}}, "rows": [1, None, 0.5]})
    assert found == Whole("n", (3, 4), {"a": Part(1.0)}, [1.0, None, 0.5])
    assert isinstance(found.parts["a"].rate, float)


@pytest.mark.parametrize(
    ("values", "problems"),
    [
        ({}, {("name",): "expected a value but found none. Add it."}),
        ({"name": "n", "rst": 1}, {("rst",): "unknown key. Did you mean 'rest'?"}),
        ({"name": 3, "seeds": ["0", True]}, {("name",): "string", ("seeds", 0): "integer", ("seeds", 1): "integer"}),
        ({"name": "n", "seeds": []}, {("seeds",): "expected at least one but found none."}),
        (
            {"name": "n", "parts": {"a": {"rate": 0}, "b": 3}},
            {("parts", "a", "rate"): "than 0", ("parts", "b"): "an ob"},
        ),
        (
            {"name": "n", "parts": {"a": {"kind": "tow"}}},
            {("parts", "a", "kind"): "'two'; got 'tow'. Did you mean 'two'"},
        ),
        ({"name": "n", "rows": [0.5, float("inf"), 10**400]}, {("rows", 1): "finite", ("rows", 2): "finite"}),
    ],
)
def test_all_problems_are_named_with_their_paths(values, problems):
    with pytest.raises(SchemaError) as caught:
        read(Whole, values)
    found = {problem.path: problem.sentence for problem in caught.value.problems}
    assert found.keys() == problems.keys()
    assert all(words in found[path] for path, words in problems.items())
