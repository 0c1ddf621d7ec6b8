"""Words for people: excerpts are short and printable, and a terminal gets no control characters."""

import json

import pytest

from podium._runtime.words import excerpt, printable, printable_json

CONTROLS = [chr(code) for code in (*range(9), *range(11, 32), *range(127, 160), 0x202E, 0x2066)]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a", "'a'"),
        ("x" * 78, "'" + "x" * 78 + "'"),
        ("x" * 79, "'" + "x" * 76 + "..."),
        ("\x1b[31m\n", "'\\x1b[31m\\n'"),
        ([1, "b"], "[1, 'b']"),
        ([10**5000], "<list>"),
    ],
)
def test_an_excerpt_is_quoted_and_has_at_most_80_characters(value, shown):
    assert excerpt(value) == shown
    assert len(shown) <= 80


def test_control_characters_are_no_part_of_what_is_printed():
    assert printable("".join(f"a{control}" for control in CONTROLS)) == "a" * len(CONTROLS)
    assert printable("naïve \U0001f600\tx\ny \u200d") == "naïve \U0001f600\tx\ny \u200d"
    assert printable("caf\udce9") == "caf\ufffd"


def test_json_has_the_same_value_without_control_characters():
    value = {"title": "".join(CONTROLS) + "\n\té\udce9"}
    text = printable_json(json.dumps(value, ensure_ascii=False))
    assert text.isprintable()
    assert json.loads(text) == value
