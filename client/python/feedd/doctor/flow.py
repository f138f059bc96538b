"""The values that a name may have at a point of a program, over all paths through its if statements."""

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace

from .scopes import FUNCTIONS, Scopes

_MOST = 12  # More alternatives become one unknown value.
Condition = tuple[ast.expr | None, bool]  # None: it cannot be told.


@dataclass(eq=False)
class Option:
    value: ast.AST | None  # None: the text does not show it.
    place: int | None = None  # If the value is a tuple, this element of it is meant.
    when: tuple[Condition, ...] = ()
    module: str = ""  # The name of an imported module or object.
    assumed: str = ""  # A remark for the reader if the value is used.


State = list[Option] | None  # None: the program never gets here.


class Either(ast.expr):
    """The values of a name, each with the conditions under which it has that value."""

    _fields = ()

    def __init__(self, named: ast.expr, options: list[Option]) -> None:
        super().__init__(lineno=named.lineno, col_offset=named.col_offset)
        self.named, self.options = named, options


def said(conditions: tuple[Condition, ...]) -> str:
    """The conditions as text for people."""
    words = []
    for test, holds in conditions:
        text = ast.unparse(test) if test is not None else ""
        words.append(f"{'if' if holds else 'unless'} {text}" if text else "in one case")
    return " and ".join(words) or "otherwise"


class _Found(Exception):
    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state


def merged(one: State, other: State, test: ast.expr | None) -> State:
    """What is known after an if statement."""
    if one is None or other is None:
        return other if one is None else one
    both = [option for option in one if option in other]
    only = [replace(option, when=((test, True), *option.when)) for option in one if option not in both]
    only += [replace(option, when=((test, False), *option.when)) for option in other if option not in both]
    return [*both, *only] if len(both) + len(only) <= _MOST else [Option(None)]


class Flow:
    """Follows one name, or one dotted name, through the code of one scope. ``known`` says whether a condition holds."""

    def __init__(self, scopes: Scopes, key: str, known: Callable[[ast.expr], bool | None]) -> None:
        self.scopes, self.key, self.known = scopes, key, known
        self.path: set[int] = set()
        self.returned: list[Option] = []
        self._when: list[Condition] = []

    def until(self, body: list[ast.stmt], start: list[Option], target: ast.AST | None) -> list[Option]:
        """The values before a node is evaluated; None: after the last statement."""
        self.path = {id(one) for one in self.scopes.ancestors(target)}
        try:
            state = self._block(body, start)
        except _Found as found:
            state = found.state
        return state or []

    def _is_in(self, node: ast.AST | None) -> bool:
        return id(node) in self.path

    def _block(self, body: list[ast.stmt], state: State) -> State:
        depth = len(self._when)
        for statement in body:
            if state is None and not self._is_in(statement):
                continue
            state = self._statement(statement, state if state is not None else [])
            if self.key in self.scopes.walrus and not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                inner = [one for one in ast.walk(statement) if isinstance(one, ast.NamedExpr) and one.target.id == self.key]
                state = merged(state, [Option(one.value) for one in inner], None) if inner else state
        del self._when[depth:]
        return state

    def _statement(self, node: ast.stmt, state: list[Option]) -> State:
        if isinstance(node, ast.If):
            return self._if(node, state)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            return self._loop(node, state)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if self._is_in(item):
                    raise _Found(state)
                if item.optional_vars is not None:
                    state = self._bound(item.optional_vars, None, None, state)
            return self._block(node.body, state)
        if isinstance(node, ast.Try):
            return self._try(node, state)
        if isinstance(node, ast.Match):
            return self._match(node, state)
        if self._is_in(node):
            raise _Found(state)
        return self._simple(node, state)

    # ---- What has parts --------------------------------------------------------------------------------------------

    def _if(self, node: ast.If, state: list[Option]) -> State:
        if self._is_in(node.test):
            raise _Found(state)
        holds = self.known(node.test)
        arms: list[State] = []
        for body, is_true in ((node.body, True), (node.orelse, False)):
            if holds is (not is_true) and not any(map(self._is_in, body)):
                arms.append(None)
                continue
            if holds is None:
                self._when.append((node.test, is_true))
            arms.append(self._block(body, state))
            if holds is None:
                self._when.pop()
        if holds is None and (arms[0] is None) != (arms[1] is None):
            # Only one arm continues, so the rest runs only in that case.
            self._when.append((node.test, arms[0] is not None))
        return merged(arms[0], arms[1], node.test)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, state: list[Option]) -> State:
        first: ast.expr = node.test if isinstance(node, ast.While) else node.iter
        if self._is_in(first):
            raise _Found(state)
        inside, path = state, self.path
        if not isinstance(node, ast.While):
            inside = self._bound(node.target, None, None, state)
        self.path = set()
        again = self._block(node.body, inside)
        self.path = path
        if any(map(self._is_in, node.body)):
            self._block(node.body, merged(inside, again, None))
        state = merged(again, state, None) or state
        return self._block(node.orelse, state)

    def _try(self, node: ast.Try, state: list[Option]) -> State:
        """Assumes that no exception is raised, except in the code that handles one."""
        for handler in node.handlers:
            if self._is_in(handler):
                self._block(handler.body, state)
        after = self._block(node.orelse, self._block(node.body, state))
        if after is None or after is state:
            for handler in node.handlers:
                after = merged(after, self._block(handler.body, state), None)
        return self._block(node.finalbody, after)

    def _match(self, node: ast.Match, state: list[Option]) -> State:
        if self._is_in(node.subject):
            raise _Found(state)
        after: State = state
        for case in node.cases:
            self._when.append((None, True))
            after = merged(after, self._block(case.body, state), None)
            self._when.pop()
        return after

    # ---- What binds a name -----------------------------------------------------------------------------------------

    def _bound(self, target: ast.expr, value: ast.expr | None, place: int | None, state: list[Option]) -> list[Option]:
        if isinstance(target, (ast.Name, ast.Attribute)):
            return [Option(value, place)] if ast.unparse(target) == self.key else state
        if isinstance(target, (ast.Tuple, ast.List)):
            same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            starred = any(isinstance(one, ast.Starred) for one in target.elts)
            for number, one in enumerate(target.elts):
                if value is None or starred or place is not None:
                    state = self._bound(one, None, None, state)
                elif same:
                    state = self._bound(one, value.elts[number], None, state)  # type: ignore[attr-defined]
                else:
                    state = self._bound(one, value, number, state)
        elif isinstance(target, ast.Starred):
            state = self._bound(target.value, None, None, state)
        elif isinstance(target, ast.Subscript) and ast.unparse(target.value) == self.key:
            state = self._stored(target, value, state)
        return state

    def _stored(self, target: ast.Subscript, value: ast.expr | None, state: list[Option]) -> list[Option]:
        """x[KEY] = value adds an entry to a dictionary, if both are constants."""
        changed = []
        for option in state:
            old = option.value
            if isinstance(old, ast.Dict) and isinstance(target.slice, ast.Constant) and value is not None:
                new = ast.Dict([*old.keys, target.slice], [*old.values, value])
                self.scopes.adopt(ast.copy_location(new, old), target)
                changed.append(replace(option, value=new))
            else:
                changed.append(replace(option, value=None))
        return changed

    def _simple(self, node: ast.stmt, state: list[Option]) -> State:
        if isinstance(node, ast.Return):
            self.returned.append(Option(node.value or ast.Constant(None), None, tuple(self._when)))
            return None
        if isinstance(node, (ast.Raise, ast.Break, ast.Continue)):
            return None
        if isinstance(node, ast.Assign):
            for target in node.targets:
                state = self._bound(target, node.value, None, state)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            state = self._bound(node.target, node.value, None, state)
        elif isinstance(node, ast.AugAssign) and ast.unparse(node.target) == self.key:
            more = node.value.elts if isinstance(node.op, ast.Add) and isinstance(node.value, ast.List) else None
            state = self._longer(node, state, more)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            state = self._imported(node, state)
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.name == self.key:
            state = [Option(node)]
        elif isinstance(node, ast.Delete) and any(ast.unparse(one) == self.key for one in node.targets):
            state = []
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return self._called(node.value, state)
        return state

    def _imported(self, node: ast.Import | ast.ImportFrom, state: list[Option]) -> list[Option]:
        for one in node.names:
            if (one.asname or one.name.split(".")[0]) == self.key:
                full = one.name if one.asname else one.name.split(".")[0]
                state = [Option(None, module=f"{node.module or ''}.{one.name}" if isinstance(node, ast.ImportFrom) else full)]
        return state

    def _called(self, call: ast.Call, state: list[Option]) -> State:
        """Calls that extend a list, or end the program."""
        function = call.func
        if ast.unparse(function) in ("exit", "quit", "sys.exit", "os._exit") and self._when:
            return None
        if not isinstance(function, ast.Attribute) or ast.unparse(function.value) != self.key:
            return state
        if function.attr == "append" and len(call.args) == 1:
            return self._longer(call, state, [call.args[0]])
        if function.attr == "extend" and call.args and isinstance(call.args[0], (ast.List, ast.Tuple)):
            return self._longer(call, state, call.args[0].elts)
        if function.attr == "insert" and len(call.args) == 2:
            first = isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
            return self._longer(call, state, [call.args[1]] if first else None, in_front=True)
        if function.attr == "update" and len(call.args) == 1 and not call.keywords:
            return self._updated(call, state)
        changes = ("extend", "remove", "pop", "clear", "reverse", "sort", "update", "setdefault")
        return self._longer(call, state, None) if function.attr in changes else state

    def _updated(self, call: ast.Call, state: list[Option]) -> list[Option]:
        changed = []
        for option in state:
            old, new = option.value, ast.Dict([], [])
            if isinstance(old, ast.Dict):
                new = ast.Dict([*old.keys, None], [*old.values, call.args[0]])
                self.scopes.adopt(ast.copy_location(new, old), call)
            changed.append(replace(option, value=new if isinstance(old, ast.Dict) else None))
        return changed

    def _longer(self, node: ast.AST, state: list[Option], more: list[ast.expr] | None, in_front: bool = False) -> list[Option]:
        """Follows changes of literal lists. Anything else that changes in place is unknown from then on."""
        changed = []
        for option in state:
            old = option.value
            if isinstance(old, ast.List) and more is not None:
                new = ast.List([*more, *old.elts] if in_front else [*old.elts, *more], ast.Load())
                self.scopes.adopt(ast.copy_location(new, old), node)
                changed.append(replace(option, value=new))
            elif isinstance(old, (ast.List, ast.Dict)) or isinstance(node, ast.AugAssign):
                changed.append(replace(option, value=None))
            else:
                changed.append(option)
        return changed
