"""What the variables of a comprehension stand for."""

import ast
from typing import TYPE_CHECKING

from .scopes import COMPREHENSIONS

if TYPE_CHECKING:
    from .script import Script


def values_of(script: "Script", node: ast.AST) -> list[dict[str, ast.expr]]:
    """The variables of each round; empty unless the comprehension has one loop, over a literal list, tuple or dictionary."""
    assert isinstance(node, COMPREHENSIONS)
    if len(node.generators) != 1 or node.generators[0].ifs:
        return []
    found = [_bound(node.generators[0].target, one) for one in _elements(script, node.generators[0].iter)]
    return [] if any(not one for one in found) else found


def _bound(target: ast.expr, value: ast.expr) -> dict[str, ast.expr]:
    if isinstance(target, ast.Name):
        return {target.id: value}
    if not isinstance(target, ast.Tuple) or not isinstance(value, (ast.Tuple, ast.List)):
        return {}
    if len(target.elts) != len(value.elts):
        return {}
    return {name.id: one for name, one in zip(target.elts, value.elts) if isinstance(name, ast.Name)}


def _elements(script: "Script", node: ast.expr) -> list[ast.expr]:
    """Empty if the text does not show them."""
    whole, place = script.behind(node)
    if place is not None:
        return []
    if isinstance(whole, ast.Call) and isinstance(whole.func, ast.Attribute) and not whole.args:
        inner, place = script.behind(whole.func.value)
        return _of_dictionary(script, inner, whole.func.attr) if place is None and isinstance(inner, ast.Dict) else []
    if isinstance(whole, ast.Dict):
        return _of_dictionary(script, whole, "keys")
    if not isinstance(whole, (ast.List, ast.Tuple)) or any(isinstance(one, ast.Starred) for one in whole.elts):
        return []
    return list(whole.elts)


def _of_dictionary(script: "Script", node: ast.Dict, method: str) -> list[ast.expr]:
    pairs = [(key, value) for key, value in zip(node.keys, node.values) if key is not None]
    if len(pairs) < len(node.keys) or method not in ("keys", "values", "items"):
        return []
    if method != "items":
        return [key if method == "keys" else value for key, value in pairs]
    made = [ast.copy_location(ast.Tuple([key, value], ast.Load()), key) for key, value in pairs]
    for one in made:
        script.scopes.adopt(one, one.elts[0])
    return list(made)
