"""WebDataset's pipelines: shards become a section with format = tar, and each step its counterpart in feedd."""

import ast
import re
from collections.abc import Callable

from .paths import path_of
from .plan import Plan
from .script import Either, Script, argument, said
from .transforms import image_steps

_IMAGES = ("jpg", "jpeg", "png", "webp", "ppm", "pgm", "pbm", "img", "image")
# The steps that have the result of .decode(): they say the type of values, and the order of axes.
_DECODED = {
    "pil": "", "pilrgb": "", "pill": "gray", "rgb8": "", "l8": "gray", "rgb": "scale 1/255", "l": "gray, scale 1/255",
    "torchrgb": "scale 1/255, layout chw", "torchrgb8": "layout chw", "torch": "scale 1/255, layout chw",
    "torchl": "gray, scale 1/255, layout chw", "torchl8": "gray, layout chw",
}  # fmt: skip
_NUMBERS = ("cls", "cls2", "class", "count", "index", "inx", "id", "label")
_SHUFFLES = ("shuffle", "detshuffle")
_SHARDS = ("WebDataset", "SimpleShardList", "ResampledShards", "PytorchShardList")
_READS = ("tarfile_to_samples", "tarfile_samples", "cached_tarfile_to_samples")
_SKIPPING = ("warn_and_continue", "ignore_and_continue")  # These handlers leave out what cannot be read.


class Web:
    """One chain of calls, from the shards on."""

    def __init__(self, script: Script, plan: Plan) -> None:
        self.script, self.plan = script, plan
        self.decoded: str | None = None  # The steps that decode images; None: they stay encoded.
        # Fields that have steps, or that a remark says have no fixed size.
        self.pictured: set[str] = set()
        self.fields: dict[str, str] = {}  # The type and member of each field, in the order of to_tuple.
        self.steps: list[str] = []  # Lines of feedd.conf.
        self.skips = 0  # The line of a handler that leaves samples out; 0: none.
        self.line = 0

    def shards(self, call: ast.Call) -> None:
        self.line = call.lineno
        urls = path_of(self.script, self.plan, argument(call, "urls", 0), call.lineno)
        if urls.startswith(("pipe:", "http:", "https:", "s3:", "gs:", "hf:")):
            self.plan.refuse(call.lineno, f"{urls.split(':')[0]}: feedd reads shards from files: copy them"
                                          " to this machine first")
        path = re.sub(r"\{[^}]*\}", "*", urls)
        if path != urls:
            self.plan.note(call.lineno, f"{path} takes all files that match it, also those that {urls} does not name")
        self.plan.section("format = tar", f"path = {path}")
        shards = argument(call, "shardshuffle")
        if shards is not None and self.script.value(shards) not in (False, None, 0):
            self.shuffled(call)
        resampled = self.script.called(call).endswith(".ResampledShards")
        if resampled or argument(call, "resampled") is not None:
            self.plan.note(call.lineno, f"{'ResampledShards' if resampled else 'resampled='} is left out: an epoch has each"
                                        " sample once")
        self._handled(call)

    def step(self, call: ast.Call, name: str) -> None:
        known = _STEPS.get(name)
        if known is not None:
            known(self, call)
            self._handled(call)
        else:
            self.plan.refuse(call.lineno, f"{self._text(call)} is code that runs for each sample: do that once, before"
                                          " the data is written, or in the loop")

    def _handled(self, call: ast.Call) -> None:
        handler = argument(call, "handler")
        if handler is not None and self.script.name_of(handler).rpartition(".")[2] in _SKIPPING:
            self.skips = self.skips or handler.lineno

    def _text(self, call: ast.Call) -> str:
        """A step as text for people: a method begins with its dot, a stage of a pipeline with its module."""
        whole = ast.unparse(call.func)
        if isinstance(call.func, ast.Attribute) and not self.script.called(call).startswith("webdataset."):
            whole = f".{call.func.attr}"
        named = [ast.unparse(one)[:40] for one in call.keywords if one.arg != "handler"]
        return f"{whole}({', '.join([*(ast.unparse(one)[:40] for one in call.args), *named])})"

    def finish(self) -> None:
        """Finishes the section after the last step."""
        if self.skips:
            self.plan.add("on_error = skip")
            self.plan.note(self.skips, "handler= becomes on_error = skip: what cannot be read is left out, and feedctl errors"
                                       " lists it")
        if not self.fields:
            self.plan.note(self.line, "replace NAME with each member of the samples that is used, such as jpg or cls")
            self.plan.add("field.NAME = bytes")
            self.plan.say("as_dict", "True")
            return
        for field in self.fields:
            if self._is_image(field) and self.decoded is not None and field not in self.pictured:
                self._finish_image(field)
        for line in [*(f"field.{field} = {what}" for field, what in self.fields.items()), *self.steps]:
            self.plan.add(line)

    def _is_image(self, field: str) -> bool:
        return field.lower() in _IMAGES

    def _finish_image(self, field: str, steps: str = "") -> None:
        self.pictured.add(field)
        values = [one for one in (self.decoded or "").split(", ") if one]
        if "gray" in values:
            values.remove("gray")
            steps = ", ".join(one for one in ("decode gray", steps) if one)
        if steps and not steps.startswith("decode"):
            values = [one for one in values if one.split()[0] not in steps]
        every = ", ".join([*([steps] if steps else []), *values])
        if not steps or "crop" not in steps and not re.search(r"resize \S+ \d", steps):
            decodes = "" if every else ", which decodes them"
            self.plan.refuse(self.line, f"images of a batch must have one size: begin transform.{field} with a step"
                                        f" that fixes both sides, such as center_crop 224{decodes}")
        if every:
            self.steps.append(f"transform.{field} = {every}")

    # ---- Each step -------------------------------------------------------------------------------------------------

    def decode(self, call: ast.Call) -> None:
        kinds = [self.script.value(one) for one in call.args]
        self.decoded = ""
        for node, kind in zip(call.args, kinds):
            if isinstance(kind, str) and kind in _DECODED:
                self.decoded = _DECODED[kind]
                self.plan.note(call.lineno, f"{self._text(call)} becomes the steps transform.FIELD of images, which"
                                            " decode them; texts stay bytes, and numbers are read as such")
            else:
                self.plan.refuse(call.lineno, f"{self._text(call)} is code: feedd decodes images; decode other"
                                              " members in the loop")
        if not kinds:
            self.decoded = None
            self.plan.note(call.lineno, f"{self._text(call)} is left out: numbers such as cls are read as such, texts stay"
                                        " bytes, and images stay encoded, as with it")

    def shuffled(self, call: ast.Call) -> None:
        if call.args and self.script.value(call.args[0]) in (0, None):
            return
        if self.plan.says("shuffle"):
            return
        self.plan.say("shuffle", "True")
        self.plan.note(call.lineno, "shuffle=True shuffles all samples, not only a buffer of them; with shuffle_window = 16, 16"
                                    " shards at a time")

    def members(self, call: ast.Call) -> None:
        """Sets the members of samples, in this order, considering earlier renames."""
        renamed, self.fields = self.fields, {}
        for node in call.args:
            names = self.script.value(node)
            if not isinstance(names, str):
                self.plan.refuse(call.lineno, f"{ast.unparse(node)[:40]} does not show the names of members: add a line"
                                              " field.NAME = bytes for each")
                continue
            for member in names.split():
                if member in renamed:
                    self.fields[member] = renamed[member]
                    continue
                self._member(re.split(r"[;|]", member)[0], member.replace(";", "|"), call.lineno)

    def renamed(self, call: ast.Call) -> None:
        for keyword in call.keywords:
            members = self.script.value(keyword.value)
            if keyword.arg and isinstance(members, str):
                self._member(keyword.arg, members.replace(";", "|"), call.lineno)

    def _member(self, field: str, members: str, line: int) -> None:
        last = members.split("|")[0].rpartition(".")[2]
        if field.startswith("__"):
            self.plan.refuse(line, f"{field} is not a member of the shards: write it to a member of its own if it is used")
            return
        field = re.sub(r"[^a-z0-9_]", "_", field.lower())
        self.fields[field] = f"{'i64' if last in _NUMBERS else 'bytes'} @ {members}"
        if last in ("json", "pyd", "pth", "npy", "npz", "cbor", "mp"):
            self.plan.refuse(line, f"{members} comes as the bytes of the file: take it apart in the loop, or write what"
                                   " is used to members of their own")

    def map_tuple(self, call: ast.Call) -> None:
        for field, node in zip(list(self.fields), call.args):
            self._mapped(field, node, call.lineno)

    def map_dict(self, call: ast.Call) -> None:
        for keyword in call.keywords:
            if keyword.arg:
                field = re.sub(r"[^a-z0-9_]", "_", keyword.arg.lower())
                self._mapped(field, keyword.value, call.lineno)

    def _mapped(self, field: str, node: ast.expr, line: int) -> None:
        """Applies a function to one field."""
        text = ast.unparse(node)
        if text in ("identity", "lambda x: x", "int", "wds.utils.identity") or self.script.value(node, assume=False) is None:
            return
        found, _ = self.script.behind(node)
        if self.script.called(found).startswith("torchvision.") and self.decoded is not None:
            self.plan.image, refused = "encoded", len(self.plan.cannot)
            steps = image_steps(self.script, self.plan, found, line)
            self.pictured.add(field)
            if steps and len(self.plan.cannot) == refused:
                self._finish_image(field, steps)
            elif steps:
                self.steps.append(f"transform.{field} = {steps}")
            return
        self.plan.refuse(line, f"{text[:60]} is code: process the field {field} in the loop")

    def batched(self, call: ast.Call) -> None:
        size = argument(call, "batchsize", 0)
        self.plan.batch_size = ast.unparse(size) if size is not None else "16"
        partial = argument(call, "partial", 2)
        if partial is not None and self.script.value(partial) is False:
            self.plan.say("drop_last", "True")
        if argument(call, "collation_fn", 1) is not None:
            self.plan.refuse(call.lineno, "a collation_fn is code: process batches in the loop")
        self.plan.note(call.lineno, f"{self._text(call)} becomes batch_size={self.plan.batch_size}")

    def epoch(self, call: ast.Call) -> None:
        if call.args and self.script.value(call.args[0]) != -1:
            self.plan.note(call.lineno, f"{self._text(call)} is left out: an epoch has each sample once, and len(loader) is"
                                        " known; leave the loop early for shorter ones")

    def unbatched(self, _call: ast.Call) -> None:
        self.plan.batch_size = ""
        self.plan.arguments = [one for one in self.plan.arguments if one != "drop_last=True"]

    def by_rank(self, call: ast.Call) -> None:
        shown = self._text(call).removesuffix("()")
        self.plan.note(call.lineno, f"{shown} is left out: ranks are detected automatically, and there are no worker"
                                    " processes")

    def logged(self, call: ast.Call) -> None:
        self.plan.note(call.lineno, f"{self._text(call)} is left out: feedctl show prints samples, and feedctl errors those"
                                    " that cannot be read")

    def read(self, _call: ast.Call) -> None:
        """Says nothing: this is what format = tar does."""


_STEPS: dict[str, Callable[[Web, ast.Call], None]] = {
    "decode": Web.decode, **dict.fromkeys(_SHUFFLES, Web.shuffled), "to_tuple": Web.members, "extract_keys": Web.members,
    "rename": Web.renamed, "rename_keys": Web.renamed, "map_tuple": Web.map_tuple, "map_dict": Web.map_dict,
    "batched": Web.batched, "unbatched": Web.unbatched, "with_epoch": Web.epoch, "with_length": Web.epoch, "repeat": Web.epoch,
    "slice": Web.epoch, "log_keys": Web.logged, **dict.fromkeys(_READS, Web.read),
    **dict.fromkeys(("split_by_node", "split_by_worker", "single_node_only"), Web.by_rank),
}  # fmt: skip


def web_of(script: Script, plan: Plan, calls: list[ast.Call]) -> None:
    """A chain: the first call makes the dataset, the others are its methods in the order in which they run."""
    web = Web(script, plan)
    if script.called(calls[0]).endswith(".DataPipeline"):
        _pipeline(web, calls[0])
    else:
        web.shards(calls[0])
    for call in calls[1:]:
        assert isinstance(call.func, ast.Attribute)
        web.step(call, call.func.attr)
    web.finish()


def _pipeline(web: Web, whole: ast.Call) -> None:
    """The stages of a DataPipeline: functions of webdataset, called or named."""
    script, plan = web.script, web.plan
    stages = _stages(script, plan, whole)
    if not any(script.called(one).rpartition(".")[2] in _SHARDS for one in stages):
        plan.refuse(whole.lineno, "the pipeline does not show its shards, as wds.SimpleShardList(URLS) would")
    for stage in stages:
        call = stage
        if not isinstance(call, ast.Call):  # For example, wds.split_by_node is a stage by itself.
            call = ast.copy_location(ast.Call(stage, [], []), stage)
            script.scopes.adopt(call, stage)
        module, _, name = script.called(call).rpartition(".")
        if module.split(".")[0] != "webdataset":
            plan.refuse(stage.lineno, f"{' '.join(ast.unparse(stage).split())[:60]} is code that runs for each sample: do that"
                                      " once, before the data is written, or in the loop")
        elif name in _SHARDS:
            web.shards(call)
        else:
            web.step(call, name)


def _stages(script: Script, plan: Plan, whole: ast.Call) -> list[ast.expr]:
    """Lists, and lists that are passed with ``*``, are taken apart."""
    found, left = [], list(whole.args)
    while left:
        given = left.pop(0)
        stage = given.value if isinstance(given, ast.Starred) else given
        inner, _ = script.behind(stage)
        if isinstance(inner, Either):
            (first, when), *_ = script.each(inner.named) or [(stage, ())]
            plan.refuse(stage.lineno, f"which stages the pipeline has depends on the run: those {said(when)} are shown")
            inner, _ = script.behind(first)
        if isinstance(inner, (ast.List, ast.Tuple)):
            left[:0] = inner.elts
        elif isinstance(given, ast.Starred) or isinstance(inner, Either):
            plan.refuse(stage.lineno, f"{ast.unparse(given)[:60]} does not show the stages of the pipeline")
        else:
            found.append(inner)
    return found


def loader_steps(script: Script, plan: Plan, loader: ast.Call) -> None:
    """The steps applied to a WebLoader, as in loader.unbatched().shuffle(1000).batched(64)."""
    web = Web(script, plan)
    for call in sorted(script.calls, key=lambda one: (one.end_lineno or 0, one.end_col_offset or 0)):
        base: ast.expr = call
        while isinstance(base, ast.Call) and base is not loader and isinstance(base.func, ast.Attribute):
            inner, place = script.behind(base.func.value)
            base = inner if place is None else loader.func
        if base is loader and call is not loader:
            assert isinstance(call.func, ast.Attribute)
            web.step(call, call.func.attr)
