"""Datasets of PyTorch programs as sections of feedd.conf, and as arguments of feedd.DataLoader that choose samples."""

import ast
import re
from collections.abc import Callable

from .choices import chain_of
from .own_datasets import own_dataset
from .plan import Plan
from .script import UNKNOWN, Script, argument
from .transforms import image_steps

_FILL_IN = "PATH"


def _text(script: Script, node: ast.expr | None) -> str:
    """A path, or a word to be filled in."""
    value = script.value(node, UNKNOWN)
    return value if isinstance(value, str) else _FILL_IN


class Datasets:
    def __init__(self, script: Script, plan: Plan) -> None:
        self.script, self.plan = script, plan

    def describe(self, node: ast.expr) -> None:
        """Adds what a dataset becomes."""
        whole = node
        node, place = self.script.behind(node)
        full = self.script.called(node)
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
        elif isinstance(node.func, ast.Name) and node.func.id in self.script.classes:
            own_dataset(self.script, self.plan, self.script.classes[node.func.id], node)
        elif isinstance(node.func, ast.Attribute) and not self._is_imported(node.func):
            self.method(node, node.func)
        else:
            self.plan.refuse(node.lineno, f"the dataset {ast.unparse(node.func)} is not known here: describe its files in"
                                          " feedd.conf, or write them once in a format that feedd reads (docs/data.md)")

    def _is_imported(self, node: ast.expr) -> bool:
        """Whether it is a part of a module, not of an object."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.script.imported

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
        path = _text(self.script, argument(call, "root", 0))
        self.plan.section("format = folder", f"path = {path}", "field.image = bytes @ file", "field.label = i64 @ class")
        for name, where in (("loader", 3), ("is_valid_file", 4)):
            if argument(call, name, where) is not None:
                self.plan.refuse(call.lineno, f"{name}= is code; extensions = jpg|png in feedd.conf says"
                                              " which files are samples")
        self._transformed(call, 1)

    def mnist(self, call: ast.Call) -> None:
        self.plan.image = "pixels"
        kind = self.script.called(call).rpartition(".")[2]
        root, train = _text(self.script, argument(call, "root", 0)), self.script.value(argument(call, "train", 1), True)
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
        root, train = _text(self.script, argument(call, "root", 0)), self.script.value(argument(call, "train", 1), True)
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
            path = self._array_file(one)
            if path is None:
                path = f"/{_FILL_IN}/{name}.npy"
                self.plan.note(call.lineno, f"write {ast.unparse(one)} to a file once: numpy.save(\"{path}\","
                                            f" {ast.unparse(one)})")
            lines.append(f"field.{re.sub(r'[^a-z0-9_]', '_', name.lower())} = {path}")
        self.plan.section("format = npy", *lines)

    def _array_file(self, node: ast.expr) -> str | None:
        """The npy file that an array was loaded from and not changed since."""
        node, place = self.script.behind(node)
        while place is None and self.script.called(node) in ("torch.from_numpy", "torch.tensor", "torch.as_tensor"):
            assert isinstance(node, ast.Call)
            node, place = self.script.behind(node.args[0])
        if place is None and isinstance(node, ast.Call) and self.script.called(node) == "numpy.load" and node.args:
            path = self.script.value(node.args[0])
            return path if isinstance(path, str) and path.endswith(".npy") else None
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
        self.plan.note(call.lineno, "replace each SAMPLES by the number of samples of that dataset (feedctl datasets), and"
                                    " SUM by their"
                                    " sum: an epoch then has each once")

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
        kind, files = self.script.value(argument(call, "path", 0)), self.script.value(argument(call, "data_files"), None)
        if kind in ("parquet", "arrow") and isinstance(files, str):
            self.plan.section(f"format = {kind}", f"path = {files}", "field.COLUMN = TYPE")
        else:
            self.plan.section("format = arrow", f"path = /{_FILL_IN}/*.arrow", "field.COLUMN = TYPE")
            self.plan.note(call.lineno, f"write it to files once: {ast.unparse(call)}.save_to_disk(\"/{_FILL_IN}\")")
        self.plan.note(call.lineno, "replace COLUMN = TYPE by a line for each column that is used: docs/data.md has examples")

    def load_from_disk(self, call: ast.Call) -> None:
        self.plan.section("format = arrow", f"path = {_text(self.script, argument(call, 'dataset_path', 0))}/*.arrow",
                          "field.COLUMN = TYPE")  # fmt: skip
        self.plan.note(call.lineno, "replace COLUMN = TYPE by a line for each column that is used: docs/data.md has examples")

    def web(self, call: ast.Call) -> None:
        urls = _text(self.script, argument(call, "urls", 0))
        if urls.startswith(("pipe:", "http:", "https:", "s3:", "gs:")):
            self.plan.refuse(call.lineno, f"{urls.split(':')[0]}: feedd reads shards from files: copy them"
                                          " to this machine first")
        path = re.sub(r"\{[^}]*\}", "*", urls)
        self.plan.section("format = tar", f"path = {path}")

    def method(self, call: ast.Call, function: ast.Attribute) -> None:
        """A dataset that another one gives, as those of WebDataset and Hugging Face do."""
        known = {
            "decode": None, "batched": None, "with_epoch": None, "with_length": None, "repeat": None, "with_format": None,
            "set_format": None, "select": "indices", "shuffle": "shuffle",
        }  # fmt: skip
        self.describe(function.value)
        name = function.attr
        if name in ("to_tuple", "rename", "extract_keys"):
            self.members(call)
        elif name == "map_tuple" and self.plan.sections and "format = tar" in self.plan.sections[-1] and call.args:
            self.plan.image = "encoded"
            steps = image_steps(self.script, self.plan, call.args[0], call.lineno)
            first = re.search(r"^field\.(\S+) = bytes", self.plan.sections[-1], re.MULTILINE)
            if steps and first:
                self.plan.add(f"transform.{first[1]} = {steps}")
            for extra in call.args[1:]:
                if ast.unparse(extra) not in ("identity", "lambda x: x", "int"):
                    self.plan.refuse(call.lineno, f"{ast.unparse(extra)[:60]} is code: process the field in the loop")
        elif name not in known:
            self.plan.refuse(call.lineno, f".{name}({', '.join(ast.unparse(one)[:40] for one in call.args)}) is code that"
                                          " runs for each sample: do that once, before the data is written, or in the loop")
        elif known[name] == "indices" and call.args:
            if self.plan.says("indices") or self.plan.says("shuffle"):
                self.plan.refuse(call.lineno, "select() after another one, or after shuffle(), chooses by other numbers than"
                                              " those of the dataset: work these out, and give indices=, or split= and"
                                              " split_seed=")
            self.plan.say("indices", ast.unparse(call.args[0]))
        elif known[name] == "shuffle":
            self.plan.say("shuffle", "True")
            if "format = tar" in "".join(self.plan.sections):
                self.plan.note(call.lineno, "shuffle=True shuffles all samples; with shuffle_window = 16, 16 shards at a time")

    def members(self, call: ast.Call) -> None:
        """The members of a WebDataset's samples."""
        for node in call.args:
            names = self.script.value(node)
            for member in names.split() if isinstance(names, str) else ["NAME"]:
                field = re.split(r"[;|]", member)[0]
                number = field in ("cls", "label", "index", "id")
                self.plan.add(f"field.{field} = {'i64' if number else 'bytes'} @ {member.replace(';', '|')}")


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
    "webdataset.WebDataset": Datasets.web,
}
