"""Python's scopes: where a name is looked up, and what parameters stand for."""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass, field

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(eq=False)
class Scope:
    node: ast.AST
    outer: "Scope | None"
    names: set[str] = field(default_factory=set)  # Names that are bound here.
    elsewhere: set[str] = field(default_factory=set)  # Names that are declared global or nonlocal.
    given: dict[str, ast.expr] = field(default_factory=dict)  # What parameters stand for in one call.

    @property
    def at_once(self) -> bool:
        """Whether its code runs where it is written."""
        return not isinstance(self.node, FUNCTIONS)


def parameters(node: ast.AST) -> list[str]:
    if not isinstance(node, (*FUNCTIONS, ast.Lambda)):
        return []
    every = node.args
    rest = [one for one in (every.vararg, every.kwarg) if one is not None]
    return [one.arg for one in [*every.posonlyargs, *every.args, *every.kwonlyargs, *rest]]


def default_of(node: ast.AST, name: str) -> ast.expr | None:
    """The default of a parameter."""
    if not isinstance(node, FUNCTIONS):
        return None
    places = [one.arg for one in [*node.args.posonlyargs, *node.args.args]]
    usual: dict[str, ast.expr | None] = dict(zip(places[::-1], node.args.defaults[::-1]))
    usual.update(zip([one.arg for one in node.args.kwonlyargs], node.args.kw_defaults))
    return usual.get(name)


def passed(function: Function, call: ast.Call, skipped: int = 0) -> dict[str, ast.expr] | None:
    """The argument for each parameter; None if that cannot be told. ``skipped``: 1 with self."""
    if any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords):
        return None
    places = [one.arg for one in [*function.args.posonlyargs, *function.args.args]][skipped:]
    return dict(zip(places, call.args)) | {one.arg: one.value for one in call.keywords if one.arg}


class Scopes:
    """The scope and the parent of each node. Nodes are kept alive so that their ids stay unique."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope(tree, None)
        self._known: dict[int, tuple[ast.AST, Scope, ast.AST | None]] = {}
        self.attributes: set[str] = set()  # Names of attributes that something is assigned to.
        self.walrus: set[str] = set()  # Names that are bound by :=.
        self._add(tree, self.module, None)

    def of(self, node: ast.AST) -> Scope | None:
        known = self._known.get(id(node))
        return known[1] if known is not None and known[0] is node else None

    def ancestors(self, node: ast.AST | None) -> Iterator[ast.AST]:
        """The node and everything around it, from the inside out."""
        while node is not None:
            yield node
            known = self._known.get(id(node))
            node = known[2] if known is not None else None

    def adopt(self, node: ast.expr, like: ast.AST) -> None:
        """Makes the names of a new expression resolve where an existing one stands."""
        known = self._known[id(like)]
        for one in ast.walk(node):
            if id(one) not in self._known:
                self._known[id(one)] = (one, known[1], known[2])

    def _add(self, node: ast.AST, scope: Scope, parent: ast.AST | None) -> None:
        self._known[id(node)] = (node, scope, parent)
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            scope.names.add(node.name)
        if isinstance(node, (*FUNCTIONS, ast.Lambda, ast.ClassDef, *COMPREHENSIONS)):
            self._add_scope(node, scope)
            return
        if isinstance(node, ast.NamedExpr):
            self.walrus.add(node.target.id)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            scope.names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            self.attributes.add(node.attr)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            scope.names |= {one.asname or one.name.split(".")[0] for one in node.names}
        elif isinstance(node, ast.ExceptHandler) and node.name:
            scope.names.add(node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            scope.elsewhere |= set(node.names)
        for child in ast.iter_child_nodes(node):
            self._add(child, scope, node)

    def _add_scope(self, node: ast.AST, outer: Scope) -> None:
        inner = Scope(node, outer, set(parameters(node)))
        inside: list[ast.AST] = []
        if isinstance(node, ast.Lambda):
            inside = [node.body]
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            inside = list(node.body)
        elif isinstance(node, COMPREHENSIONS):
            inside = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.comprehension)]
            for generator in node.generators:
                self._known[id(generator)] = (generator, inner, node)
                inside += [generator.target, *generator.ifs, *([] if generator is node.generators[0] else [generator.iter])]
        for one in inside:
            self._add(one, inner, node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.comprehension) and isinstance(node, COMPREHENSIONS):
                if child is node.generators[0]:
                    self._add(child.iter, outer, node)
            elif all(child is not one for one in inside):
                self._add(child, outer, node)

    def owner(self, name: str, scope: Scope) -> Scope | None:
        """The scope that owns a name used in this scope."""
        at: Scope | None = scope
        while at is not None:
            visible = at is scope or not isinstance(at.node, ast.ClassDef)
            if name in at.elsewhere:
                return self.module if name in self.module.names else None
            if visible and name in at.names:
                return at
            at = at.outer
        return None

    def seen_from(self, owner: Scope, scope: Scope, node: ast.AST) -> ast.AST | None:
        """Where in its owner's code a name is used; None: at the end, because a function runs later."""
        at, where = scope, node
        while at is not owner:
            if not at.at_once:
                return None
            assert at.outer is not None
            at, where = at.outer, at.node
        return where

    def instance(self, node: ast.AST, given: dict[str, ast.expr]) -> tuple[ast.AST, dict[int, ast.AST]]:
        """A copy of a function or comprehension whose parameters have values, and a map from each node to its copy."""
        memo: dict[int, object] = {}
        new = copy.deepcopy(node, memo)
        _, outer, parent = self._known[id(node)]
        names = set(outer.names)
        self._add(new, outer, parent)
        outer.names = names
        inside = new.body[0] if isinstance(new, FUNCTIONS) else next(ast.iter_child_nodes(new))
        scope = self._known[id(inside)][1]
        scope.given = given
        return new, {key: value for key, value in memo.items() if isinstance(value, ast.AST)}
