"""What the text of a script says: what each name stands for. Nothing is executed."""

import ast
from dataclasses import replace
from typing import Any

from .command_line import options_of
from .comprehensions import values_of
from .constants import UNKNOWN, value_of
from .flow import Condition, Either, Flow, Option, said
from .plan import Plan
from .scopes import COMPREHENSIONS, FUNCTIONS, Function, Scope, Scopes, default_of, parameters, passed
from .truth import truth_of

_DEEPEST = 30
_MOST_CALLS = 300  # More calls are not followed.
_PARSED = ("args", "arguments", "opt", "opts", "options", "params", "config", "cfg", "hparams", "flags", "FLAGS")
# Modules that have torch's classes under another name.
_SAME = {
    "torch.utils.data.dataloader": "torch.utils.data", "torch.utils.data.dataset": "torch.utils.data",
    "torch.utils.data.sampler": "torch.utils.data", "torch.utils.data.distributed": "torch.utils.data",
    "torchvision.transforms.v2": "torchvision.transforms", "torchvision.transforms.transforms": "torchvision.transforms",
    "torchvision.transforms.functional": "torchvision.transforms", "torchvision.datasets.folder": "torchvision.datasets",
}  # fmt: skip


class Script:
    def __init__(self, tree: ast.Module) -> None:
        self.tree, self.scopes = tree, Scopes(tree)
        self.classes = {one.name: one for one in ast.walk(tree) if isinstance(one, ast.ClassDef)}
        self.functions = {one.name: one for one in ast.walk(tree) if isinstance(one, FUNCTIONS)}
        self.calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call)]
        imports = [one for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)]
        self.everything_of = [one.module or "" for one in imports if any(name.name == "*" for name in one.names)]
        self.modules = {one.module or "" for one in imports}
        self.modules |= {name.name for one in ast.walk(tree) if isinstance(one, ast.Import) for name in one.names}
        self.assumed: dict[tuple[int, str], None] = {}  # Remarks for the reader, with their lines.
        self._options: dict[int, tuple[ast.AST, list[Option] | None]] = {}
        self._instances: dict[int, tuple[ast.AST, list[Option]]] = {}
        # For each copy of a function: its name, and the names of those that call it.
        self._copied: dict[int, tuple[str, ...]] = {}
        self._busy: set[int] = set()
        self._asked: set[tuple[int, bool]] = set()
        self._depth = 0
        self.command_line = options_of(self.calls)

    # ---- Names -----------------------------------------------------------------------------------------------------

    def name_of(self, node: ast.AST) -> str:
        """The full name of a function or class; "" if it has none."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        full = ".".join([self.module_of(node) or self._of_everything(node), *parts])
        module, _, last = full.rpartition(".")
        return f"{_SAME.get(module, module)}.{last}" if module else last

    def module_of(self, node: ast.Name) -> str:
        """What was imported under that name; "" if the name means something else here."""
        return next((one.module for one in self.options(node) or [] if one.module), "")

    def _of_everything(self, node: ast.Name) -> str:
        """Looks for classes in modules imported with ``*``; classes that the script defines come first."""
        name, scope = node.id, self.scopes.of(node)
        own = scope is not None and self.scopes.owner(name, scope) is not None
        own = own or not name[:1].isupper() and name not in ("random_split", "default_collate")
        return name if own or len(self.everything_of) != 1 else f"{self.everything_of[0]}.{name}"

    def called(self, node: ast.AST | None) -> str:
        return self.name_of(node.func) if isinstance(node, ast.Call) else ""

    def definition(self, node: ast.AST) -> ast.AST | None:
        """The function or class of the script that a name stands for."""
        found = self.options(node) if isinstance(node, ast.Name) else None
        return found[0].value if found and isinstance(found[0].value, (*FUNCTIONS, ast.ClassDef)) else None

    def callers(self, function: ast.AST) -> list[ast.Call]:
        name = getattr(function, "name", "")
        calls = [one for one in self.calls if isinstance(one.func, ast.Name) and one.func.id == name]
        return [one for one in calls if self.definition(one.func) is function]

    def check_names(self, plan: Plan, name: str, node: ast.expr) -> None:
        """Remarks on names in an argument that exist only inside a function, so that the loader's line cannot use them."""
        at = self.scopes.of(plan.at) if plan.at is not None else None
        seen = []
        while at is not None:
            seen.append(at.node)
            at = at.outer
        for one in ast.walk(node):
            scope = self.scopes.of(one)
            owner = self.scopes.owner(one.id, scope) if isinstance(one, ast.Name) and scope is not None else None
            if isinstance(one, ast.Name) and owner is not None and owner.node not in seen and one.id != "self":
                inside = getattr(owner.node, "name", "a function")
                text = f"{name}={ast.unparse(node)} uses {one.id}"
                plan.note(node.lineno, f"{text}, which only {inside}() has: let it give that, too")

    # ---- What a node may stand for -----------------------------------------------------------------------------------

    def options(self, node: ast.AST) -> list[Option] | None:
        """None if the node stands for itself."""
        cached = self._options.get(id(node))
        if cached is not None and cached[0] is node:
            return cached[1]
        if id(node) in self._busy:
            return [Option(None)]
        if len(self._busy) > 200:
            raise RecursionError
        self._busy.add(id(node))
        try:
            found = self._find(node)
        finally:
            self._busy.discard(id(node))
        self._options[id(node)] = (node, found)
        return found

    def _find(self, node: ast.AST) -> list[Option] | None:
        scope = self.scopes.of(node)
        if scope is None:
            return None
        if isinstance(node, ast.Name):
            owner = self.scopes.owner(node.id, scope)
            if owner is None:
                return None
            return self._bound(owner, node.id, self.scopes.seen_from(owner, scope, node)) or None
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope)
        if isinstance(node, ast.IfExp):
            holds = self.truth(node.test)
            if holds is not None:
                return [Option(node.body if holds else node.orelse)]
            return [Option(node.body, when=((node.test, True),)), Option(node.orelse, when=((node.test, False),))]
        if isinstance(node, ast.Subscript):
            return self._entry(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1:
            name = node.args[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                other = ast.copy_location(ast.Attribute(node.args[0], name.value, ast.Load()), node)
                self.scopes.adopt(other, node)
                return self.options(other)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            function = self.definition(node.func)
            return self._returned(function, node) if isinstance(function, FUNCTIONS) else None
        return None

    def _bound(self, owner: Scope, key: str, target: ast.AST | None) -> list[Option]:
        """The values of a name, or a dotted name, in one scope."""
        if isinstance(owner.node, (ast.Lambda, *COMPREHENSIONS)):
            return [Option(owner.given.get(key))]
        start = [self._parameter(owner, key)] if key in parameters(owner.node) else []
        body = owner.node.body  # type: ignore[attr-defined]
        found = Flow(self.scopes, key, self.truth).until(body, start, target)
        if any(key in scope.elsewhere for scope in self._all_scopes(owner)):
            found = [*found, Option(None)]  # A function changes it, at some time.
        return found

    def _all_scopes(self, owner: Scope) -> list[Scope]:
        if owner is not self.scopes.module:
            return []
        return [scope for one in self.functions.values() if (scope := self.scopes.of(one.body[0])) is not None]

    def _parameter(self, owner: Scope, name: str) -> Option:
        function = owner.node
        assert isinstance(function, FUNCTIONS)
        if owner.given:
            return Option(owner.given.get(name))
        calls, skipped = self.callers(function), 0
        around = owner.outer.node if owner.outer is not None else None
        if isinstance(around, ast.ClassDef):
            calls, skipped = (self.callers(around) if function.name == "__init__" else []), 1
        default, taken = default_of(function, name), [passed(function, one, skipped) for one in calls]
        if len(calls) == 1 and taken[0] is not None and name in taken[0]:
            return Option(taken[0][name])
        if default is None or any(one is None or name in one for one in taken):
            return Option(None)
        where = around.name if isinstance(around, ast.ClassDef) else function.name
        text = "" if calls else f"{name} is taken as {ast.unparse(default)}, the default of {where}()"
        return Option(default, assumed=text)

    def _attribute(self, node: ast.Attribute, scope: Scope) -> list[Option] | None:
        key, base = ast.unparse(node), node.value
        if not isinstance(base, ast.Name):
            return None
        owner = self.scopes.owner(base.id, scope)
        if owner is None:
            return self._default(node)
        found = self._own_flow(key, scope, node) or self._bound(owner, key, self.scopes.seen_from(owner, scope, node))
        if found:
            return found
        if isinstance(owner.node, FUNCTIONS) and owner.outer is not None and isinstance(owner.outer.node, ast.ClassDef):
            if parameters(owner.node)[:1] == [base.id]:
                return self._of_object(owner.outer, node.attr)
        of = self.options(base)
        if of and len(of) == 1 and of[0].place is None:
            value = of[0].value
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
                value = self.definition(value.func) or value
            if isinstance(value, ast.ClassDef):
                inner = self.scopes.of(value.body[0])
                return (self._bound(inner, node.attr, None) if inner is not None else []) or None
            if isinstance(value, ast.Name):
                other = ast.copy_location(ast.Attribute(value, node.attr, ast.Load()), value)
                self.scopes.adopt(other, value)
                return self.options(other)
        return None if any(one.module for one in of or []) else self._default(node)

    def _own_flow(self, key: str, scope: Scope, node: ast.AST) -> list[Option]:
        """The values that the functions around a node give the name, from the inside out."""
        at: Scope | None = scope
        while at is not None:
            if isinstance(at.node, FUNCTIONS):
                flow = Flow(self.scopes, key, self.truth)
                found = flow.until(at.node.body, [], self.scopes.seen_from(at, scope, node))
                if found:
                    return found
            at = at.outer
        return []

    def _of_object(self, kind: Scope, name: str) -> list[Option] | None:
        """The values of an attribute of self, which any method may set. None counts only if there is no other."""
        assert isinstance(kind.node, ast.ClassDef)
        found = []
        for method in kind.node.body:
            if isinstance(method, FUNCTIONS) and parameters(method):
                flow = Flow(self.scopes, f"{parameters(method)[0]}.{name}", self.truth)
                found += flow.until(method.body, [], None)
        plain = [one for one in found if not isinstance(one.value, ast.Constant) or one.value.value is not None]
        found = plain or found[:1] or self._bound(kind, name, None)
        if len(found) > 1 and any(not one.when for one in found):
            found = [replace(one, when=one.when or ((None, True),)) for one in found]
        return found or None

    def attribute_of(self, init: Function, call: ast.Call, name: ast.expr) -> ast.expr | None:
        """What __init__ assigns to self.NAME when the class is called."""
        given = self.given(init, call, 1)
        if given is None:
            return None
        new, _ = self.instance(init, given or {"": call})
        assert isinstance(new, FUNCTIONS)
        found = Flow(self.scopes, ast.unparse(name), self.truth).until(new.body, [], None)
        values = [one.value for one in found if isinstance(one.value, ast.expr)]
        if len(values) == 1 and len(found) == 1:
            return values[0]
        return Either(call, found) if values else None

    def _entry(self, node: ast.Subscript) -> list[Option] | None:
        """An element of a literal list or dictionary."""
        whole, place = self.behind(node.value)
        key = self.value(node.slice)
        if place is not None or key is UNKNOWN or isinstance(key, tuple):
            return None
        if isinstance(whole, ast.Dict):
            found = [value for name, value in zip(whole.keys, whole.values) if name is not None and self.value(name) == key]
            return [Option(found[-1])] if found else None
        if isinstance(whole, (ast.List, ast.Tuple)) and isinstance(key, int) and -len(whole.elts) <= key < len(whole.elts):
            return [Option(whole.elts[key])]
        if isinstance(whole, ast.DictComp) and isinstance(whole.key, ast.Name):
            for given in values_of(self, whole):
                name = given.get(whole.key.id)
                if name is not None and self.value(name) == key:
                    new, _ = self.instance(whole, given)
                    assert isinstance(new, ast.DictComp)
                    return [Option(new.value)]
        return None

    def instance(self, node: ast.AST, given: dict[str, ast.expr]) -> tuple[ast.AST, dict[int, ast.AST]]:
        return self.scopes.instance(node, given)

    def given(self, function: Function, call: ast.Call, skipped: int = 0) -> dict[str, ast.expr] | None:
        """The argument for each parameter, defaults included."""
        found = passed(function, call, skipped)
        if found is None:
            return None
        usual = {name: default_of(function, name) for name in parameters(function)}
        return {name: value for name, value in usual.items() if value is not None} | found

    def _returned(self, function: Function, call: ast.Call) -> list[Option] | None:
        """What one call of a function returns."""
        cached = self._instances.get(id(call))
        if cached is not None and cached[0] is call:
            return cached[1]
        given = self.given(function, call)
        if given is None or any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in ast.walk(function)):
            return None
        around = [self._copied[id(one)] for one in self.scopes.ancestors(call) if id(one) in self._copied]
        followed = (function.name, *(around[0] if around else ()))
        if self._depth > 3 or followed.count(function.name) > 1 or len(self._copied) > _MOST_CALLS:
            return None  # It calls itself, or calls too many others.
        self._depth += 1
        try:
            new, _ = self.instance(function, given or {"": call})
            assert isinstance(new, FUNCTIONS)
            self._copied[id(new)] = followed
            flow = Flow(self.scopes, "", self.truth)
            flow.until(new.body, [], None)
        finally:
            self._depth -= 1
        self._instances[id(call)] = (call, flow.returned)
        return flow.returned or None

    def _default(self, node: ast.Attribute) -> list[Option] | None:
        """The default of a command-line option, if the object may be what argparse returned."""
        default = self.command_line.get(node.attr)
        if default is None or node.attr in self.scopes.attributes or not isinstance(node.value, ast.Name):
            return None
        found = [one.value for one in self.options(node.value) or []]
        parsed = [isinstance(one, ast.Call) and ast.unparse(one.func).rpartition(".")[2].startswith("parse") for one in found]
        if not all(parsed) and (any(one is not None for one in found) or node.value.id not in _PARSED):
            return None
        text = f"{ast.unparse(node)} is taken as {ast.unparse(default)}, the default of the command line"
        return [Option(default, assumed=text)]

    # ---- The one thing that a node stands for ------------------------------------------------------------------------

    def behind(self, node: ast.expr, assume: bool = True) -> tuple[ast.expr, int | None]:
        """What an expression stands for, and its place if that is taken apart; itself if that is not known; an Either if it
        depends on something that is not known. ``assume``: defaults may be taken, and are said in ``assumed``."""
        first = node
        for _ in range(_DEEPEST):
            found = self.options(node)
            if not found:
                return node, None
            before = dict(self.assumed)
            left = [one for one in found if self._possible(one.when, assume)]
            if len(left) != 1:
                self.assumed = before
                unknown = any(not isinstance(one.value, ast.expr) for one in found)
                return (node if unknown and len(found) == 1 else Either(node, found)), None
            option = left[0]
            if not isinstance(option.value, ast.expr) or option.assumed and not assume:
                return node, None
            if option.assumed:
                self.assumed[first.lineno, option.assumed] = None
            node = option.value
            if option.place is not None:
                inner, outer = self.behind(node, assume)
                if not isinstance(inner, (ast.Tuple, ast.List)) or outer is not None or option.place >= len(inner.elts):
                    return inner, option.place
                node = inner.elts[option.place]
        raise RecursionError

    def _possible(self, conditions: tuple[Condition, ...], assume: bool) -> bool:
        return all(test is None or self.truth(test, assume) is not (not holds) for test, holds in conditions)

    def truth(self, node: ast.expr, assume: bool = False) -> bool | None:
        """Whether a condition holds, if that is known. In a loop it may depend on itself, and then it is not."""
        if (id(node), assume) in self._asked or len(self._asked) > 20:
            return None
        self._asked.add((id(node), assume))
        try:
            return truth_of(self, node, assume)
        finally:
            self._asked.discard((id(node), assume))

    def each(self, node: ast.expr, when: tuple[Condition, ...] = ()) -> list[tuple[ast.expr, tuple[Condition, ...]]]:
        """All that an expression may stand for, as its text names it, with the conditions; without taking defaults for granted.
        What it stands for is found with behind()."""
        found, place = self.behind(node, assume=False)
        if not isinstance(found, Either) or place is not None:
            return [(node, when)]
        every = []
        for option in found.options:
            if not self._possible(option.when, False):
                continue
            if not isinstance(option.value, ast.expr) or option.place is not None:
                return [(node, when)]
            every += self.each(option.value, (*when, *option.when))
        return every

    def value(self, node: ast.expr | None, default: Any = None, assume: bool = True) -> Any:
        """A constant, or UNKNOWN; ``default`` without a node."""
        return default if node is None else value_of(self, node, assume)


def read(text: str) -> Script:
    """Raises SyntaxError."""
    return Script(ast.parse(text))


def argument(call: ast.Call, name: str, place: int | None = None) -> ast.expr | None:
    """An argument, by name or by position."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[place] if place is not None and place < len(call.args) else None


__all__ = ["UNKNOWN", "Either", "Script", "argument", "read", "said"]
