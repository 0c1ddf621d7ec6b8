"""Arithmetic as text, `"(1 + 4/5) / 2"`, and its value: what is shown is what is compared.

Numbers, + - * / **, brackets and the functions below; nothing else of the language is read, so nothing is run.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable

FUNCTIONS: dict[str, Callable[[float], float]] = {
    "ln": math.log,
    "log2": math.log2,
    "exp": math.exp,
    "sqrt": math.sqrt,
}
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_DECIMALS = re.compile(r"\d\.(\d*)")


def value_of(text: str) -> float:
    """`value_of("1 + 3/4")` -> 1.75."""
    try:
        return _value(ast.parse(text, mode="eval").body)
    except SyntaxError as error:
        raise _refusal(text) from error


def decimals_of(text: str) -> int | None:
    """The most digits behind a decimal point; None without any: the text is exact."""
    return max(map(len, _DECIMALS.findall(text)), default=None)


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in FUNCTIONS:
            return FUNCTIONS[name](_value(node.args[0]))
    raise _refusal(ast.unparse(node))


def _refusal(text: str) -> ValueError:
    names = ", ".join(FUNCTIONS)
    return ValueError(f"expected numbers, + - * / **, brackets and {names}; got {text!r}. Write it with these.")
