"""A DataLoader of torch as a call of feedd.DataLoader."""

import ast

from .choices import Choices, chain_of
from .datasets import Datasets
from .plan import Plan, continued, valid_name
from .samplers import Samplers
from .script import Script, argument, said
from .web import loader_steps

LOADERS = ("torch.utils.data.DataLoader", "torchdata.stateful_dataloader.StatefulDataLoader", "webdataset.WebLoader")
_PLACES = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
           "drop_last", "timeout", "worker_init_fn", "multiprocessing_context", "generator")  # fmt: skip
MAX_LINE = 8192  # The daemon's limit, in daemon/config/config_parse.c.
_SAME = ("batch_size", "drop_last", "timeout", "generator")
_USUAL_COLLATES = ("default_collate", "default_data_collator", "default_convert")
_CHANGED = ("transform", "transforms", "target_transform", "samples", "imgs", "targets", "data", "labels", "tensors", "indices")
_LEFT_OUT = {
    "num_workers": "the daemon's loaders read, as many as they need; loaders = in feedd.conf sets a number",
    "prefetch_factor": "it counts batches for each worker; the daemon reads ahead by itself",
    "persistent_workers": "there are no worker processes",
    "multiprocessing_context": "there are no worker processes",
    "pin_memory": "batches are pinned already where a GPU uses them: ask for device=\"cuda\"",
    "pin_memory_device": "ask for device=\"cuda:N\"",
    "in_order": "batches always come in order",
}


class _Loader:
    def __init__(self, script: Script, call: ast.Call, name: str, wanted: str, number: int) -> None:
        self.script, self.call = script, call
        self.given: dict[str, ast.expr] = {}
        self.plan = Plan(at=call)
        for keyword in call.keywords:
            if keyword.arg:
                self.given[keyword.arg] = keyword.value
            else:
                self._passed_on(keyword.value)
        if any(isinstance(one, ast.Starred) for one in call.args):
            self.plan.refuse(call.lineno, "arguments that are passed on with * are not known here: add them yourself")
        self.given |= dict(zip(_PLACES, call.args))
        self.given = {key: value for key, value in self.given.items() if script.value(value, assume=False) is not None}
        dataset = self.given.get("dataset")
        shown = wanted or (ast.unparse(dataset) if isinstance(dataset, (ast.Name, ast.Attribute)) else name)
        chain = chain_of(script, dataset) if dataset is not None else None
        if chain is not None and chain.calls and isinstance(chain.base, (ast.Name, ast.Attribute)):
            # All loaders over parts of a dataset use one section.
            shown = ast.unparse(chain.base)
        self.plan.name = valid_name(shown) + (f"-{number}" if number > 1 else "")
        self.samplers = Samplers(script, self.plan, call, self.given)

    def _passed_on(self, node: ast.expr) -> None:
        """Arguments from a literal dictionary. If some cases have more entries than others, all entries count."""
        cases = self.script.each(node)
        found = [self._entries(one) for one, _ in cases]
        for entries, (_, when) in zip(found, cases):
            if entries is None:
                self.plan.refuse(node.lineno, "arguments that are passed on with ** are not known here: add them yourself")
                continue
            for name, value in entries.items():
                everywhere = all(other is not None and name in other for other in found)
                if not everywhere and name not in _LEFT_OUT:
                    self.plan.note(node.lineno, f"{name}={ast.unparse(value)} only {said(when)}; else the script does"
                                                " not give it")
                elif name in self.given and ast.dump(self.given[name]) != ast.dump(value):
                    self.plan.refuse(node.lineno, f"{name}= is {ast.unparse(value)} {said(when)}, and otherwise"
                                                  f" {ast.unparse(self.given[name])}: write what applies")  # fmt: skip
                self.given.setdefault(name, value)

    def _entries(self, node: ast.expr) -> dict[str, ast.expr] | None:
        whole, _ = self.script.behind(node)
        if isinstance(whole, ast.Call) and self.script.called(whole) == "dict" and not whole.args:
            return {one.arg: one.value for one in whole.keywords if one.arg}
        if not isinstance(whole, ast.Dict):
            return None
        found: dict[str, ast.expr] = {}
        for key, value in zip(whole.keys, whole.values):
            inner = self._entries(value) if key is None else None
            name = self.script.value(key) if key is not None else None
            if key is None and inner is not None:
                found |= inner
            elif isinstance(name, str):
                found[name] = value
            else:
                return None
        return found

    def plan_it(self) -> Plan:
        plan, line = self.plan, self.call.lineno
        if "dataset" in self.given:
            datasets = Datasets(self.script, plan)
            self._changes(self.given["dataset"])
            Choices(self.script, plan, datasets.describe).choose(self.given["dataset"], self.samplers.choosing())
        elif argument(self.call, "dataset", 0) is None:
            plan.refuse(line, "the DataLoader has no dataset that can be seen here")
        if self.script.called(self.call) == "webdataset.WebLoader":
            loader_steps(self.script, plan, self.call)
        if plan.batch_size and "batch_size" not in self.given and "batch_sampler" not in self.given:
            plan.say("batch_size", plan.batch_size)
        elif plan.batch_size:
            plan.refuse(line, f"the dataset makes batches of {plan.batch_size}, and the loader batches of these: set one"
                              " batch_size")  # fmt: skip
        sized = plan.batch_size or "batch_size" in self.given or "batch_sampler" in self.given
        if argument(self.call, "batch_size", 1) is not None and not sized:
            plan.refuse(line, "batch_size=None gives single samples or batches that the dataset makes: set batch_size")
        for name in _SAME:
            if name in self.given:
                plan.say(name, ast.unparse(self.given[name]))
        for name, why in _LEFT_OUT.items():
            if name in self.given:
                plan.note(self.given[name].lineno, f"{name}= is left out: {why}")
        self.functions()
        self.samplers.describe()
        plan.sections = ["\n".join(map(continued, section.splitlines())) for section in plan.sections]
        for text in "\n".join(plan.sections).splitlines():
            if len(text.encode()) > MAX_LINE:
                plan.refuse(line, f"feedd.conf takes lines of at most {MAX_LINE} bytes, and \"{text[:30]}...\" has"
                                  f" {len(text.encode())}: shorten it, for example by a symbolic link")
        return plan

    def _changes(self, dataset: ast.expr) -> None:
        """Refuses later assignments to attributes of the dataset or of what it was made from."""
        names, left = set[str](), [dataset]
        for node in left:
            names |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            for part in ast.walk(node):
                more = [option.value for option in self.script.options(part) or [] if isinstance(option.value, ast.expr)]
                left += [value for value in more if len(left) < 50 and all(value is not other for other in left)]
        for statement in ast.walk(self.script.tree):
            for target in statement.targets if isinstance(statement, ast.Assign) else ():
                root: ast.expr = target
                while isinstance(root, (ast.Attribute, ast.Subscript)):
                    root = root.value
                changed = isinstance(target, ast.Attribute) and target.attr in _CHANGED
                if changed and isinstance(root, ast.Name) and root.id in names and root.id != "self":
                    text = " ".join(ast.unparse(target).split())[:60]
                    self.plan.refuse(target.lineno, f"{text} = ... changes a dataset after it is made, which is not"
                                                    " followed here:"
                                                    " put what applies in feedd.conf")  # fmt: skip

    def functions(self) -> None:
        if "worker_init_fn" in self.given:
            self.plan.note(self.given["worker_init_fn"].lineno, "worker_init_fn= is left out: random numbers depend on seed="
                                                                " alone, and there are no worker processes")
        collate = self.given.get("collate_fn")
        if collate is None or self.script.name_of(collate).rpartition(".")[2] in _USUAL_COLLATES:
            return
        text = ast.unparse(self.script.functions.get(ast.unparse(collate), collate))
        hint = "process batches in the loop"
        if "mixup" in text.lower() or "cutmix" in text.lower():
            hint = "feedd.mixed(loader, feedd.MixUp(), ...) does MixUp and CutMix"
        elif "pad" in text:
            hint = "ragged=\"padded\" pads each batch to its longest sample, pad.FIELD = LENGTH in feedd.conf to one length"
        self.plan.refuse(collate.lineno, f"collate_fn={ast.unparse(collate)[:50]} is code: {hint}")


def plan_of(script: Script, call: ast.Call, name: str, wanted: str = "", number: int = 1) -> Plan:
    """``name``: the variable of the loader; ``wanted``: the name for the dataset; ``number``: which one of that name it is."""
    script.assumed.clear()
    plan = Plan()
    try:
        loader = _Loader(script, call, name, wanted, number)
        plan = loader.plan
        loader.plan_it()
    except RecursionError:
        plan.refuse(call.lineno, "what it is made of refers to itself, or is nested too deeply")
    for line, text in script.assumed:
        plan.note(line, text)
    return plan
