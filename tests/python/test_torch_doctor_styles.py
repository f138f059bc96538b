"""python -m feedd.doctor: the idioms of training scripts. What it says of a loader is run beside the loader itself."""

import harness
import numpy
import pytest
from test_doctor import doctor, part
from torch.utils.data import SequentialSampler

import feedd

SAMPLES = 60
HEAD = """import numpy as np
import torch
from torch.utils.data import *
from torch.utils.data.distributed import DistributedSampler
x = torch.from_numpy(np.load("PLACE/x.npy"))
y = torch.from_numpy(np.load("PLACE/y.npy"))
dataset = TensorDataset(x)
valset = TensorDataset(y)
"""


@pytest.fixture
def ask(tmp_path):
    """A script, and what the doctor says of it."""
    numpy.save(tmp_path / "x.npy", numpy.arange(SAMPLES))
    numpy.save(tmp_path / "y.npy", numpy.arange(1000, 1000 + SAMPLES))

    def say(body):
        text = (HEAD + body).replace("PLACE", str(tmp_path))
        return text, *doctor(tmp_path, text)

    return say


def numbers(loader):
    return [int(sample) for (batch,) in loader for sample in batch]


def calls(output):
    """What the loaders become, by the names that they have in the script; those without one by their order."""
    lines = [line.strip() for line in part(output, "in the script:").splitlines() if line.strip()]
    return {line.partition(" = ")[0] if " = feedd." in line else number: line.split("feedd.DataLoader", 1)[1]
            for number, line in enumerate(lines)}  # fmt: skip


def sections(output):
    return part(output, "in feedd.conf:").replace("\n[", "\n\n[")


def compare(text, output, names, **settings):
    """Loaders of a script with some names set, and what the doctor makes of them: the same samples, shuffled or not alike."""
    theirs = {"__name__": "__main__", **settings}
    exec(text, theirs)
    with feedd.serve(sections(output), program=harness.PROGRAMS / "feedd"):
        for name in names:
            wanted, is_shuffled = numbers(theirs[name]), not isinstance(theirs[name].sampler, SequentialSampler)
            with eval(f"feedd.DataLoader{calls(output)[name]}", {**theirs, "feedd": feedd}) as ours:
                found = numbers(ours)
                assert ours.shuffle == is_shuffled and ours.batch_size == theirs[name].batch_size, output
                assert sorted(found) == sorted(wanted) and (found == wanted) == (not is_shuffled), output


# ---- A sampler in one case or another ------------------------------------------------------------------------------

EITHER = {
    "a RandomSampler": ("sampler = RandomSampler(dataset)", "sampler=sampler"),
    "no sampler": ("sampler = None", "sampler=sampler, shuffle=(sampler is None)"),
    "not sampler": ("sampler = None", "sampler=sampler, shuffle=not sampler"),
    "a variable": ("sampler = None\n    shuffle = True", "sampler=sampler, shuffle=shuffle"),
}


@pytest.mark.parametrize("kind", EITHER)
def test_a_sampler_that_depends_on_ranks(ask, kind):
    """Shuffled in both cases."""
    otherwise, arguments = EITHER[kind]
    text, status, output = ask(f"""
distributed = "ranks" in globals()
if distributed:
    sampler = DistributedSampler(dataset, seed=3, num_replicas=2, rank=ranks)
    shuffle = False
else:
    {otherwise}
loader = DataLoader(dataset, batch_size=7, {arguments})
""")
    assert status == 0, output
    said = calls(output)["loader"]
    assert "shuffle=True" in said and "seed=3 if distributed else None" in said, output
    assert "rank=ranks if distributed else 0, world_size=2 if distributed else 1" in said, output
    compare(text, output, ["loader"])
    with feedd.serve(sections(output), program=harness.PROGRAMS / "feedd"):
        loaders, theirs = [], []
        for rank in range(2):
            names = {"ranks": rank}
            exec(text, names)
            theirs += numbers(names["loader"])
            call = f"{said[:-1]}, share='job', local_world_size=2)"
            loaders.append(eval(f"feedd.DataLoader{call}", {**names, "feedd": feedd}))
        found = [int(sample) for batches in zip(*loaders) for (batch,) in batches for sample in batch]
        assert all(loader.shuffle and loader.seed == 3 for loader in loaders)
        for loader in loaders:
            loader.close()
        assert sorted(found) == sorted(theirs) == list(range(SAMPLES))


def test_ranks_that_are_detected(ask):
    """In both cases of this idiom shuffle=True is right, and the validation set stays in order."""
    _, status, output = ask("""
def main(args):
    if args.distributed:
        sampler = DistributedSampler(dataset)
        val_sampler = DistributedSampler(valset, shuffle=False)
    else:
        sampler, val_sampler = RandomSampler(dataset), SequentialSampler(valset)
    loader = DataLoader(dataset, batch_size=7, sampler=sampler)
    val_loader = DataLoader(valset, batch_size=7, sampler=val_sampler)
    for epoch in range(9):
        sampler.set_epoch(epoch)
""")
    assert status == 0, output
    assert calls(output) == {"loader": '("data", batch_size=7, shuffle=True)', "val_loader": '("val", batch_size=7)'}, output
    assert "line 12: DistributedSampler is left out: ranks are detected automatically" in output
    assert "set_epoch() is not needed either: remove it in line 19" in output


def test_a_script_that_forgets_to_shuffle(ask):
    """Without ranks it trains in order: it is said, and kept."""
    text, status, output = ask("""
def run(distributed):
    sampler = None
    if distributed:
        sampler = DistributedSampler(dataset, num_replicas=1, rank=0)
    return DataLoader(dataset, batch_size=7, sampler=sampler)
distributed = bool(flag)
sampler = DistributedSampler(dataset, num_replicas=1, rank=0) if distributed else None
loader = DataLoader(dataset, batch_size=7, sampler=sampler)
""")
    assert status == 0, output
    assert "shuffle=bool(distributed)" in calls(output)["loader"], output
    assert "samples are not shuffled unless distributed: is that intended?" in output
    compare(text, output, ["loader"], flag=False)


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        ("if a:\n    s = DistributedSampler(dataset)\nelif b:\n    s = SequentialSampler(dataset)\nelse:\n"
         "    s = RandomSampler(dataset)", "which sampler the loader has depends on the run"),
        ("if a:\n    s = WeightedRandomSampler(w, 9)\nelse:\n    s = RandomSampler(dataset)", "weights=w, epoch_samples=9"),
        ("if a:\n    s = mine.S(dataset)\nelse:\n    s = RandomSampler(dataset)",
         "sampler=mine.S(dataset) is code: the daemon makes the order from shuffle= and seed=; indices=, split= and weights="
         " choose samples (if a)"),
        ("for s in samplers:\n    pass", "sampler=s is code"),
        ("def choose(a):\n    if a:\n        return RandomSampler(dataset)\n"
         "    return SequentialSampler(dataset)\ns = choose(flag)",
         "which sampler the loader has depends on the run: write what applies (if a: shuffle=True; unless a: nothing)"),
    ],
)  # fmt: skip
def test_samplers_that_cannot_be_told_apart(ask, cases, said):
    _, status, output = ask(f"{cases}\nloader = DataLoader(dataset, 8, sampler=s)\n")
    assert status == 1 and said in part(output, "cannot be converted:"), output
    rest = "shuffle=True" if "mine" in cases else "..."  # with which nobody can run it by mistake
    assert calls(output)["loader"] == f'("data", batch_size=8, {rest})', output


def test_every_rank_reads_all(ask):
    """A loader without a DistributedSampler in a script of several ranks."""
    text, status, output = ask("""
if 0:
    torch.distributed.init_process_group("gloo")
val_loader = DataLoader(valset, batch_size=7)
""")
    assert status == 0 and "rank=0, world_size=1" in calls(output)["val_loader"], output
    compare(text, output, ["val_loader"])


# ---- Names ---------------------------------------------------------------------------------------------------------


def test_parameters_are_not_globals_of_the_same_name(ask):
    text, status, output = ask("""
batch_size = 31
def make(dataset, batch_size, shuffle=False):
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle)
train = make(dataset, 7, shuffle=True)
val = make(valset, batch_size=9)
""")
    assert status == 0, output
    assert 'as line 13 calls make(dataset, 7, shuffle=True)' in output and "as line 14 calls" in output
    assert "x.npy" in output and "y.npy" in output
    said = calls(output)
    assert said == {0: '("train", batch_size=batch_size, shuffle=True)', 1: '("val", batch_size=batch_size)'}, output


def test_a_function_that_is_called_once(ask):
    text, status, output = ask("""
def make(data, size=7):
    loader = DataLoader(data, batch_size=size)
    return loader
loader = make(valset)
data = dataset
""")
    assert status == 0 and "y.npy" in output and "x.npy" not in output, output


def test_a_function_that_nobody_calls(ask):
    _, status, output = ask("""
data = dataset
def make(data):
    return DataLoader(data, batch_size=7)
def usual(data=valset, shuffle=True):
    return DataLoader(data, batch_size=7, shuffle=shuffle)
""")
    assert status == 1 and "line 12: the script does not show what data is" in output, output
    assert "line 13: data is taken as valset, the default of usual()" not in output.split("line 12:")[0]
    assert "data is taken as valset, the default of usual()" in output and "x.npy" not in output, output


def test_datasets_of_functions_and_lists_that_grow(ask):
    text, status, output = ask("""
def build(train, part=None):
    if train:
        whole = TensorDataset(x)
        return Subset(whole, range(5, 50)), 3
    return TensorDataset(y), 3
train, classes = build(True)
val, _ = build(train=False)
train_loader = DataLoader(train, batch_size=7, shuffle=True)
val_loader = DataLoader(val, batch_size=7)
""")
    assert status == 0, output
    compare(text, output, ["train_loader", "val_loader"])


def test_arguments_in_a_dictionary(ask):
    text, status, output = ask("""
kwargs = {"batch_size": 7}
if torch.cuda.is_available():
    kwargs.update({"num_workers": 1, "pin_memory": True})
kwargs["drop_last"] = False
train_loader = DataLoader(dataset, shuffle=True, **kwargs)
more = dict(batch_size=9)
val_loader = DataLoader(valset, **more)
""")
    assert status == 0, output
    compare(text, output, ["train_loader", "val_loader"])


def test_loaders_in_a_dictionary(ask):
    text, status, output = ask("""
sets = {"train": dataset, "val": valset}
loaders = {name: DataLoader(sets[name], batch_size=7) for name in ["train", "val"]}
train, val = loaders["train"], loaders["val"]
""")
    assert status == 0 and "(for name = 'train')" in output, output
    theirs = {}
    exec(text, theirs)
    with feedd.serve(sections(output), program=harness.PROGRAMS / "feedd"):
        for name, said in zip(("train", "val"), calls(output).values()):
            with eval(f"feedd.DataLoader{said}", {"feedd": feedd}) as ours:
                assert numbers(ours) == numbers(theirs[name])


# ---- ConcatDataset -------------------------------------------------------------------------------------------------


def test_a_mix_has_each_sample_once_and_in_turn(ask, tmp_path):
    """What the note says of it."""
    text, status, output = ask("loader = DataLoader(ConcatDataset([dataset, valset]), batch_size=4)\n")
    numpy.save(tmp_path / "y.npy", numpy.arange(1000, 1020))  # three of the first to one of the second
    assert status == 0 and "takes from all of them in turn, in proportion to their sizes" in output, output
    conf = sections(output).replace("field.y", "field.x").replace("SUM", str(SAMPLES + 20))
    first, second = (line for line in conf.splitlines() if line.endswith("= SAMPLES"))
    conf = conf.replace(first, first.replace("SAMPLES", str(SAMPLES))).replace(second, second.replace("SAMPLES", "20"))
    theirs = {}
    exec(text, theirs)
    with feedd.serve(conf, program=harness.PROGRAMS / "feedd"):
        with eval(f"feedd.DataLoader{calls(output)['loader']}", {"feedd": feedd}) as ours:
            found = numbers(ours)
    assert sorted(found) == sorted(numbers(theirs["loader"])) and found != numbers(theirs["loader"])
    assert all(sum(one >= 1000 for one in found[at : at + 4]) == 1 for at in range(0, SAMPLES + 20, 4)), found


def test_a_dataset_that_is_changed_later(ask):
    _, status, output = ask("""
loader = DataLoader(valset, batch_size=4)
valset.tensors = (x,)
""")
    assert status == 1 and "valset.tensors = ... changes a dataset after it is made" in output, output


def test_names_that_a_function_keeps(ask):
    _, status, output = ask("""
def build():
    chosen = np.random.permutation(len(x))[:9]
    return Subset(dataset, chosen)
def weigh():
    w = torch.ones(9)
    return WeightedRandomSampler(w, len(w))
def load():
    few = [1, 2]
    return DataLoader(Subset(dataset, few), batch_size=7)
loader = DataLoader(build(), batch_size=7)
drawn = DataLoader(dataset, batch_size=7, sampler=weigh())
""")
    assert status == 0, output
    assert "indices=chosen uses chosen, which only build() has: let it give that, too" in output
    assert "weights=w uses w, which only weigh() has: let it give that, too" in output and "uses few" not in output


@pytest.mark.parametrize(
    ("shuffle", "said"),
    [
        ("sampler is None and split == 'train'", ["shuffle=True", ""]),
        ("sampler is None and flag", ["shuffle=sampler is None and flag", "shuffle=sampler is None and flag"]),
        ("(split == 'train')", ["shuffle=True", ""]),
        ("True if sampler is None else False", ["shuffle=True", "shuffle=True"]),
    ],
)
def test_shuffle_as_a_condition(ask, shuffle, said):
    _, status, output = ask(f"""
def load(split):
    sampler = None
    return DataLoader(dataset, batch_size=7, sampler=sampler, shuffle={shuffle})
train, val = load("train"), load("val")
""")
    assert status == 0, output
    found = [one[one.index("batch_size=7") + 12 : -1].lstrip(", ") for one in calls(output).values()]
    assert found == (said if said[0] != said[1] else said[:1]), output
