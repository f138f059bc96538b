"""Dataset classes that a script defines itself: those that open an image for each row of a CSV file."""

import ast
from collections.abc import Callable

from .paths import path_of
from .plan import Plan
from .script import Script, argument
from .transforms import image_steps

_KNOWN = {"PIL.Image.open", "torchvision.io.read_image", "os.path.join", "str", "int", "torch.tensor"}
_METHODS = {"convert", "item"}


def _first(node: ast.AST | None, matches: Callable[[ast.Call], bool]) -> ast.Call | None:
    """The first call below a node that matches."""
    calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)] if node is not None else []
    return next((one for one in calls if matches(one)), None)


def traced(init: ast.FunctionDef | None, node: ast.expr | None) -> ast.expr | None:
    """What __init__ assigned to an attribute of self; other expressions are returned as they are."""
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
        for one in ast.walk(init) if init is not None else ():
            if isinstance(one, ast.Assign) and len(one.targets) == 1:
                target, value = one.targets[0], one.value
                pairs = [(target, value)]
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    pairs = list(zip(target.elts, value.elts))
                found = [value for name, value in pairs if ast.unparse(name) == ast.unparse(node)]
                if found:
                    return traced(init, found[0])
    return node


class OwnImages:
    """One such class: its methods, with a copy of __init__ in which parameters have their values."""

    def __init__(self, script: Script, plan: Plan, kind: ast.ClassDef, init: ast.FunctionDef | None) -> None:
        self.script, self.plan, self.kind, self.init = script, plan, kind, init
        methods = {one.name: one for one in kind.body if isinstance(one, ast.FunctionDef)}
        self.item = methods.get("__getitem__")
        self.table = _first(self.init, lambda call: script.called(call) == "pandas.read_csv")
        self.opened = _first(self.item, lambda call: script.called(call) in ("PIL.Image.open", "torchvision.io.read_image"))

    def are_they(self) -> bool:
        return self.table is not None and self.opened is not None

    def _path(self, node: ast.expr | None, line: int, what: str = "") -> str:
        return path_of(self.script, self.plan, traced(self.init, node), line, "/PATH", what)

    def _transforms(self) -> list[ast.expr]:
        """The attributes that __getitem__ calls and that are not None."""
        found = []
        for call in ast.walk(self.item) if self.item is not None else ():
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "self":
                kept = traced(self.init, call.func)
                if kept is not None and kept is not call.func and self.script.value(kept) is not None:
                    found.append(kept)
        return found

    def _columns(self, node: ast.AST) -> list[str]:
        """The names by which rows are indexed."""
        places = [one.slice for one in ast.walk(node) if isinstance(one, ast.Subscript)]
        names = [one.value for one in places if isinstance(one, ast.Constant)]
        return list(dict.fromkeys(name for name in names if isinstance(name, str)))

    def describe(self, line: int) -> None:
        assert self.table is not None and self.opened is not None and self.item is not None
        joined = _first(self.opened, lambda call: self.script.called(call) == "os.path.join")
        folder = self._path(joined.args[0] if joined is not None and joined.args else None, line, "the folder of the images")
        files = self._columns(self.opened)
        fields = [name for name in self._columns(self.item) if name not in files]
        self.plan.image = "encoded"
        lines = ["format = folder", f"path = {folder}", f"csv ="
                                                        f" {self._path(argument(self.table, 'filepath_or_buffer', 0), line)}"]
        lines += [f"csv_file = {files[0]}"] if files else []
        self.plan.section(*lines, "field.image = bytes @ file", *(f"field.{name} = TYPE" for name in fields))
        applied = self._transforms()
        steps = image_steps(self.script, self.plan, applied[0] if applied else None, line)
        for one in applied[1:]:
            self.plan.refuse(one.lineno, f"{self.kind.name} also applies {ast.unparse(one)[:60]}: do that in the loop")
        if steps:
            self.plan.add(f"transform.image = {steps}")
        if fields:
            self.plan.note(line, "replace TYPE with the type of the column, such as i64 or f32")
        for node in ast.walk(self.item):
            if isinstance(node, ast.Call):
                name = self.script.called(node) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
                if traced(self.init, node.func) is not node.func:
                    continue  # The call applies a transform of the dataset.
                if name not in _KNOWN and name.rpartition(".")[2] not in _METHODS:
                    self.plan.refuse(node.lineno, f"{self.kind.name}.__getitem__ calls {ast.unparse(node)[:60]}: do that once,"
                                                  " before the data is written, or for whole batches in the loop")
