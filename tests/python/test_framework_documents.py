"""The programs of docs/frameworks.md, each in its framework with two processes: which samples they see before and after a
checkpoint, and that together they see each sample once."""

import re
import tempfile

import harness
import pytest
import support
from support import SAMPLES, wanted

DOCUMENT = harness.ROOT / "docs/frameworks.md"
SHUFFLED = {"shuffle": True, "seed": 11}
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
# Nothing leaves the machine or its loopback, and each process has one thread.
QUIET = {
    "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "HF_HUB_OFFLINE": "1",
    "PYTHONUNBUFFERED": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR",
}  # fmt: skip


def program_of(section):
    """The one Python block of a section, which is a whole program."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return block


class Job:
    """A section's program, and a daemon whose numbers are only ids."""

    def __init__(self, daemon, folder, section, *launcher):
        self.daemon, self.folder, self.launcher = daemon, folder, launcher
        self.program = folder / "program.py"
        self.program.write_text(program_of(section))

    def run(self, *arguments):
        (self.folder / "kept").mkdir(exist_ok=True)
        command = [*self.launcher, str(self.program), str(self.folder / "kept"), *arguments]
        code = "import os, sys; os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
        with tempfile.TemporaryDirectory(prefix="") as folder:  # with a short name: Ray makes sockets there
            variables = {**QUIET, "TMPDIR": folder}
            return support.run(code, *command, daemon=self.daemon, variables=variables, cwd=self.folder)


def lines(text, word):
    """What each rank said with that word: lists of numbers. The programs write a line at once, so that processes can share an
    output."""
    found = {0: [], 1: []}
    for rank, epoch, numbers in re.findall(rf"^{word} ([01]) (\d) \[([\d, ]*)\]$", text, re.MULTILINE):
        found[int(rank)].append([int(epoch), *(int(number) for number in numbers.split(", "))])
    assert text.count(word) == sum(map(len, found.values())), "lines of several processes are one"
    return found


def all_of(rank, **options):
    shape = {"world_size": 2, "rank": rank, **SHUFFLED, **options}
    return [[epoch, *batch] for epoch in range(2) for batch in wanted(8, epoch=epoch, **shape)]


def check(first, again, kept_after, stopped_after=None, **options):
    """Each rank's batches up to where the run ended, then those after the checkpoint; together, each sample once an epoch."""
    samples = []
    for rank in range(2):
        right = all_of(rank, **options)
        assert first[rank] == right[:stopped_after]
        assert again[rank] == right[kept_after:]
        samples += [(batch[0], number) for batch in [*first[rank][:kept_after], *again[rank]] for number in batch[1:]]
    assert len(set(samples)) == len(samples), "a sample was seen twice"
    each = SAMPLES - SAMPLES % 16 if options.get("drop_last") else SAMPLES
    assert [sum(epoch == which for epoch, _ in samples) for which in range(2)] == [each, each], "a sample was missed"


def check_each_once(found):
    assert sorted(number for batches in found.values() for batch in batches for number in batch[1:]) == list(range(SAMPLES))


@pytest.fixture(scope="module")
def ids():
    """A daemon that serves the ids alone, as the document declares them."""
    import numpy

    with harness.Instance() as instance:
        numpy.save(instance.directory / "numbers.npy", numpy.arange(SAMPLES))
        instance.add_dataset("numbers", format="npy", field_id=instance.directory / "numbers.npy")
        yield instance.start()


@pytest.mark.limit(120)
def test_torchrun(ids, tmp_path):
    job = Job(ids, tmp_path, "torchrun", *TORCHRUN)
    check(lines(job.run(), "seen"), lines(job.run("resume"), "seen"), kept_after=18)


@pytest.mark.limit(240)
def test_lightning(ids, tmp_path):
    job = Job(ids, tmp_path, "Lightning")
    output = job.run()
    check(lines(output, "seen"), lines(job.run("resume"), "seen"), kept_after=18, stopped_after=20)
    for what in ("checked", "predicted"):
        check_each_once(lines(output, what))


@pytest.mark.limit(240)
def test_accelerate(ids, tmp_path):
    job = Job(ids, tmp_path, "Accelerate", *TORCHRUN)
    output = job.run()
    check(lines(output, "seen"), lines(job.run("resume"), "seen"), kept_after=18)
    # Of 13 batches an epoch, gradients of three are applied together, and at the end those of what is left.
    steps = [[epoch, step] for epoch in range(2) for step in (2, 5, 8, 11, 12)]
    assert lines(output, "applied") == {0: steps, 1: steps}


@pytest.mark.limit(240)
def test_trainer(ids, tmp_path):
    job = Job(ids, tmp_path, "The Hugging Face Trainer", *TORCHRUN)
    output = job.run()
    check(lines(output, "seen"), lines(job.run("resume"), "seen"), kept_after=17, stopped_after=20, drop_last=True)
    check_each_once(lines(output, "checked"))


@pytest.mark.limit(300)
@pytest.mark.parametrize("loader", ["loader", "ray.train.torch.prepare_data_loader(loader, move_to_device=False)"])
def test_ray(ids, tmp_path, loader):
    """As the document has it, and prepared without the wrapper that reads ahead."""
    job = Job(ids, tmp_path, "Ray Train")
    job.program.write_text(job.program.read_text().replace("enumerate(loader)", f"enumerate({loader})"))
    runs = []
    for word in ("begun", "resumed"):  # a run of the same name continues
        job.run()
        runs.append(lines("".join((tmp_path / f"kept/{word}-{rank}").read_text() for rank in range(2)), "seen"))
    check(*runs, kept_after=18)


@pytest.mark.limit(150)
def test_ray_prepares_a_loader(ids, tmp_path):
    """It shares nothing out that is shared out already."""
    job = Job(ids, tmp_path, "Ray Train")
    text = job.program.read_text()
    job.program.write_text(text.replace("enumerate(loader)", "enumerate(ray.train.torch.prepare_data_loader(loader))"))
    assert job.program.read_text() != text
    job.run()
    notes = lines("".join((tmp_path / f"kept/begun-{rank}").read_text() for rank in range(2)), "seen")
    assert notes == {rank: all_of(rank) for rank in range(2)}
