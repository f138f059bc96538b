"""python -m feedd.doctor: choices of samples from what others have chosen. What it says is run beside the script itself."""

import re

import harness
import numpy
import pytest
from test_doctor import doctor, part
from torch.utils.data import WeightedRandomSampler

import feedd

SAMPLES = 300
HEAD = """import numpy as np
import torch
from torch.utils.data import DataLoader, Subset, TensorDataset, random_split, SubsetRandomSampler, WeightedRandomSampler
from torch.utils.data import BatchSampler, ConcatDataset, RandomSampler
x = torch.from_numpy(np.load("PLACE/x.npy"))
whole = TensorDataset(x)
train, val = random_split(whole, [270, 30], generator=torch.Generator().manual_seed(5))
parts = random_split(whole, [len(x) - 100, 100], generator=torch.Generator().manual_seed(6))
w = [float(number % 3 == 0) for number in range(270)]
idx = list(range(250, 20, -3)) + [8, 8]
by_weight = WeightedRandomSampler(w, 200)
"""


@pytest.fixture
def ask(tmp_path):
    """A script with such a loader, and what the doctor says of it."""
    numpy.save(tmp_path / "x.npy", numpy.arange(SAMPLES))

    def say(loader):
        text = f"{HEAD}loader = {loader}\n".replace("PLACE", str(tmp_path))
        return text, *doctor(tmp_path, text)

    return say


def run(text):
    """The loader that a script makes, and what it delivers in an epoch."""
    names = {"feedd": feedd}
    exec(text, names)
    return names["loader"], [int(sample) for (batch,) in names["loader"] for sample in batch]


def rewritten(text, output):
    """The script with what the doctor says in place of what it says it of."""
    said = part(output, "in the script:")
    lines = [said if line.startswith("loader = ") else line for line in text.splitlines()]
    change = re.search(r"line (\d+): .*; make \w+\(\) of (.*) instead of (.*)$", output, re.MULTILINE)
    if change:
        number, new, old = int(change[1]) - 1, change[2], change[3]
        assert lines[number].count(f"({old},") == 1, output
        lines[number] = lines[number].replace(f"({old},", f"({new},")
    return "\n".join(lines)


def both(text, output):
    """What a script delivers, its loader, and what it delivers when it is rewritten."""
    theirs, wanted = run(text)
    with feedd.serve(part(output, "in feedd.conf:"), program=harness.PROGRAMS / "feedd"):
        ours, found = run(rewritten(text, output))
        assert type(ours) is feedd.DataLoader
        ours.close()
        ours.dataset.close()
    return theirs, wanted, found


FOLLOWING = [
    "DataLoader(train, batch_size=8, sampler=WeightedRandomSampler(w, len(w)))",
    "DataLoader(train, 8, sampler=by_weight)",
    "DataLoader(Subset(whole, idx), 8, sampler=WeightedRandomSampler(w[:len(idx)], 40))",
    "DataLoader(Subset(train, idx), batch_size=8)",
    "DataLoader(train, batch_size=8, sampler=SubsetRandomSampler(range(50)))",
    "DataLoader(Subset(whole, idx), 8, sampler=SubsetRandomSampler(range(50)))",
    "DataLoader(Subset(Subset(whole, idx), range(9)), batch_size=4)",
    "DataLoader(random_split(train, [0.5, 0.5], torch.Generator().manual_seed(1))[1], batch_size=4)",
    "DataLoader(train, batch_sampler=BatchSampler(SubsetRandomSampler(range(50)), 8, False))",
    "DataLoader(Subset(TensorDataset(x), idx), batch_size=8, sampler=SubsetRandomSampler(range(20)))",
    "DataLoader(Subset(train, idx), batch_size=8, shuffle=True)",
    "DataLoader(parts[1], batch_size=8)",
]


@pytest.mark.parametrize("loader", FOLLOWING)
def test_choices_that_follow_each_other(ask, loader):
    """The same samples as often, or draws from the same samples; the order is feedd's."""
    text, status, output = ask(loader)
    assert status == 0 and not re.search(r"\b(split|split_seed|indices|weights)=", part(output, "in the script:")), output
    theirs, wanted, found = both(text, output)
    assert len(found) == len(wanted)
    if isinstance(theirs.sampler, WeightedRandomSampler):
        weighed = zip(theirs.dataset, theirs.sampler.weights)
        likely = {int(sample) for (sample,), weight in weighed if weight}
        assert set(found) <= likely and 3 * len(set(found)) > len(likely), (found, likely)
    else:
        assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize(
    ("loader", "said"),
    [
        ("DataLoader(train, batch_size=8)", "split=(0, 0.9), split_seed=5"),
        ("DataLoader(random_split(whole, [100, 100, 100])[0], 8)", "split=(0, 0.333333333333333), split_seed=0"),
        ("DataLoader(Subset(whole, idx), batch_size=8)", "indices=idx"),
        ("DataLoader(whole, batch_size=8, sampler=SubsetRandomSampler(range(50)))", "indices=range(50), shuffle=True"),
    ],
)
def test_a_single_choice_is_an_argument(ask, loader, said):
    text, status, output = ask(loader)
    assert status == 0 and said in part(output, "in the script:") and "make " not in output, output
    theirs, wanted, found = both(text, output)
    assert len(found) == len(wanted) and ("split" in said or sorted(found) == sorted(wanted))


@pytest.mark.parametrize(
    ("loader", "said"),
    [
        ("DataLoader(train, 8, sampler=WeightedRandomSampler(w, 9, replacement=False))", "without replacement"),
        ("DataLoader(Subset(ConcatDataset([whole, whole]), idx), 8)", "has no parts and no weights"),
        ("DataLoader(ConcatDataset([whole, whole]), 8, sampler=by_weight)", "has no parts and no weights"),
        ("DataLoader(ConcatDataset([whole, Subset(whole, idx)]), 8)", "Subset(whole, idx) is a part of a dataset"),
        ("DataLoader(ConcatDataset([train, whole]), 8)", "train is a part of a dataset"),
        ("DataLoader(load_dataset('imdb').select(idx), 8, sampler=by_weight)", "select() renumbers the samples"),
        ("DataLoader(Subset(load_dataset('imdb').select(idx), idx), 8)", "select() renumbers the samples"),
        ("DataLoader(load_dataset('imdb').select(idx).select(idx), 8)", "select() after another one"),
        ("DataLoader(load_dataset('imdb').shuffle(3).select(idx), 8)", "or after shuffle()"),
        ("DataLoader(load_dataset('imdb').shuffle(3), 8, sampler=by_weight)", "shuffle() renumbers the samples"),
    ],
)
def test_choices_that_cannot_be_carried_over(ask, loader, said):
    _, status, output = ask(f"{loader}\nfrom datasets import load_dataset")
    assert status == 1 and said in part(output, "cannot be converted:"), output
    assert not re.search(r"\b(\w+)=.*\b\1=", part(output, "in the script:")), output
