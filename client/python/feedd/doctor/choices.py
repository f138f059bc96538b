"""Which samples: Subset, random_split, and samplers that choose. One of these alone becomes an argument of feedd.DataLoader. If
one chooses from what another has chosen, they stay as they are: feedd.DataLoader takes PyTorch's own, and its arguments combine
in another way, as split= takes a part of the list indices=, and weights= are of all samples of the dataset."""

import ast
import copy
from collections.abc import Callable
from dataclasses import dataclass

from .plan import Plan
from .script import UNKNOWN, Script, argument

_SUBSET, _SPLIT, _CONCAT = (f"torch.utils.data.{name}" for name in ("Subset", "random_split", "ConcatDataset"))
_DEEPEST = 20
_VIEWS = "declare a part of each of its datasets as a [view NAME] in feedd.conf, and mix these"


@dataclass
class Chain:
    whole: ast.expr  # The dataset as the script names it.
    calls: list[ast.Call]  # Subset and random_split, the last call first.
    places: list[int | None]  # The part of each random_split; None for a Subset.
    base: ast.expr  # The dataset that the first call chooses from.


def _made_by(script: Script, node: ast.expr) -> tuple[ast.expr, int | None]:
    """Like Script.behind, and resolves parts[0] too."""
    found, place = script.behind(node)
    if place is None and isinstance(found, ast.Subscript):
        number = script.value(found.slice)
        call, outer = script.behind(found.value)
        if outer is None and isinstance(number, int) and number >= 0:
            return call, number
    return found, place


def chain_of(script: Script, whole: ast.expr) -> Chain:
    chain = Chain(whole, [], [], whole)
    for _ in range(_DEEPEST):
        call, place = _made_by(script, chain.base)
        inner = argument(call, "dataset", 0) if isinstance(call, ast.Call) else None
        if not isinstance(call, ast.Call) or inner is None or script.called(call) != (_SUBSET if place is None else _SPLIT):
            return chain
        chain.calls.append(call)
        chain.places.append(place)
        chain.base = inner
    raise RecursionError


def _with(whole: ast.expr, old: ast.expr, text: str) -> tuple[str, bool]:
    """The text of an expression with `old` replaced, and whether it contains `old`."""
    if all(node is not old for node in ast.walk(whole)):
        return ast.unparse(whole), False
    return ast.unparse(copy.deepcopy(whole, {id(old): ast.Name(text)})), True


class Choices:
    def __init__(self, script: Script, plan: Plan, describe: Callable[[ast.expr], None]) -> None:
        self.script, self.plan, self.describe = script, plan, describe

    def choose(self, whole: ast.expr, sampler: str) -> None:
        """Adds what a dataset becomes. The sampler of that name chooses among its samples; "": no sampler does."""
        chain = chain_of(self.script, whole)
        choices = len(chain.calls) + bool(sampler)
        if choices and self.script.called(self.script.behind(chain.base)[0]) == _CONCAT:
            self.describe(chain.base)
            self.plan.refuse(whole.lineno, f"a mix, which the ConcatDataset becomes, has no parts and no weights: {_VIEWS}")
        elif choices > 1:
            self.keep(chain, "samples are chosen from what others have chosen", sampler)
        elif not chain.calls:
            self.describe_base(chain, sampler)
        elif chain.places[0] is None:
            self.subset(chain)
        else:
            self.random_split(chain, chain.places[0])

    def describe_base(self, chain: Chain, sampler: str) -> None:
        self.describe(chain.base)
        if not chain.calls and not sampler:
            return
        by_number = sampler or self.script.called(chain.calls[-1]) == _SUBSET
        if self.plan.says("indices"):
            self.plan.refuse(chain.base.lineno, "select() renumbers the samples, from which more are chosen: work"
                                                " out their numbers in the dataset, and give indices=")
        elif self.plan.says("shuffle") and by_number:
            self.plan.refuse(chain.base.lineno, "shuffle() renumbers the samples, and some are chosen by number: use"
                                                " split= and split_seed= for a random part")

    def keep(self, chain: Chain, why: str, sampler: str = "") -> None:
        """Leaves all choices to PyTorch's objects over a feedd.Dataset."""
        plan, first = self.plan, chain.calls[-1]
        self.describe_base(chain, sampler)
        dataset = f'feedd.Dataset("{plan.name}")'
        plan.given, written = _with(chain.whole, chain.base, dataset)
        how = "" if written else f"; make {ast.unparse(first.func)}() of {dataset} instead of {ast.unparse(chain.base)[:60]}"
        plan.note(first.lineno, f"{why}: PyTorch's own objects choose them, as feedd.DataLoader takes these{how}")

    def subset(self, chain: Chain) -> None:
        self.describe_base(chain, "")
        indices = argument(chain.calls[0], "indices", 1)
        self.plan.say("indices", ast.unparse(indices) if indices is not None else "...")
        if indices is not None:
            self.script.check_names(self.plan, "indices", indices)

    def _lengths(self, node: ast.expr | None) -> tuple[float, ...]:
        """The lengths of a split's parts, or numbers in proportion to them; empty if they are unknown."""
        values = self.script.value(node)
        if isinstance(values, tuple):
            return values if all(isinstance(one, (int, float)) for one in values) and sum(values) else ()
        parts = self.script.behind(node)[0] if node is not None else None
        if not isinstance(parts, (ast.List, ast.Tuple)) or len(parts.elts) != 2:
            return ()
        # This form is common: int(0.8 * len(dataset)), and the rest.
        first, _ = self.script.behind(parts.elts[0])
        if self.script.called(first) == "int" and isinstance(first, ast.Call) and isinstance(first.args[0], ast.BinOp):
            product = first.args[0]
            sides = [self.script.value(side) for side in (product.left, product.right)]
            found = [side for side in sides if isinstance(side, float) and 0 < side < 1]
            if isinstance(product.op, ast.Mult) and found and "len(" in ast.unparse(product):
                return found[0], 1 - found[0]
        return ()

    def random_split(self, chain: Chain, place: int) -> None:
        call = chain.calls[0]
        lengths = self._lengths(argument(call, "lengths", 1))
        if place >= len(lengths):
            self.keep(chain, "the lengths are not known here")
            return
        self.describe_base(chain, "")
        whole, seed = sum(lengths), 0
        begin, end = sum(lengths[:place]) / whole, sum(lengths[: place + 1]) / whole
        for node in ast.walk(argument(call, "generator", 2) or ast.Constant(0)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "manual_seed":
                found = self.script.value(node.args[0]) if node.args else UNKNOWN
                seed = found if isinstance(found, int) else 0
        self.plan.say("split", f"({begin:.15g}, {end:.15g})")
        self.plan.say("split_seed", f"{seed}")
        self.plan.note(call.lineno, "split= cuts a permutation of feedd's own: the parts have"
                                    " other samples than random_split's")  # fmt: skip
