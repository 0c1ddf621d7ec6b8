"""Arithmetic as text: its value, its decimals, and that nothing else is read."""

import math

import pytest

from podium.lab.worked.arithmetic import decimals_of, value_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 3/4", 1.75),
        ("-0.8", -0.8),
        ("2 - -3", 5),
        ("1.444 - 0.236", 1.208),
        ("2**3 * (1 - 1/2)", 4),
        ("-2**2", -4),
        ("ln(exp(2)) + log2(8) + sqrt(9)", 2 + 3 + 3),
        ("1/log2(3)", math.log(2) / math.log(3)),
    ],
)
def test_a_text_has_the_value_of_its_arithmetic(text, value):
    assert value_of(text) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').getcwd()",
        "open('x')",
        "ln",
        "ln(1, 2)",
        "ln(x=1)",
        "exp.real",
        "(1).real",
        "'1'",
        "True",
        "1j",
        "1 if 1 else 2",
        "1 < 2",
        "[1]",
        "(lambda: 1)()",
        "7 // 2",
        "1 +",
        "",
    ],
)
def test_anything_but_arithmetic_is_refused_with_what_is_expected(text):
    with pytest.raises(ValueError, match=r"expected numbers, \+ - \* / \*\*, brackets and ln, log2, exp, sqrt; got "):
        value_of(text)


@pytest.mark.parametrize(
    ("text", "decimals"),
    [("0.95", 2), ("48.0", 1), ("883.", 0), ("3/4", None), ("31", None), ("1.444 - 0.236", 3), ("1 + 0.25", 2)],
)
def test_decimals_are_the_most_digits_behind_a_point(text, decimals):
    assert decimals_of(text) == decimals
