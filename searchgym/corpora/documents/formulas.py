"""Formulas of web pages (MathML) and of Word (OMML) in a line: ``x^2/(a+b)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_OPERAND = ("e", "num", "den", "sub", "sup", "deg", "lim", "fName")
"""Elements of OMML that hold a part of a formula."""


def local(element: Any) -> str:
    """An element's name without its namespace; empty for comments and the like."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def formula(element: Any) -> str:
    """The text of a formula or of a part of one."""
    name = local(element)
    if name in ("annotation", "annotation-xml") or not name:
        return ""
    if name in ("mi", "mn", "mo", "mtext", "ms", "t"):
        text = "".join(element.itertext())
        return text if name == "t" else " ".join(text.split())
    children = [child for child in element if local(child)]
    shape = _MATHML.get(name)
    if shape and len(children) == shape[0]:
        return shape[1](*map(formula, children))
    if name == "msqrt":
        return f"√{_bracketed(''.join(map(formula, children)))}"
    if name == "mfenced":
        inner = ", ".join(map(formula, children))
        return f"{element.get('open', '(')}{inner}{element.get('close', ')')}"
    if name in ("mtr", "mlabeledtr", "mr"):
        return ", ".join(map(formula, children))
    if name in ("mtable", "m", "eqArr"):
        rows = (formula(child) for child in children if not local(child).endswith("Pr"))
        return "; ".join(row for row in rows if row)
    parts = {local(child): formula(child) for child in children if local(child) in _OPERAND}
    if name in _OMML:
        return _OMML[name](parts)
    if name == "nary":
        sign = _property(element, "chr", "∫")
        return sign + _limits(parts) + (" " if any(_limits(parts)) else "") + parts.get("e", "")
    if name == "d":
        between = _property(element, "sepChr", "|")
        inner = between.join(formula(child) for child in children if local(child) == "e")
        return _property(element, "begChr", "(") + inner + _property(element, "endChr", ")")
    return "".join(map(formula, children))


def _bracketed(text: str) -> str:
    return text if len(text.strip()) < 2 or text.isalnum() else f"({text})"


def _over(above: str, below: str) -> str:
    return f"{_bracketed(above)}/{_bracketed(below)}"


def _raised(base: str, power: str) -> str:
    return f"{base}^{_bracketed(power)}"


def _lowered(base: str, index: str) -> str:
    return f"{base}_{_bracketed(index)}"


def _limits(parts: Mapping[str, str]) -> str:
    below, above = parts.get("sub", ""), parts.get("sup", "")
    return (f"_{_bracketed(below)}" if below else "") + (f"^{_bracketed(above)}" if above else "")


def _root(base: str, degree: str) -> str:
    return f"{degree.strip()}√{_bracketed(base)}"


def _property(element: Any, name: str, default: str) -> str:
    """A sign that OMML keeps among the properties; an empty one is none."""
    for child in element:
        for inner in child if local(child).endswith("Pr") else ():
            if local(inner) == name:
                return next((v for k, v in inner.items() if k.endswith("val")), "")
    return default


_MATHML: Mapping[str, tuple[int, Callable[..., str]]] = {
    "mfrac": (2, _over), "msup": (2, _raised), "mover": (2, _raised), "msub": (2, _lowered),
    "munder": (2, _lowered), "mroot": (2, _root),
    "msubsup": (3, lambda a, b, c: _raised(_lowered(a, b), c)),
    "munderover": (3, lambda a, b, c: _raised(_lowered(a, b), c)),
}  # fmt: skip
"""Element → number of parts, and how they are written."""
_OMML: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "f": lambda p: _over(p.get("num", ""), p.get("den", "")),
    "sSup": lambda p: _raised(p.get("e", ""), p.get("sup", "")),
    "sSub": lambda p: _lowered(p.get("e", ""), p.get("sub", "")),
    "sSubSup": lambda p: p.get("e", "") + _limits(p),
    "sPre": lambda p: _limits(p) + p.get("e", ""),
    "rad": lambda p: _root(p.get("e", ""), p.get("deg", "")),
    "func": lambda p: f"{p.get('fName', '')} {p.get('e', '')}",
    "limLow": lambda p: _lowered(p.get("e", ""), p.get("lim", "")),
    "limUpp": lambda p: _raised(p.get("e", ""), p.get("lim", "")),
}
