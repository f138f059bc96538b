"""A script as its text says it: which names stand for what. Nothing of it is run."""

import ast
from dataclasses import dataclass, field
from typing import Any

UNKNOWN = object()  # a value that only the running program knows
# Where torch's classes are found under more than one name.
_SAME = {
    "torch.utils.data.dataloader": "torch.utils.data", "torch.utils.data.dataset": "torch.utils.data",
    "torch.utils.data.sampler": "torch.utils.data", "torch.utils.data.distributed": "torch.utils.data",
    "torchvision.transforms.v2": "torchvision.transforms", "torchvision.transforms.transforms": "torchvision.transforms",
    "torchvision.transforms.functional": "torchvision.transforms", "torchvision.datasets.folder": "torchvision.datasets",
}  # fmt: skip


@dataclass
class Script:
    tree: ast.Module
    imported: dict[str, str] = field(default_factory=dict)
    assigned: dict[str, list[tuple[int, ast.expr, int | None]]] = field(default_factory=dict)  # line, value, place in a tuple
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    everything_of: list[str] = field(default_factory=list)  # modules of which all names were imported

    def name_of(self, node: ast.AST) -> str:
        """The full name of a function or class: "" if it has none."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        full = ".".join([self.imported.get(node.id) or self._of_everything(node.id), *parts])
        module, _, last = full.rpartition(".")
        return f"{_SAME.get(module, module)}.{last}" if module else last

    def _of_everything(self, name: str) -> str:
        """Classes are looked for in the modules of which all names were imported; the script's own are its own."""
        own = name in self.classes or name in self.functions or name in self.assigned
        own = own or not name[:1].isupper() and name not in ("random_split", "default_collate")
        return name if own or len(self.everything_of) != 1 else f"{self.everything_of[0]}.{name}"

    def called(self, node: ast.AST | None) -> str:
        return self.name_of(node.func) if isinstance(node, ast.Call) else ""

    def behind(self, node: ast.expr) -> tuple[ast.expr, int | None]:
        """What a name stands for at its line, and its place if that is taken apart; other expressions stand for themselves."""
        for _ in range(20):
            key = ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
            # In x = f(x), the second x is an earlier one.
            known = [one for one in self.assigned.get(key, []) if all(part is not node for part in ast.walk(one[1]))]
            found = [one for one in known if one[0] <= node.lineno] or known
            if not found:
                return node, None
            _, value, place = found[-1]
            if place is not None or value is node:
                return value, place
            node = value
        return node, None

    def value(self, node: ast.expr | None, default: Any = None) -> Any:
        """A constant, or UNKNOWN."""
        if node is None:
            return default
        node, place = self.behind(node)
        if place is not None:
            return UNKNOWN
        if isinstance(node, (ast.Tuple, ast.List)):
            values = [self.value(one) for one in node.elts]
            return UNKNOWN if UNKNOWN in values else tuple(values)
        if isinstance(node, ast.BinOp):
            return self._arithmetic(node)
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return self._joined(node)

    def _arithmetic(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(left, str) and isinstance(right, str):
            if isinstance(node.op, ast.Add):
                return left + right
            return f"{left}/{right}" if isinstance(node.op, ast.Div) else UNKNOWN  # pathlib
        numbers = all(isinstance(one, (int, float)) and abs(one) < 1e15 for one in (left, right))
        if numbers and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            return {ast.Add: left + right, ast.Sub: left - right, ast.Mult: left * right}[type(node.op)]
        if numbers and isinstance(node.op, (ast.Div, ast.FloorDiv)) and right:
            return left / right if isinstance(node.op, ast.Div) else left // right
        return UNKNOWN

    def _joined(self, node: ast.expr) -> Any:
        """Paths that are put together, and f-strings of constants."""
        if isinstance(node, ast.Call):
            joins = self.called(node) in ("os.path.join", "pathlib.Path", "os.path.expanduser", "Path", "str")
            parts = [self.value(one) for one in node.args] if joins and not node.keywords else [UNKNOWN]
            return UNKNOWN if UNKNOWN in parts else "/".join(map(str, parts))
        if isinstance(node, ast.JoinedStr):
            parts = [self.value(one.value if isinstance(one, ast.FormattedValue) else one) for one in node.values]
            return "".join(map(str, parts)) if UNKNOWN not in parts else UNKNOWN
        return UNKNOWN


class _Reader(ast.NodeVisitor):
    def __init__(self, script: Script) -> None:
        self.script = script

    def visit_Import(self, node: ast.Import) -> None:
        for one in node.names:
            self.script.imported[one.asname or one.name.split(".")[0]] = one.name if one.asname else one.name.split(".")[0]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for one in node.names:
            if one.name == "*":
                self.script.everything_of.append(node.module or "")
            else:
                self.script.imported[one.asname or one.name] = f"{node.module or ''}.{one.name}"

    def _assign(self, target: ast.expr, value: ast.expr, place: int | None) -> None:
        if isinstance(target, (ast.Name, ast.Attribute)):
            self.script.assigned.setdefault(ast.unparse(target), []).append((target.lineno, value, place))
        elif isinstance(target, (ast.Tuple, ast.List)):
            same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            for number, one in enumerate(target.elts):
                self._assign(one, value.elts[number] if same else value, None if same else number)  # type: ignore[attr-defined]

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assign(target, node.value, None)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, node.value, None)
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.script.classes[node.name] = node
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.script.functions[node.name] = node
        self.generic_visit(node)


def read(text: str) -> Script:
    """Raises SyntaxError."""
    script = Script(ast.parse(text))
    _Reader(script).visit(script.tree)
    return script


def argument(call: ast.Call, name: str, place: int | None = None) -> ast.expr | None:
    """By name, or by its place."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[place] if place is not None and place < len(call.args) else None
