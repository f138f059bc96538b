"""Paths of a script, as feedd.conf has them. PATH replaces what the text does not show; a remark says what to put there."""

import ast
import posixpath

from .plan import Plan
from .script import UNKNOWN, Either, Script, said

FILL_IN = "PATH"
_JOINS = ("os.path.join", "pathlib.Path", "Path")


def _words(script: Script, node: ast.expr) -> str:
    """An expression as text for people, or all its possible values."""
    if isinstance(node, Either):
        return " or ".join(f"{_words(script, one)} ({said(when)})" for one, when in script.each(node.named))
    return " ".join(ast.unparse(node).split())


def _filled_in(script: Script, node: ast.expr, unknown: list[str]) -> str:
    value = script.value(node, UNKNOWN)
    if isinstance(value, str):
        return value
    found, place = script.behind(node)
    parts: list[ast.expr] = []
    if place is None and isinstance(found, ast.Call) and script.called(found) in _JOINS and not found.keywords:
        parts = found.args
    elif place is None and isinstance(found, ast.BinOp) and isinstance(found.op, ast.Div):
        parts = [found.left, found.right]
    if parts:
        return posixpath.join(*(_filled_in(script, one, unknown) for one in parts))
    unknown.append(_words(script, found if place is None else node))
    return FILL_IN


def path_of(script: Script, plan: Plan, node: ast.expr | None, line: int, fill_in: str = FILL_IN, what: str = "") -> str:
    """``what``: what the path leads to, for scripts that do not name one."""
    if node is None:
        plan.note(line, f"replace PATH with {what or 'the path of the data'}")
        return fill_in
    unknown: list[str] = []
    path = _filled_in(script, node, unknown)
    if unknown and (len(set(unknown)) > 1 or not path.startswith(FILL_IN)):
        found, _ = script.behind(node)
        unknown, path = [_words(script, found)], FILL_IN
    if unknown:
        plan.note(node.lineno, f"replace PATH with the value of {unknown[0]}")
        return path.replace(FILL_IN, fill_in, 1)
    if not path.startswith("/") and ":" not in path:
        plan.note(node.lineno, f"{path} is a relative path, which starts at the folder of feedd.conf, not at that of"
                               " the script")
    return path
