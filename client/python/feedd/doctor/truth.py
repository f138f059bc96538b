"""Whether a condition of a script holds, as far as the text shows."""

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .constants import UNKNOWN

if TYPE_CHECKING:
    from .script import Script

_OBJECTS = (ast.Call, ast.List, ast.Tuple, ast.Dict, ast.Lambda, ast.ListComp, ast.DictComp, ast.JoinedStr)
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b, ast.Lt: lambda a, b: a < b, ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip


def _is_none(script: "Script", node: ast.expr, assume: bool) -> bool | None:
    found, place = script.behind(node, assume)
    if place is None and isinstance(found, _OBJECTS):
        # A call of a class or of a library makes an object; what a function of the script gives has been looked for.
        plain = not isinstance(found, ast.Call) or script.called(found).rpartition(".")[2][:1].isupper()
        return False if plain else None
    value = script.value(node, None, assume)
    return None if value is UNKNOWN else value is None


def truth_of(script: "Script", node: ast.expr, assume: bool) -> bool | None:
    """None if that is unknown. ``assume``: defaults of options and parameters may be used."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = truth_of(script, node.operand, assume)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        ends = isinstance(node.op, ast.Or)  # One part with this value decides.
        parts = [truth_of(script, one, assume) for one in node.values]
        return ends if ends in parts else None if None in parts else not ends
    if isinstance(node, ast.Compare):
        return _compare(script, node, assume)
    value = script.value(node, None, assume)
    return None if value is UNKNOWN else bool(value)


def _compare(script: "Script", node: ast.Compare, assume: bool) -> bool | None:
    if len(node.ops) != 1:
        return None
    left, kind, right = node.left, node.ops[0], node.comparators[0]
    if isinstance(left, ast.Name) and left.id == "__name__":
        return isinstance(kind, ast.Eq)
    if isinstance(kind, (ast.Is, ast.IsNot)):
        if not isinstance(right, ast.Constant) or right.value is not None:
            return None
        found = _is_none(script, left, assume)
        return None if found is None else found is isinstance(kind, ast.Is)
    values = [script.value(one, None, assume) for one in (left, right)]
    if UNKNOWN in values:
        return None
    try:
        return _COMPARED[type(kind)](values[0], values[1])
    except TypeError:
        return None
