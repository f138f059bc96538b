"""Samplers of torch as arguments of feedd.DataLoader. A script may have one sampler in one case and another one in another
case, as in ``if distributed: sampler = DistributedSampler(...)``: each case is worked out by itself."""

import ast
from collections.abc import Callable
from dataclasses import dataclass

from .flow import Condition
from .plan import Plan
from .script import UNKNOWN, Script, argument, said

CHOOSING = ("SubsetRandomSampler", "WeightedRandomSampler")
_DISTRIBUTED = "DistributedSampler"
# The arguments that order a loader's samples, with their defaults.
_USUAL = {"shuffle": "False", "seed": "None", "generator": "None", "rank": "0", "world_size": "1"}
# Words of conditions that say whether there are several ranks.
_RANKS = ("distributed", "world", "rank", "ddp", "num_replicas", "dist.is", "gpus", "nprocs")
# These modules give each rank its part themselves.
_PARALLEL = ("lightning", "pytorch_lightning", "accelerate", "ray")


@dataclass
class _Case:
    sampler: ast.expr | None
    when: tuple[Condition, ...]
    plan: Plan
    ranked: bool = False  # It is a DistributedSampler.

    @property
    def unlike_ranks(self) -> str:
        """The condition under which ranks do not divide the samples, unless there is a single process then."""
        text = said(self.when)
        return "" if self.ranked or not self.when or any(word in text.lower() for word in _RANKS) else text


class Samplers:
    """The samplers of one loader. ``given`` has the arguments of torch's DataLoader that are not None."""

    def __init__(self, script: Script, plan: Plan, call: ast.Call, given: dict[str, ast.expr]) -> None:
        self.script, self.plan, self.call, self.given = script, plan, call, given
        self.ranked = False
        self.batches = self._batch_sampler()

    def _batch_sampler(self) -> ast.Call | None:
        """torch's own BatchSampler; None if there is none, or another one."""
        given = self.given.get("batch_sampler")
        cases = self.script.each(given) if given is not None else []
        made = [self.script.behind(one)[0] for one, _ in cases]
        calls = [one for one in made if self.script.called(one) == "torch.utils.data.BatchSampler"]
        return calls[0] if len(made) == 1 and calls and isinstance(calls[0], ast.Call) else None

    def _sampler(self) -> ast.expr | None:
        if "batch_sampler" in self.given:
            return argument(self.batches, "sampler", 0) if self.batches is not None else None
        return self.given.get("sampler")

    def _kind(self, node: ast.expr | None) -> str:
        """The name of one of torch's samplers; "" for anything else."""
        module, _, name = self.script.called(self.script.behind(node)[0] if node is not None else None).rpartition(".")
        return name if module == "torch.utils.data" else ""

    def _cases(self) -> list[_Case]:
        given = self._sampler()
        if given is None:
            return [_Case(None, (), Plan(self.plan.name, at=self.call))]
        found = []
        for one, when in self.script.each(given):
            none = self.script.value(one) is None
            found.append(_Case(None if none else one, when, Plan(self.plan.name, given=self.plan.given, at=self.call)))
        return found

    def choosing(self) -> str:
        """The name of the sampler that chooses samples; "" if none does."""
        kinds = [self._kind(one.sampler) for one in self._cases()]
        return next((kind for kind in kinds if kind in CHOOSING), "")

    # ---- All cases -------------------------------------------------------------------------------------------------

    def describe(self) -> None:
        batches = self.given.get("batch_sampler")
        if batches is not None and self.batches is None:
            self.plan.refuse(batches.lineno, f"batch_sampler={ast.unparse(batches)[:50]} is code: the daemon makes"
                                             " batches from batch_size, shuffle and drop_last")
            return
        for name, place in (("batch_size", 1), ("drop_last", 2)):
            value = argument(self.batches, name, place) if self.batches is not None else None
            if value is not None and self.script.value(value, assume=False) is not False:
                self._say(name, value)
        cases = self._cases()
        for case in cases:
            whole, self.plan = self.plan, case.plan
            self._case(case)
            self.plan = whole
        self.ranked = any(case.ranked for case in cases)
        if self.ranked and not any(case.plan.says("rank") for case in cases):
            for when in filter(None, (case.unlike_ranks for case in cases)):
                self.plan.note(self.call.lineno, f"{when}, every rank reads all samples in the script, and its part with feedd:"
                                                 " if there are several ranks then, give rank=0, world_size=1")  # fmt: skip
        self._together(cases)
        if not self.ranked:
            self._all_samples_everywhere()

    def _case(self, case: _Case) -> None:
        if case.sampler is not None:
            case.ranked = self._kind(case.sampler) == _DISTRIBUTED
            self.sampler(case.sampler)
        elif "shuffle" in self.given:
            self._shuffle(case, self.given["shuffle"])

    def _shuffle(self, case: _Case, given: ast.expr) -> None:
        """Adds shuffle, with the value that its expression has where the sampler is None."""
        against = {said(((test, not holds),)) for test, holds in case.when}
        values = set()
        for one, when in self.script.each(given):
            elsewhere = any(test is not None and said(((test, holds),)) in against for test, holds in when)
            if not elsewhere and not any(test is not None and self._holds(test) is (not holds) for test, holds in when):
                values.add(self._text(one))
        text = values.pop() if len(values) == 1 else ast.unparse(given)
        if text != "False":
            case.plan.say("shuffle", text)

    def _text(self, node: ast.expr) -> str:
        known = self._holds(node)
        value = self.script.value(node, assume=False) if known is None else known
        return str(value) if isinstance(value, bool) else ast.unparse(node)

    def _holds(self, node: ast.expr) -> bool | None:
        """Whether a condition, such as ``sampler is None``, holds where the sampler is None; None if unknown."""
        node, _ = self.script.behind(node, assume=False)
        if isinstance(node, ast.BoolOp):
            ends, parts = isinstance(node.op, ast.Or), [self._holds(one) for one in node.values]
            return ends if ends in parts else None if None in parts else not ends
        given = argument(self.call, "sampler", 3)
        sampler = ast.unparse(given) if given is not None else ""
        known = {f"{sampler} is None": True, f"not {sampler}": True, f"{sampler} is not None": False, f"bool({sampler})": False}
        found = known.get(ast.unparse(node)) if sampler else None
        return self.script.truth(node) if found is None and isinstance(node, (ast.Compare, ast.UnaryOp)) else found

    def _together(self, cases: list[_Case]) -> None:
        for case in cases:
            for line, text in case.plan.cannot:
                self.plan.refuse(line, text + (f" ({said(case.when)})" if len(cases) > 1 else ""))
            for line, text in case.plan.notes:
                self.plan.note(line, text)
        cases = [case for case in cases if not case.plan.cannot]
        if not cases:
            self.plan.arguments.append("...")
        all_said = [dict(one.split("=", 1) for one in case.plan.arguments) for case in cases]
        names = list(dict.fromkeys(name for one in all_said for name in one))
        differing = [name for name in names if len({one.get(name, _USUAL.get(name)) for one in all_said}) > 1]
        if differing and not self._is_visible(cases, differing):
            told = "; ".join(f"{said(case.when)}: {', '.join(case.plan.arguments) or 'nothing'}" for case in cases)
            self.plan.refuse(self.call.lineno, f"which sampler the loader has depends on the run: write what applies ({told})")
            self.plan.arguments.append("...")  # Nobody should train with this line as it is.
            return
        for name in names:
            if name not in differing:
                if all_said[0].get(name, _USUAL.get(name)) != _USUAL.get(name):
                    self.plan.say(name, all_said[0][name])
                continue
            first, second = (one.get(name, _USUAL[name]) for one in all_said)
            test, holds = cases[0].when[-1]
            assert test is not None
            yes, no = (first, second) if holds else (second, first)
            text = ast.unparse(test)
            simple = isinstance(test, (ast.Name, ast.Attribute))
            value = f"{yes} if {text} else {no}"
            if (yes, no) == ("True", "False"):
                value = f"bool({text})"
            elif (yes, no) == ("False", "True"):
                value = f"not {text}" if simple else f"not ({text})"
            self.plan.say(name, value)
            if name == "shuffle" and "False" in (yes, no):
                when = "if" if yes == "False" else "unless"
                self.plan.note(self.call.lineno, f"as the script has it, samples are not shuffled {when} {text}: is"
                                                 " that intended?")

    def _is_visible(self, cases: list[_Case], differing: list[str]) -> bool:
        """Whether the loader's own line can tell two cases apart."""
        if len(cases) != 2 or any(name not in _USUAL for name in differing):
            return False
        (one, other) = (case.when for case in cases)
        if len(one) != 1 or len(other) != 1 or one[0][0] is not other[0][0] or one[0][0] is None:
            return False
        test, scopes = one[0][0], self.script.scopes
        return scopes.of(test) in (scopes.of(self.call), scopes.module)

    def _all_samples_everywhere(self) -> None:
        """Without a sampler, torch gives every rank all samples; feedd does so only when told."""
        script = self.script
        if any(one.split(".")[0] in _PARALLEL for one in script.modules):
            return
        ends = [call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func) for call in script.calls]
        if "init_process_group" in ends or any(script.called(one).endswith(f".{_DISTRIBUTED}") for one in script.calls):
            self.plan.say("rank", "0")
            self.plan.say("world_size", "1")
            self.plan.note(self.call.lineno, "the loader has no DistributedSampler, so every rank reads all samples,"
                                             " which rank=0,"
                                             " world_size=1 keeps; without these two, each rank gets its part")  # fmt: skip

    # ---- Each sampler ----------------------------------------------------------------------------------------------

    def sampler(self, given: ast.expr) -> None:
        node, _ = self.script.behind(given)
        kind = self.script.called(node)
        if not isinstance(node, ast.Call) or not kind.startswith("torch.utils.data."):
            self.plan.refuse(given.lineno, f"sampler={ast.unparse(given)[:50]} is code: the daemon makes the order from"
                                           " shuffle= and seed=; indices=, split= and weights= choose samples")
            return
        name = kind.rpartition(".")[2]
        if name in CHOOSING and self.plan.given:
            # It chooses from what PyTorch's objects choose, so it stays one of them.
            self.plan.say("sampler", ast.unparse(given))
        if name in _KNOWN:
            _KNOWN[name](self, node)
        else:
            self.plan.refuse(node.lineno, f"the sampler {name} has no counterpart")

    def in_order(self, node: ast.Call) -> None:
        self.plan.note(node.lineno, "SequentialSampler is left out: without shuffle=True, samples come in the"
                                    " order of the files")

    def at_random(self, node: ast.Call) -> None:
        if self.script.value(argument(node, "replacement", 1), False) is not False:
            self.plan.refuse(node.lineno, "RandomSampler with replacement: use weights=[1] * SAMPLES and epoch_samples=")
        elif self.script.value(argument(node, "num_samples", 2)) is not None:
            self.plan.refuse(node.lineno, "RandomSampler with num_samples= draws a part of an epoch: leave"
                                          " the loop early instead")
        else:
            self.plan.say("shuffle", "True")
            self.seed(argument(node, "generator", 3))

    def of_indices(self, node: ast.Call) -> None:
        if self.plan.says("sampler"):
            return
        self._say("indices", argument(node, "indices", 0))
        self.plan.say("shuffle", "True")
        self.seed(argument(node, "generator", 1))

    def by_weight(self, node: ast.Call) -> None:
        if self.script.value(argument(node, "replacement", 2), True) is not True:
            self.plan.refuse(node.lineno, "WeightedRandomSampler without replacement has no counterpart:"
                                          " weights= draws with replacement")
            return
        if self.plan.says("sampler"):
            return
        self._say("weights", argument(node, "weights", 0))
        self._say("epoch_samples", argument(node, "num_samples", 1))
        self.seed(argument(node, "generator", 3))

    def of_ranks(self, node: ast.Call) -> None:
        shuffle, seed = self.script.value(argument(node, "shuffle", 3), True, assume=False), argument(node, "seed", 4)
        if shuffle is not False:
            given = argument(node, "shuffle", 3) or ast.Name("True")
            self.plan.say("shuffle", "True" if shuffle is True else ast.unparse(given))
        if seed is not None:
            self._say("seed", seed)
        replicas, rank = argument(node, "num_replicas", 1), argument(node, "rank", 2)
        both = [one for one in (rank, replicas) if one is not None and self.script.value(one, assume=False) is not None]
        if len(both) == 2:
            self._say("rank", both[0])
            self._say("world_size", both[1])
            self.plan.note(node.lineno, "DistributedSampler is left out: rank= and world_size= say the same. Ranks that"
                                        " torchrun has not started need a name in common, too: share=\"my-job\"")  # fmt: skip
        else:
            self.plan.note(node.lineno, "DistributedSampler is left out: ranks are detected automatically")
            for one in both:
                self.plan.refuse(node.lineno, f"give both rank= and world_size=, and not {ast.unparse(one)} alone")
        self.plan.note(node.lineno, "no sample is repeated or left out to make the ranks' parts equal: drop_last=True of the"
                                    " loader makes them equal")
        self.set_epoch(node.lineno)

    def set_epoch(self, line: int) -> None:
        name = ast.unparse(self.given.get("sampler", ast.Name("")))
        calls = [one for one in self.script.calls if isinstance(one.func, ast.Attribute) and one.func.attr == "set_epoch"]
        lines = [str(one.lineno) for one in calls if ast.unparse(one.func.value) == name]  # type: ignore[attr-defined]
        if lines:
            self.plan.note(line, f"epochs advance by themselves, so set_epoch() is not needed either: remove it in line"
                                 f" {' and '.join(lines)}")  # fmt: skip

    def seed(self, generator: ast.expr | None) -> None:
        if generator is not None and self.script.value(generator, UNKNOWN) is not None:
            self._say("generator", generator)

    def _say(self, name: str, node: ast.expr | None) -> None:
        self.plan.say(name, ast.unparse(node) if node is not None else "...")
        if node is not None:
            self.script.check_names(self.plan, name, node)


_KNOWN: dict[str, Callable[[Samplers, ast.Call], None]] = {
    "SequentialSampler": Samplers.in_order, "RandomSampler": Samplers.at_random, "SubsetRandomSampler": Samplers.of_indices,
    "WeightedRandomSampler": Samplers.by_weight, _DISTRIBUTED: Samplers.of_ranks,
}  # fmt: skip
