"""Datasets of PyTorch programs as sections of feedd.conf, and as arguments of feedd.DataLoader that choose samples."""

import ast
import re
from collections.abc import Callable

from .choices import chain_of
from .own_datasets import own_dataset
from .paths import FILL_IN, path_of
from .plan import Plan
from .script import UNKNOWN, Either, Script, argument, said
from .transforms import image_steps
from .web import web_of


class Datasets:
    def __init__(self, script: Script, plan: Plan) -> None:
        self.script, self.plan = script, plan

    def describe(self, node: ast.expr) -> None:
        """Adds what a dataset becomes."""
        whole = node
        node, place = self.script.behind(node)
        full = self.script.called(node)
        if isinstance(node, Either):
            cases = self.script.each(whole)
            told = "; ".join(f"{' '.join(ast.unparse(one).split())[:70]} ({said(when)})" for one, when in cases)
            self.plan.refuse(whole.lineno, f"which dataset it is depends on the run: describe each that applies ({told})")
            return
        if isinstance(node, ast.Subscript) and self.split_of(node):
            return
        if not isinstance(node, ast.Call):
            self.plan.refuse(whole.lineno, f"the script does not show what {ast.unparse(whole)} is: describe its files in a"
                                           " section of feedd.conf")
            return
        if place is not None:
            self.plan.refuse(whole.lineno, f"{ast.unparse(whole)} comes from {ast.unparse(node.func)}(), whose results are not"
                                           " known here")
            return
        if full in _KNOWN:
            _KNOWN[full](self, node)
        elif isinstance(kind := self.script.definition(node.func), ast.ClassDef):
            own_dataset(self.script, self.plan, kind, node)
        elif isinstance(node.func, ast.Attribute) and not self._is_imported(node.func):
            self.method(node, node.func)
        else:
            self.plan.refuse(node.lineno, f"the dataset {ast.unparse(node.func)} is not known here: describe its files in"
                                          " feedd.conf, or write them once in a format that feedd reads (docs/data.md)")

    def _is_imported(self, node: ast.expr) -> bool:
        """Whether it belongs to a module rather than an object."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and bool(self.script.module_of(node))

    # ---- torchvision -----------------------------------------------------------------------------------------------

    def _transformed(self, call: ast.Call, place: int, field: str = "image") -> None:
        steps = image_steps(self.script, self.plan, argument(call, "transform", place), call.lineno)
        if steps:
            self.plan.add(f"transform.{field} = {steps}")
        for name in ("target_transform", "transforms"):
            if argument(call, name) is not None:
                self.plan.refuse(call.lineno, f"{name}= has no counterpart; transform.label = cast TYPE changes a type")

    def image_folder(self, call: ast.Call) -> None:
        self.plan.image = "encoded"
        path = path_of(self.script, self.plan, argument(call, "root", 0), call.lineno)
        self.plan.section("format = folder", f"path = {path}", "extensions = jpg|jpeg|png|webp", "field.image = bytes @ file",
                          "field.label = i64 @ class")  # fmt: skip
        self.plan.note(call.lineno, "extensions= names what feedd decodes: the ppm, bmp, pgm, tif and tiff files that"
                                    " ImageFolder would also take are left out")
        for name, where in (("loader", 3), ("is_valid_file", 4)):
            if argument(call, name, where) is not None:
                self.plan.refuse(call.lineno, f"{name}= is code; extensions = jpg|png in feedd.conf says"
                                              " which files are samples")
        self._transformed(call, 1)

    def mnist(self, call: ast.Call) -> None:
        self.plan.image = "pixels"
        kind = self.script.called(call).rpartition(".")[2]
        root = path_of(self.script, self.plan, argument(call, "root", 0), call.lineno)
        train = self.script.value(argument(call, "train", 1), True)
        if train is UNKNOWN:
            self.plan.refuse(call.lineno, "train= is not a constant: make a dataset of each of the two")
        files = f"{root.rstrip('/')}/{kind}/raw/{'train' if train else 't10k'}"
        self.plan.section("format = idx", f"field.image = {files}-images-idx3-ubyte", "field.label ="
                                                                                      f" {files}-labels-idx1-ubyte",
                          "transform.label = cast i64")  # fmt: skip
        self._transformed(call, 2)

    def cifar(self, call: ast.Call) -> None:
        self.plan.image = "planes"
        many = self.script.called(call).endswith("100")
        root = path_of(self.script, self.plan, argument(call, "root", 0), call.lineno)
        train = self.script.value(argument(call, "train", 1), True)
        folder = f"{root.rstrip('/')}/{'cifar-100-binary' if many else 'cifar-10-batches-bin'}"
        files = ("train.bin" if many else "data_batch_*.bin") if train else ("test.bin" if many else "test_batch.bin")
        first = 2 if many else 1
        self.plan.section("format = records", f"path = {folder}/{files}", f"record_bytes = {3072 + first}",
                          f"field.image = u8[3,32,32] @ {first}", f"field.label = u8 @ {first - 1}",
                          "transform.label = cast i64")  # fmt: skip
        self.plan.note(call.lineno, "feedd reads the binary version of the archive, not the pickles that torchvision downloads")
        self._transformed(call, 2)

    # ---- torch -----------------------------------------------------------------------------------------------------

    def tensors(self, call: ast.Call) -> None:
        lines = []
        for number, one in enumerate(call.args):
            name = one.id if isinstance(one, ast.Name) else f"x{number}"
            file = self._array_file(one)
            path = path_of(self.script, self.plan, file, call.lineno) if file is not None else None
            if path is None:
                path = f"/{FILL_IN}/{name}.npy"
                self.plan.note(call.lineno, f"write {ast.unparse(one)} to a file once: numpy.save(\"{path}\","
                                            f" {ast.unparse(one)})")
            lines.append(f"field.{re.sub(r'[^a-z0-9_]', '_', name.lower())} = {path}")
        self.plan.section("format = npy", *lines)

    def _array_file(self, node: ast.expr) -> ast.expr | None:
        """The npy file that an array was loaded from, if the array has not changed since."""
        node, place = self.script.behind(node)
        while place is None and self.script.called(node) in ("torch.from_numpy", "torch.tensor", "torch.as_tensor"):
            assert isinstance(node, ast.Call)
            node, place = self.script.behind(node.args[0])
        if place is None and isinstance(node, ast.Call) and self.script.called(node) == "numpy.load" and node.args:
            path = self.script.value(node.args[0])
            return node.args[0] if isinstance(path, str) and path.endswith(".npy") else None
        return None

    def concatenated(self, call: ast.Call) -> None:
        members, _ = self.script.behind(call.args[0]) if call.args else (call, None)
        if not isinstance(members, (ast.List, ast.Tuple)):
            self.plan.refuse(call.lineno, "the datasets of the ConcatDataset are not known here")
            return
        whole, sources = self.plan.name, []
        for number, one in enumerate(members.elts):
            self.plan.name = f"{whole}-{number + 1}"
            self.member(one)
            sources.append(f"source.{self.plan.name} = SAMPLES")
        self.plan.name = whole
        self.plan.section(*sources, "epoch_samples = SUM", kind="mix")
        self.plan.note(call.lineno, "replace each SAMPLES with the number of samples of that dataset (feedctl datasets), and"
                                    " SUM with their sum: an epoch then has each once")
        self.plan.note(call.lineno, "the order is not that of a ConcatDataset: without shuffle, that gives one dataset after"
                                    " another, and a mix takes from all of them in turn, in proportion to their sizes; with"
                                    " shuffle, each is shuffled, and they are still taken in these proportions")
        self.plan.note(call.lineno, "fields must have the same names, types and shapes in all sources of a mix")

    def member(self, node: ast.expr) -> None:
        """A choice of the samples of one dataset in a mix cannot be an argument of the loader."""
        chain, said = chain_of(self.script, node), len(self.plan.arguments)
        self.describe(chain.base)
        if chain.calls or len(self.plan.arguments) > said:
            del self.plan.arguments[said:]
            self.plan.refuse(node.lineno, f"{ast.unparse(node)[:60]} is a part of a dataset, or has an order of its own: make"
                                          " it a [view NAME] in feedd.conf, by samples =, split_seed = or indices = FILE")

    # ---- Others ----------------------------------------------------------------------------------------------------

    def load_dataset(self, call: ast.Call) -> None:
        self.plan.say("as_dict", "True")
        kind, files = self.script.value(argument(call, "path", 0)), self.script.value(argument(call, "data_files"), None)
        if kind in ("parquet", "arrow") and isinstance(files, str):
            self.plan.section(f"format = {kind}", f"path = {files}", "field.COLUMN = TYPE")
        else:
            self.plan.section("format = arrow", f"path = /{FILL_IN}/*.arrow", "field.COLUMN = TYPE")
            self.plan.note(call.lineno, f"write it to files once: {ast.unparse(call)}.save_to_disk(\"/{FILL_IN}\")")
        self.plan.note(call.lineno, "replace COLUMN = TYPE with a line for each column that is used: docs/data.md has examples")

    def load_from_disk(self, call: ast.Call) -> None:
        self.plan.say("as_dict", "True")
        path = path_of(self.script, self.plan, argument(call, "dataset_path", 0), call.lineno)
        self.plan.section("format = arrow", f"path = {path}/*.arrow", "field.COLUMN = TYPE")
        self.plan.note(call.lineno, "replace COLUMN = TYPE with a line for each column that is used: docs/data.md has examples")

    def split_of(self, node: ast.Subscript) -> bool:
        """A part of a loaded dataset, as in load_dataset(...)["train"], if this is one."""
        name, (inner, place) = self.script.value(node.slice), self.script.behind(node.value)
        first = inner
        while isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute) and not self._is_imported(first.func):
            first, _ = self.script.behind(first.func.value)
        if place is not None or self.script.called(first) not in _HUGGING_FACE:
            return False
        self.describe(inner)
        where = f"[{ast.unparse(node.slice)}]"
        if self.plan.sections and isinstance(name, str):
            self.plan.sections[-1] = self.plan.sections[-1].replace("/*.arrow", f"/{name}/*.arrow")
        self.plan.note(node.lineno, f"{where} is a split of it: save_to_disk() writes each split to a folder of its own")
        return True

    def web(self, call: ast.Call) -> None:
        web_of(self.script, self.plan, [call])

    def _chain(self, call: ast.Call) -> list[ast.Call]:
        """The chain of method calls that ends with this one, first call first."""
        found = [call]
        while isinstance(found[0].func, ast.Attribute) and not self._is_imported(found[0].func):
            inner, _ = self.script.behind(found[0].func.value)
            if not isinstance(inner, ast.Call) or len(found) > 50:
                break
            found.insert(0, inner)
        return found

    def method(self, call: ast.Call, function: ast.Attribute) -> None:
        """A dataset that a method of another returns, as in WebDataset and Hugging Face datasets."""
        chain = self._chain(call)
        if self.script.called(chain[0]) in _WEB:
            web_of(self.script, self.plan, chain)
            return
        self.describe(function.value)
        name, inside = function.attr, ", ".join(ast.unparse(one)[:40] for one in call.args)
        if name in ("with_format", "set_format"):
            columns = argument(call, "columns", 1)
            self.plan.note(call.lineno, f".{name}() is left out: batches are tensors of the fields that feedd.conf has"
                                        + (f", which are those of {ast.unparse(columns)[:60]}" if columns is not None else ""))
        elif name in ("remove_columns", "select_columns", "rename_column", "rename_columns", "cast_column"):
            self.plan.note(call.lineno, f".{name}({inside}) is left out: feedd.conf names the columns, as field.NAME = TYPE @"
                                        " COLUMN")  # fmt: skip
        elif name == "map":
            self.plan.refuse(call.lineno, f".map({inside}) computes new columns: save what it gives with save_to_disk(), and"
                                          " serve that")  # fmt: skip
        elif name == "filter":
            self.plan.refuse(call.lineno, f".filter({inside}) is code: save what it leaves with save_to_disk(), and serve that")
        elif name == "select" and call.args:
            if self.plan.says("indices") or self.plan.says("shuffle"):
                self.plan.refuse(call.lineno, "select() after another one, or after shuffle(), chooses by other numbers than"
                                              " those of the dataset: work these out, and give indices=, or split= and"
                                              " split_seed=")
            self.plan.say("indices", ast.unparse(call.args[0]))
        elif name == "shuffle":
            self.plan.say("shuffle", "True")
            seed = argument(call, "seed", 0)
            if seed is not None:
                self.plan.say("seed", ast.unparse(seed))
        elif name == "train_test_split":
            self.plan.refuse(call.lineno, f".train_test_split({inside}): use split=(0, 0.9) and split=(0.9, 1), with the same"
                                          " split_seed=")  # fmt: skip
        else:
            self.plan.refuse(call.lineno, f".{name}({inside}) is code that runs for each sample: do that once, before"
                                          " the data is written, or in the loop")


_HUGGING_FACE = ("datasets.load_dataset", "datasets.load_from_disk", "datasets.Dataset.load_from_disk",
                 "datasets.DatasetDict.load_from_disk")  # fmt: skip
_WEB = ("webdataset.WebDataset", "webdataset.DataPipeline")
_DATA = "torch.utils.data"
_KNOWN: dict[str, Callable[[Datasets, ast.Call], None]] = {
    "torchvision.datasets.ImageFolder": Datasets.image_folder,
    **{f"torchvision.datasets.{name}": Datasets.mnist for name in ("MNIST", "FashionMNIST", "KMNIST", "QMNIST")},
    **{f"torchvision.datasets.{name}": Datasets.cifar for name in ("CIFAR10", "CIFAR100")},
    f"{_DATA}.TensorDataset": Datasets.tensors,
    f"{_DATA}.ConcatDataset": Datasets.concatenated,
    "datasets.load_dataset": Datasets.load_dataset,
    "datasets.load_from_disk": Datasets.load_from_disk,
    "datasets.Dataset.load_from_disk": Datasets.load_from_disk,
    **dict.fromkeys(_WEB, Datasets.web),
}
