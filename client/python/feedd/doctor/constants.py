"""Evaluates expressions that consist of constants."""

import ast
import posixpath
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .script import Script

UNKNOWN = object()  # Only the running program knows the value.
_ROUNDING: dict[str, Callable[[float], Any]] = {"int": int, "float": float, "round": round}
_JOINS = ("os.path.join", "pathlib.Path", "os.path.expanduser", "Path", "str")


def value_of(script: "Script", node: ast.expr, assume: bool) -> Any:
    """UNKNOWN if the value cannot be told. ``assume``: defaults of options and parameters may be used."""
    node, place = script.behind(node, assume)
    if place is not None:
        return UNKNOWN
    if isinstance(node, (ast.Tuple, ast.List)):
        values = [value_of(script, one, assume) for one in node.elts]
        return UNKNOWN if UNKNOWN in values else tuple(values)
    if isinstance(node, ast.BinOp):
        return _arithmetic(node, value_of(script, node.left, assume), value_of(script, node.right, assume))
    if isinstance(node, ast.Call):
        return _called(script, node, assume)
    if isinstance(node, ast.JoinedStr):
        pieces = [one.value if isinstance(one, ast.FormattedValue) else one for one in node.values]
        parts = [value_of(script, one, assume) for one in pieces]
        return "".join(map(str, parts)) if UNKNOWN not in parts else UNKNOWN
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN


def _arithmetic(node: ast.BinOp, left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        if isinstance(node.op, ast.Add):
            return left + right
        # A quotient of texts is pathlib's.
        return posixpath.join(left, right) if isinstance(node.op, ast.Div) else UNKNOWN
    numbers = all(isinstance(one, (int, float)) and abs(one) < 1e15 for one in (left, right))
    if numbers and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        return {ast.Add: left + right, ast.Sub: left - right, ast.Mult: left * right}[type(node.op)]
    if numbers and isinstance(node.op, (ast.Div, ast.FloorDiv)) and right:
        return left / right if isinstance(node.op, ast.Div) else left // right
    return UNKNOWN


def _called(script: "Script", node: ast.Call, assume: bool) -> Any:
    """Calls that round numbers or join paths."""
    name = script.called(node)
    rounding = _ROUNDING.get(name)
    parts = [value_of(script, one, assume) for one in node.args]
    if node.keywords or UNKNOWN in parts or not parts:
        return UNKNOWN
    if rounding is not None:
        return rounding(parts[0]) if len(parts) == 1 and isinstance(parts[0], (int, float)) else UNKNOWN
    return posixpath.join(*map(str, parts)) if name in _JOINS else UNKNOWN
