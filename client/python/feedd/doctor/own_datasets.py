"""Dataset classes that a script defines itself: those that only hand out parts of arrays in files."""

import ast
import re

from .own_images import OwnImages, traced
from .paths import path_of
from .plan import Plan
from .script import UNKNOWN, Script, argument

_TYPES = {"uint8": "u8", "int8": "i8", "uint16": "u16", "int16": "i16", "uint32": "u32", "int32": "i32", "uint64": "u64",
          "int64": "i64", "float16": "f16", "float32": "f32", "float64": "f64"}  # fmt: skip
_BYTES = {"u8": 1, "i8": 1, "u16": 2, "i16": 2, "f16": 2, "u32": 4, "i32": 4, "f32": 4, "u64": 8, "i64": 8, "f64": 8}
# What __getitem__ may do to a part of an array without changing its values.
_HARMLESS = {
    "torch.from_numpy", "torch.tensor", "torch.as_tensor", "numpy.array", "numpy.ascontiguousarray", "numpy.copy",
    "numpy.asarray", "int", "len",
}  # fmt: skip
_METHODS = {"copy", "astype", "long", "float", "clone", "half", "to", "int"}


class _Own:
    def __init__(self, script: Script, plan: Plan, kind: ast.ClassDef, call: ast.Call) -> None:
        self.script, self.plan, self.kind, self.call = script, plan, kind, call
        methods = {one.name: one for one in kind.body if isinstance(one, ast.FunctionDef)}
        self.init, self.item = methods.get("__init__"), methods.get("__getitem__")
        self.given = self._arguments()
        if self.init is not None:
            # In the copy, parameters stand for what this call gives them.
            self.init, _ = script.instance(self.init, self.given or {"": call})  # type: ignore[assignment]
        self.arrays = self._arrays()

    def _arguments(self) -> dict[str, ast.expr]:
        """The arguments of __init__ by name."""
        if self.init is None:
            return {}
        names = [one.arg for one in self.init.args.args[1:]]
        usual = dict(zip(names[::-1], self.init.args.defaults[::-1]))
        found = dict(zip(names, self.call.args)) | {one.arg: one.value for one in self.call.keywords if one.arg}
        return {**usual, **found}

    def value(self, node: ast.expr | None) -> object:
        """A constant, including one passed as an argument or kept in an attribute."""
        if isinstance(node, ast.Name) and node.id in self.given:
            return self.script.value(self.given[node.id])
        if (kept := traced(self.init, node)) is not node:
            return self.value(kept)
        if isinstance(node, ast.Tuple):
            values = [self.value(one) for one in node.elts]
            return UNKNOWN if UNKNOWN in values else tuple(values)
        return self.script.value(node)

    def _arrays(self) -> dict[str, ast.Call]:
        """The attributes that are arrays in files."""
        found = {}
        for one in ast.walk(self.init) if self.init is not None else ():
            if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Attribute) and isinstance(one.value, ast.Call):
                if self.script.called(one.value) in ("numpy.memmap", "numpy.load", "numpy.fromfile"):
                    found[one.targets[0].attr] = one.value
        return found

    def path(self, node: ast.expr | None) -> str:
        return path_of(self.script, self.plan, traced(self.init, node), self.call.lineno, "/PATH")

    def dtype(self, call: ast.Call) -> str:
        node = argument(call, "dtype", 1)
        if node is None:
            return "u8"
        text = node.value if isinstance(node, ast.Constant) else ast.unparse(node).rpartition(".")[2]
        return _TYPES.get(str(text), "TYPE")

    def windows(self, name: str) -> ast.expr | None:
        """How many elements a sample has, if samples are slices of a flat array: for a slice [i * L : i * L + L + 1], L."""
        for node in ast.walk(self.item) if self.item is not None else ():
            if not isinstance(node, ast.Subscript) or ast.unparse(node.value) != f"self.{name}":
                continue
            if isinstance(node.slice, ast.Slice):
                for part in ast.walk(node.slice):
                    if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult):
                        return part.right if ast.unparse(part.left) in self._numbers() else part.left
        return None

    def _numbers(self) -> set[str]:
        assert self.item is not None
        return {one.arg for one in self.item.args.args[1:]}

    def code(self) -> None:
        """Refuses whatever __getitem__ does besides returning parts of the arrays."""
        assert self.item is not None
        for node in ast.walk(self.item):
            if isinstance(node, ast.Call):
                name = self.script.called(node) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
                if name not in _HARMLESS and name.rpartition(".")[2] not in _METHODS:
                    self.plan.refuse(node.lineno, f"{self.kind.name}.__getitem__ calls {ast.unparse(node)[:60]}: do that"
                                                  " once, before the data is written, or for whole batches in the loop")
            elif isinstance(node, (ast.If, ast.For, ast.While, ast.Try, ast.With)):
                self.plan.refuse(node.lineno, f"{self.kind.name}.__getitem__ decides by itself what a sample is")

    def describe(self) -> None:
        bases = [self.script.name_of(base) for base in self.kind.bases]
        line, name = self.kind.lineno, self.kind.name
        if any(base.endswith("IterableDataset") for base in bases):
            self.plan.refuse(line, f"{name} is an IterableDataset: only running it shows which samples it has; write them to"
                                   " files once (docs/data.md)")
            return
        if self.item is None:
            self.plan.refuse(line, f"{name} has no __getitem__ here: describe the files that it reads in feedd.conf")
            return
        if any(isinstance(one, ast.Return) and isinstance(one.value, ast.Dict) for one in ast.walk(self.item)):
            self.plan.say("as_dict", "True")
            self.plan.note(line, "samples are dictionaries, as as_dict=True makes them: name the fields in feedd.conf"
                                 " like their keys")  # fmt: skip
        images = OwnImages(self.script, self.plan, self.kind, self.init)
        if images.are_they():
            images.describe(self.call.lineno)
            return
        if not self.arrays:
            self.plan.refuse(line, f"{name} makes its samples with code of its own: describe the files that it reads in"
                                   " feedd.conf (docs/data.md), and do the rest in the loop")
            return
        flat = [(name, self.windows(name)) for name in self.arrays if self.windows(name) is not None]
        if flat and len(self.arrays) == 1:
            self.tokens(*flat[0])
        else:
            self.rows()
        self.code()

    def tokens(self, name: str, length: ast.expr | None) -> None:
        call, value = self.arrays[name], self.value(length)
        self.plan.section("format = tokens", f"path = {self.path(argument(call, 'filename', 0))}", "dtype ="
                                                                                                   f" {self.dtype(call)}",
                          f"length = {value if isinstance(value, int) else 'LENGTH'}")  # fmt: skip
        self.plan.note(self.call.lineno, "a sample is a window of length+1 tokens, at multiples of length: inputs are"
                                         " tokens[:, :-1], targets tokens[:, 1:]")

    def rows(self) -> None:
        """Arrays whose row i belongs to sample i."""
        files, records = [], []
        for name, call in self.arrays.items():
            field = re.sub(r"[^a-z0-9_]", "_", name.lower())
            if self.script.called(call) == "numpy.load":
                files.append(f"field.{field} = {self.path(argument(call, 'file', 0))}")
            else:
                records.append((field, call))
        if files and not records:
            self.plan.section("format = npy", *files)
        elif len(records) == 1 and not files:
            self.record(*records[0])
        else:
            self.plan.refuse(self.kind.lineno, f"{self.kind.name} combines samples from several flat files: save each as a"
                                               " .npy file once, and use format = npy")

    def record(self, field: str, call: ast.Call) -> None:
        dtype, shape = self.dtype(call), self.value(argument(call, "shape", 4))
        row = shape[1:] if isinstance(shape, tuple) and all(isinstance(one, int) for one in shape[1:]) else None
        size = _BYTES.get(dtype)
        if row is None or size is None:
            self.plan.refuse(call.lineno, "the shape or the dtype of the array is not a constant: feedd needs record_bytes")
            return
        for side in row:
            size *= side
        sides = f"[{','.join(map(str, row))}]" if row else ""
        self.plan.section("format = records", f"path = {self.path(argument(call, 'filename', 0))}", f"record_bytes = {size}",
                          f"field.{field} = {dtype}{sides} @ 0")  # fmt: skip


def own_dataset(script: Script, plan: Plan, kind: ast.ClassDef, call: ast.Call) -> None:
    _Own(script, plan, kind, call).describe()
