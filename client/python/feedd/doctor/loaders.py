"""A DataLoader of torch as a call of feedd.DataLoader."""

import ast

from .choices import Choices
from .datasets import Datasets
from .plan import Plan, continued, valid_name
from .script import UNKNOWN, Script, argument

LOADERS = ("torch.utils.data.DataLoader", "torchdata.stateful_dataloader.StatefulDataLoader", "webdataset.WebLoader")
_PLACES = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
           "drop_last", "timeout", "worker_init_fn", "multiprocessing_context", "generator")  # fmt: skip
MAX_LINE = 8192  # as daemon/config says
_SAME = ("batch_size", "shuffle", "drop_last", "timeout", "generator")
_CHOOSING = ("SubsetRandomSampler", "WeightedRandomSampler")
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
    def __init__(self, script: Script, call: ast.Call, name: str) -> None:
        self.script, self.call = script, call
        self.given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        self.given |= dict(zip(_PLACES, call.args))
        self.given = {key: value for key, value in self.given.items() if script.value(value, None) is not None}
        dataset = self.given.get("dataset")
        self.plan = Plan(valid_name(ast.unparse(dataset) if isinstance(dataset, (ast.Name, ast.Attribute)) else name))

    def plan_it(self) -> Plan:
        plan, line = self.plan, self.call.lineno
        doubly, singly = [one.arg for one in self.call.keywords], [type(one) for one in self.call.args]
        if None in doubly or ast.Starred in singly:
            plan.refuse(line, "arguments that are passed on with * or ** are not known here: add them yourself")
        if "dataset" in self.given:
            datasets = Datasets(self.script, plan)
            Choices(self.script, plan, datasets.describe).choose(self.given["dataset"], self.choosing_sampler())
        elif argument(self.call, "dataset", 0) is None:
            plan.refuse(line, "the DataLoader has no dataset that can be seen here")
        sized = "batch_size" in self.given or "batch_sampler" in self.given
        if argument(self.call, "batch_size", 1) is not None and not sized:
            plan.refuse(line, "batch_size=None gives single samples or batches that the dataset makes: set batch_size")
        for name in _SAME:
            if name == "shuffle" and "sampler" in self.given:  # it is that which says whether
                continue
            if name in self.given and not (name == "shuffle" and self.script.value(self.given[name]) is False):
                self.plan.say(name, ast.unparse(self.given[name]))
        for name, why in _LEFT_OUT.items():
            if name in self.given:
                plan.note(self.given[name].lineno, f"{name}= is left out: {why}")
        self.functions()
        self.samplers()
        plan.sections = ["\n".join(map(continued, section.splitlines())) for section in plan.sections]
        for text in "\n".join(plan.sections).splitlines():
            if len(text.encode()) > MAX_LINE:
                plan.refuse(line, f"feedd.conf takes lines of at most {MAX_LINE} bytes, and \"{text[:30]}...\" has"
                                  f" {len(text.encode())}: shorten it, for example by a symbolic link")
        return plan

    def functions(self) -> None:
        if "worker_init_fn" in self.given:
            self.plan.note(self.given["worker_init_fn"].lineno, "worker_init_fn= is left out: random numbers depend on seed="
                                                                " alone, and there are no worker processes")
        collate = self.given.get("collate_fn")
        if collate is None or self.script.name_of(collate).endswith("default_collate"):
            return
        text = ast.unparse(self.script.functions.get(ast.unparse(collate), collate))
        hint = "process batches in the loop"
        if "pad" in text:
            hint = "ragged=\"padded\" pads each batch to its longest sample, pad.FIELD = LENGTH in feedd.conf to one length"
        self.plan.refuse(collate.lineno, f"collate_fn={ast.unparse(collate)[:50]} is code: {hint}")

    # ---- Which samples, in which order -----------------------------------------------------------------------------

    def samplers(self) -> None:
        batches = self.given.get("batch_sampler")
        if batches is not None:
            node, _ = self.script.behind(batches)
            if self.script.called(node) != "torch.utils.data.BatchSampler" or not isinstance(node, ast.Call):
                self.plan.refuse(batches.lineno, f"batch_sampler={ast.unparse(batches)[:50]} is code: the daemon makes"
                                                 " batches from batch_size, shuffle and drop_last")
                return
            for name, place in (("batch_size", 1), ("drop_last", 2)):
                value = argument(node, name, place)
                if value is not None and self.script.value(value) is not False:
                    self.plan.say(name, ast.unparse(value))
            inner = argument(node, "sampler", 0)
            if inner is not None:
                self.sampler(inner)
        if "sampler" in self.given:
            self.sampler(self.given["sampler"])

    def _sampler_behind(self, given: ast.expr) -> tuple[ast.expr, ast.expr]:
        """What makes a sampler, and how the script names that."""
        node, _ = self.script.behind(given)
        if isinstance(node, ast.IfExp):
            return self._sampler_behind(node.body if self.script.called(node.body) else node.orelse)
        return node, given

    def choosing_sampler(self) -> str:
        """The name of the sampler, if it chooses samples; "": it does not, or there is none."""
        given, batches = self.given.get("sampler"), self.given.get("batch_sampler")
        if batches is not None:
            node, _ = self.script.behind(batches)
            given = argument(node, "sampler", 0) if isinstance(node, ast.Call) else None
        module, _, name = (self.script.called(self._sampler_behind(given)[0]) if given is not None else "").rpartition(".")
        return name if module == "torch.utils.data" and name in _CHOOSING else ""

    def sampler(self, given: ast.expr) -> None:
        node, given = self._sampler_behind(given)
        kind = self.script.called(node)
        if not isinstance(node, ast.Call) or not kind.startswith("torch.utils.data."):
            self.plan.refuse(given.lineno, f"sampler={ast.unparse(given)[:50]} is code: the daemon makes the order from"
                                           " shuffle= and seed=; indices=, split= and weights= choose samples")
            return
        known = {"SequentialSampler": self.in_order, "RandomSampler": self.at_random, "SubsetRandomSampler": self.of_indices,
                 "WeightedRandomSampler": self.by_weight, "DistributedSampler": self.of_ranks}  # fmt: skip
        name = kind.rpartition(".")[2]
        if name in _CHOOSING and self.plan.given:  # it chooses from what PyTorch's objects choose
            self.plan.say("sampler", ast.unparse(given))
        if name in known:
            known[name](node)
        else:
            self.plan.refuse(node.lineno, f"the sampler {name} has no counterpart")

    def in_order(self, node: ast.Call) -> None:
        self.plan.note(node.lineno, "SequentialSampler is left out: without shuffle=True, samples come in the"
                                    " order of the files")

    def at_random(self, node: ast.Call) -> None:
        if self.script.value(argument(node, "replacement", 1), False) is not False:
            self.plan.refuse(node.lineno, "RandomSampler with replacement: use weights=[1] * SAMPLES and epoch_samples=")
        elif argument(node, "num_samples", 2) is not None:
            self.plan.refuse(node.lineno, "RandomSampler with num_samples= draws a part of an epoch: leave"
                                          " the loop early instead")
        else:
            self.plan.say("shuffle", "True")
            self.seed(argument(node, "generator", 3))

    def of_indices(self, node: ast.Call) -> None:
        if self.plan.says("sampler"):
            return
        self.plan.say("indices", ast.unparse(argument(node, "indices", 0) or ast.Name("...")))
        self.plan.say("shuffle", "True")
        self.seed(argument(node, "generator", 1))

    def by_weight(self, node: ast.Call) -> None:
        if self.script.value(argument(node, "replacement", 2), True) is not True:
            self.plan.refuse(node.lineno, "WeightedRandomSampler without replacement has no counterpart:"
                                          " weights= draws with replacement")
            return
        if self.plan.says("sampler"):
            return
        self.plan.say("weights", ast.unparse(argument(node, "weights", 0) or ast.Name("...")))
        self.plan.say("epoch_samples", ast.unparse(argument(node, "num_samples", 1) or ast.Name("...")))
        self.seed(argument(node, "generator", 3))

    def of_ranks(self, node: ast.Call) -> None:
        shuffle, seed = self.script.value(argument(node, "shuffle", 3), True), argument(node, "seed", 4)
        if shuffle is not False:
            given = argument(node, "shuffle", 3) or ast.Name("True")
            self.plan.say("shuffle", "True" if shuffle is True else ast.unparse(given))
        if seed is not None:
            self.plan.say("seed", ast.unparse(seed))
        self.plan.note(node.lineno, "DistributedSampler is left out: ranks are detected automatically, and epochs advance by"
                                    " themselves, so set_epoch() is not needed either")

    def seed(self, generator: ast.expr | None) -> None:
        if generator is not None and self.script.value(generator, UNKNOWN) is not None:
            self.plan.say("generator", ast.unparse(generator))


def plan_of(script: Script, call: ast.Call, name: str) -> Plan:
    loader = _Loader(script, call, name)
    try:
        return loader.plan_it()
    except RecursionError:
        loader.plan.refuse(call.lineno, "what it is made of refers to itself, or is nested too deeply")
        return loader.plan
