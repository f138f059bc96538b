"""Where a script makes loaders. A function that is called more than once makes a loader for each call, and so does a
comprehension for each value; each is a copy in which parameters stand for what they are given."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from .comprehensions import values_of
from .scopes import COMPREHENSIONS, FUNCTIONS
from .script import Script

_MOST = 8  # More calls of one function are not followed.


@dataclass
class Place:
    call: ast.Call
    name: str  # The variable that the loader is assigned to.
    seen: str = ""  # Says which case this is, if there are several.


def _named(script: Script) -> dict[int, str]:
    """The targets of assignments by the id of the value, including the object whose method is called."""
    found: dict[int, str] = {}

    def add(target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
            for one, other in zip(target.elts, value.elts):
                add(one, other)
        elif isinstance(target, (ast.Name, ast.Attribute)):
            while True:
                found.setdefault(id(value), ast.unparse(target))
                if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
                    return
                value = value.func.value

    for node in ast.walk(script.tree):
        if isinstance(node, ast.Assign):
            add(node.targets[0], node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            add(node.target, node.value)
    return found


def _cases(script: Script, call: ast.Call, named: dict[int, str]) -> Iterator[Place]:
    """The calls of the function, or the values of the comprehension, in which a loader is made."""
    scope = script.scopes.of(call)
    while scope is not None and not isinstance(scope.node, (*FUNCTIONS, *COMPREHENSIONS)):
        scope = scope.outer
    node = scope.node if scope is not None else None
    if isinstance(node, COMPREHENSIONS):
        for bound in values_of(script, node)[:_MOST]:
            _, copies = script.instance(node, bound)
            copied = copies[id(call)]
            assert isinstance(copied, ast.Call)
            variable, first = next(iter(bound.items()))
            value = script.value(first)
            name = value if isinstance(value, str) else ast.unparse(first)
            yield Place(copied, name, f"for {variable} = {ast.unparse(first)}")
    elif isinstance(node, FUNCTIONS):
        for caller in script.callers(node)[:_MOST]:
            given = script.given(node, caller)
            if given:
                _, copies = script.instance(node, given)
                copied = copies[id(call)]
                assert isinstance(copied, ast.Call)
                text = " ".join(ast.unparse(caller).split())
                yield Place(copied, named.get(id(caller), ""), f"as line {caller.lineno} calls {text}")


def places_of(script: Script, loaders: tuple[str, ...]) -> list[list[Place]]:
    """The loaders in the order of their lines, each with all its cases."""
    kinds = {name for name, kind in script.classes.items() if any(script.name_of(base) in loaders for base in kind.bases)}
    named = _named(script)
    calls = [call for call in script.calls if script.called(call) in loaders or script.called(call) in kinds]
    found = []
    for call in sorted(calls, key=lambda one: (one.lineno, one.col_offset)):
        cases = list(_cases(script, call, named))
        if len(cases) == 1:
            cases = [Place(call, named.get(id(call)) or cases[0].name)]
        found.append(cases or [Place(call, named.get(id(call), ""))])
    return found
