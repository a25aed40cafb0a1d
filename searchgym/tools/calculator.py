"""``calculator``: exact arithmetic on decimals and fractions, of bounded size and time."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ..types import ToolResult, ToolSpec
from .base import Tool

MAX_CHARS = 300
MAX_DEPTH = 60
MAX_BITS = 2_048
"""Bits of a numerator or denominator: numbers up to 10^616."""
MAX_DIGITS = 15
"""Significant digits of a result that is no whole number and no short decimal."""
_LONGEST = 40
"""Digits of a whole number that are written out."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_WARNED = re.compile(  # texts, and numbers that run into words: Python warns of some of them
    r"[\"'\\]|(?<![\w.])(?>0[xX][0-9a-fA-F_]++|0[oO][0-7_]++|0[bB][01_]++"
    r"|(?:\d[\d_]*+(?:\.[\d_]*+)?+|\.\d[\d_]*+)(?:[eE][-+]?\d[\d_]*+)?+)(?=[A-Za-z_])"
)
_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "^": "**"})


class CalculatorError(ValueError):
    """Raised by :func:`calculate`; the text is for the agent."""


def calculate(expression: str) -> Fraction:
    """The exact value of an arithmetic expression.

    Numbers are whole numbers and decimals ("4,120" is 4120 where no function is called); operators
    ``+ - * / // % **`` (also ``× ÷ ^``) and brackets; functions ``abs, min, max, sum, round,
    floor, ceil, sqrt``. ``round`` goes half away from zero. ``sqrt`` of what is no square is right
    to 30 digits, everything else is exact. Nothing is evaluated as Python.

    Raises:
        CalculatorError: for anything else, and for what would be too large.
    """
    if len(expression) > MAX_CHARS:
        raise CalculatorError(f"at most {MAX_CHARS} characters, got {len(expression)}")
    text = expression.translate(_SIGNS).strip().removesuffix("=").strip()
    if not re.search(r"(?<!\w)(?=\w*?[A-Za-z_])\w++\s*+\(", text):
        text = _THOUSANDS.sub("", text)
    try:
        if _WARNED.search(text):
            raise SyntaxError
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise CalculatorError("this is no arithmetic expression") from None
    return _value(tree.body, text, 0)


def shown(value: Fraction) -> str:
    """A number in digits: whole numbers and short decimals in full, others to 15 significant
    digits, very large and very small ones with an exponent."""
    if value.denominator == 1 and abs(value.numerator) < 10**_LONGEST:
        return str(value.numerator)
    exact = _ends(value) and abs(value) < 10**MAX_DIGITS
    number = _decimal(value, 2 * MAX_DIGITS if exact else MAX_DIGITS)
    if -MAX_DIGITS <= number.adjusted() < _LONGEST:
        return _stripped(f"{number:f}")
    mantissa, _, exponent = f"{number:e}".partition("e")
    return f"{_stripped(mantissa)}e{exponent}"


class Calculator(Tool):
    """Work out an arithmetic expression. A wrong expression is answered with what is wrong."""

    time_limit = None
    spec = ToolSpec(
        "calculator",
        "Work out an arithmetic expression exactly, for example (1931 - 1874) * 2. Operators "
        "+ - * / // % **, brackets, and abs, min, max, sum, round, floor, ceil, sqrt.",
        {
            "type": "object",
            "properties": {
                "expression": {
                    "type": "string", "minLength": 1, "maxLength": MAX_CHARS,
                    "description": "Numbers, operators and brackets.",
                }
            },
            "required": ["expression"],
        },
    )  # fmt: skip

    def use(self, args: Mapping[str, Any], state: Any = None) -> ToolResult:
        try:
            return ToolResult((shown(calculate(args["expression"])),))
        except CalculatorError as error:
            return ToolResult((f"Error: {error}.",))


# --- evaluation -----------------------------------------------------------------------------------
def _value(node: ast.AST, text: str, depth: int) -> Fraction:
    if depth > MAX_DEPTH:
        raise CalculatorError(f"nested more than {MAX_DEPTH} deep")
    match node:
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            return _bounded(_number(ast.get_source_segment(text, node) or ""))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, text, depth + 1)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, text, depth + 1)
        case ast.BinOp(left=left, op=op, right=right):
            operation = _OPERATORS.get(type(op))
            if operation is not None:
                a, b = _value(left, text, depth + 1), _value(right, text, depth + 1)
                return _bounded(operation(a, b))
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]):
            if name not in _FUNCTIONS:
                raise CalculatorError(
                    f"there is no function {name[:20]!r}; known: {', '.join(_FUNCTIONS)}"
                )
            function, least, most = _FUNCTIONS[name]
            if not least <= len(given) <= most:
                raise CalculatorError(f"{name} does not take {len(given)} numbers")
            return _bounded(function(*(_value(one, text, depth + 1) for one in given)))
    raise CalculatorError("only numbers, + - * / // % **, brackets and functions are known")


def _number(literal: str) -> Fraction:
    """The exact value of a number as it is written: 0.1 is one tenth."""
    try:
        if literal[:2].lower() in ("0x", "0o", "0b"):
            return Fraction(int(literal, 0))
        number = Decimal(literal)
    except (ValueError, ArithmeticError):
        raise CalculatorError(f"{literal[:40]!r} is no number") from None
    if number and abs(number.adjusted()) > MAX_BITS // 4:  # before 10**exponent is worked out
        raise CalculatorError("the number is too large or too small")
    return Fraction(number)


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise CalculatorError("the number is too large or has too many digits")
    return value


def _divided(a: Fraction, b: Fraction) -> Fraction:
    if not b:
        raise CalculatorError("division by zero")
    return a / b


def _floored(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(math.floor(_divided(a, b)))


def _remainder(a: Fraction, b: Fraction) -> Fraction:
    return a - b * _floored(a, b)


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator == 2 and abs(exponent) < 16:
        return _power(_sqrt(base), Fraction(exponent.numerator))
    if exponent.denominator != 1:
        raise CalculatorError("an exponent is a whole number, or a half for square roots")
    if exponent < 0:
        return _power(_divided(Fraction(1), base), -exponent)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    # 0, 1 and -1 stay small whatever the exponent; all others are measured before they are made
    if base not in (0, 1, -1) and (bits - 1) * exponent > MAX_BITS:
        raise CalculatorError("the number is too large or has too many digits")
    if base in (0, 1, -1):
        return base ** int(exponent % 2 + 2 if exponent else 0)
    return base ** int(exponent)


def _sqrt(value: Fraction) -> Fraction:
    if value < 0:
        raise CalculatorError("no square root of a negative number")
    roots = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if roots[0] ** 2 == value.numerator and roots[1] ** 2 == value.denominator:
        return Fraction(*roots)
    # 30 digits: scale so that the whole part of the root has them
    shift = max(0, 62 - (value.numerator.bit_length() - value.denominator.bit_length()) // 3)
    scaled = value * 100**shift
    return Fraction(math.isqrt(scaled.numerator // scaled.denominator), 10**shift)


def _rounded(value: Fraction, places: Fraction = Fraction(0)) -> Fraction:
    if places.denominator != 1 or abs(places) > 100:
        raise CalculatorError("round takes a whole number of places, at most 100")
    scale = Fraction(10) ** int(places)
    whole = math.floor(abs(value) * scale + Fraction(1, 2))
    return Fraction(whole if value >= 0 else -whole) / scale


_OPERATORS: Mapping[type, Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: Fraction.__add__, ast.Sub: Fraction.__sub__, ast.Mult: Fraction.__mul__,
    ast.Div: _divided, ast.FloorDiv: _floored, ast.Mod: _remainder, ast.Pow: _power,
}  # fmt: skip
_MANY = 100
_FUNCTIONS: Mapping[str, tuple[Callable[..., Fraction], int, int]] = {
    "abs": (abs, 1, 1),
    "min": (lambda *values: min(values), 1, _MANY),
    "max": (lambda *values: max(values), 1, _MANY),
    "sum": (lambda *values: sum(values, Fraction(0)), 1, _MANY),
    "round": (_rounded, 1, 2),
    "floor": (lambda value: Fraction(math.floor(value)), 1, 1),
    "ceil": (lambda value: Fraction(math.ceil(value)), 1, 1),
    "sqrt": (_sqrt, 1, 1),
}


# --- writing --------------------------------------------------------------------------------------
def _stripped(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _ends(value: Fraction) -> bool:
    """Check whether a number is a decimal with at most ``MAX_DIGITS`` digits after the point."""
    return 10**MAX_DIGITS % value.denominator == 0


def _decimal(value: Fraction, digits: int) -> Decimal:
    """The value to so many significant digits, half away from zero."""
    if not value:
        return Decimal(0)
    size = abs(value)
    exponent = len(str(size.numerator)) - len(str(size.denominator))
    exponent -= size < Fraction(10) ** exponent  # now 10**exponent <= size < 10**(exponent + 1)
    scaled = math.floor(size * Fraction(10) ** (digits - 1 - exponent) + Fraction(1, 2))
    sign = "-" if value < 0 else ""
    return Decimal(f"{sign}{scaled}e{exponent - digits + 1}")  # exact, unlike scaleb
