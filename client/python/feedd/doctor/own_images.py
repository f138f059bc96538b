"""Dataset classes that a script defines itself: those that open an image for each row of a CSV file."""

import ast
from collections.abc import Callable

from .plan import Plan
from .script import Script, argument
from .transforms import image_steps

_KNOWN = {"PIL.Image.open", "torchvision.io.read_image", "os.path.join", "str", "int", "torch.tensor"}
_METHODS = {"convert", "transform", "item"}


def _first(node: ast.AST | None, matches: Callable[[ast.Call], bool]) -> ast.Call | None:
    """The first call below a node that matches."""
    calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)] if node is not None else []
    return next((one for one in calls if matches(one)), None)


class OwnImages:
    """One such class: its methods, and what __init__ is given by name."""

    def __init__(self, script: Script, plan: Plan, kind: ast.ClassDef, given: dict[str, ast.expr]) -> None:
        self.script, self.plan, self.kind, self.given = script, plan, kind, given
        methods = {one.name: one for one in kind.body if isinstance(one, ast.FunctionDef)}
        self.init, self.item = methods.get("__init__"), methods.get("__getitem__")
        self.table = _first(self.init, lambda call: script.called(call) == "pandas.read_csv")
        self.opened = _first(self.item, lambda call: script.called(call) in ("PIL.Image.open", "torchvision.io.read_image"))

    def are_they(self) -> bool:
        return self.table is not None and self.opened is not None

    def _path(self, node: ast.expr | None) -> str:
        """Of a constant, or of an argument of __init__, which may be kept in an attribute."""
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
            for one in ast.walk(self.init) if self.init is not None else ():
                if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == ast.unparse(node):
                    return self._path(one.value)
        value = self.script.value(self.given.get(node.id, node) if isinstance(node, ast.Name) else node)
        return value if isinstance(value, str) else "/PATH"

    def _columns(self, node: ast.AST) -> list[str]:
        """The names by which rows are indexed."""
        places = [one.slice for one in ast.walk(node) if isinstance(one, ast.Subscript)]
        names = [one.value for one in places if isinstance(one, ast.Constant)]
        return list(dict.fromkeys(name for name in names if isinstance(name, str)))

    def describe(self, line: int) -> None:
        assert self.table is not None and self.opened is not None and self.item is not None
        joined = _first(self.opened, lambda call: self.script.called(call) == "os.path.join")
        folder = self._path(joined.args[0]) if joined is not None and joined.args else "/PATH"
        files = self._columns(self.opened)
        fields = [name for name in self._columns(self.item) if name not in files]
        self.plan.image = "encoded"
        lines = ["format = folder", f"path = {folder}", f"csv = {self._path(argument(self.table, 'filepath_or_buffer', 0))}"]
        lines += [f"csv_file = {files[0]}"] if files else []
        self.plan.section(*lines, "field.image = bytes @ file", *(f"field.{name} = TYPE" for name in fields))
        steps = image_steps(self.script, self.plan, self.given.get("transform"), line)
        if steps:
            self.plan.add(f"transform.image = {steps}")
        if fields:
            self.plan.note(line, "replace TYPE by the type of the column, such as i64 or f32")
        for node in ast.walk(self.item):
            if isinstance(node, ast.Call):
                name = self.script.called(node) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
                if name not in _KNOWN and name.rpartition(".")[2] not in _METHODS:
                    self.plan.refuse(node.lineno, f"{self.kind.name}.__getitem__ calls {ast.unparse(node)[:60]}: do that once,"
                                                  " before the data is written, or for whole batches in the loop")
