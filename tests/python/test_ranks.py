"""Several ranks: as told, or as the environment says."""

import pytest
import support
from support import SAMPLES, SHUFFLED, read, take, wanted

from feedd import ranks


@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_ranks_share_out_each_global_batch(load, world_size):
    loaders = support.ranks(load, world_size, f"job{world_size}")
    for epoch in range(2):
        union = []
        for rank, loader in enumerate(loaders):
            batches = read(loader)
            assert batches == wanted(8, world_size=world_size, rank=rank, epoch=epoch, **SHUFFLED)
            assert len(batches) == len(loader)
            union += sum(batches, [])
        assert sorted(union) == list(range(SAMPLES))


def test_an_epoch_of_one_partial_global_batch(load):
    """203 samples for 4 x 67: 51, 51, 51, 50."""
    found = [read(loader) for loader in support.ranks(load, 4, "tail", batch_size=67)]
    assert [[len(batch) for batch in batches] for batches in found] == [[51], [51], [51], [50]]
    assert found == [wanted(67, world_size=4, rank=rank, **SHUFFLED) for rank in range(4)]


def test_ranks_with_nothing_in_the_last_batch(load):
    """They get a batch without samples, so that all ranks have as many steps."""
    loaders = support.ranks(load, 3, "empty", batch_size=67)  # 203 = 201 + 2
    lengths = [[len(batch) for batch in read(loader)] for loader in loaders]
    assert lengths == [[67, 1], [67, 1], [67, 0]]
    assert [len(read(loader)) for loader in loaders] == [2, 2, 2]


def test_drop_last_of_ranks(load):
    loaders = support.ranks(load, 3, "drop", drop_last=True)
    for rank, loader in enumerate(loaders):
        assert read(loader) == wanted(8, world_size=3, rank=rank, drop_last=True, **SHUFFLED)


def test_all_ranks_leave_an_epoch(load):
    loaders = support.ranks(load, 2, "leave")
    for epoch in range(3):
        iterators = [iter(loader) for loader in loaders]
        for rank, iterator in enumerate(iterators):
            assert take(iterator, 2) == wanted(8, world_size=2, rank=rank, epoch=epoch, **SHUFFLED)[:2]
    check_epoch_together(loaders, 9)


def check_epoch_together(loaders, epoch):
    for loader in loaders:
        loader.set_epoch(epoch)
    for rank, iterator in enumerate([iter(loader) for loader in loaders]):  # all are there before the first batch comes
        assert read(iterator) == wanted(8, world_size=len(loaders), rank=rank, epoch=epoch, **SHUFFLED)


def test_a_share_name_as_long_as_may_be_serves_for_another_epoch_too(load_host):
    check_epoch_together(support.ranks(load_host, 2, "x" * 63), 4)


# ---- The environment -------------------------------------------------------------------------------------------

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none", "RANK": "3", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "LOCAL_RANK": "3",
    "MASTER_ADDR": "localhost", "MASTER_PORT": "29500", "TORCHELASTIC_RESTART_COUNT": "0",
}  # fmt: skip


@pytest.fixture
def environment(monkeypatch):
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(ranks, "_distributed", lambda: None)

    def change(**more):
        for name, value in {**TORCHRUN, **more}.items():
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)

    return change


def find(rank=None, world_size=None, local_world_size=None, share=None):
    found = ranks.find_ranks(rank, world_size, local_world_size, share)
    return found.rank, found.world_size, found.local_world_size, found.share


def test_nothing_said(environment):
    assert find() == (0, 1, 1, None)


def test_what_torchrun_says(environment):
    environment()
    rank, world_size, local, share = find()
    assert (rank, world_size, local) == (3, 8, 4)
    assert share.startswith("job-none-localhost-29500-0.")


@pytest.mark.parametrize("missing", ["TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE"])
def test_half_of_it_is_nothing(environment, missing):
    """Other programs also set RANK and WORLD_SIZE alone, with another meaning."""
    environment(**{missing: None})
    assert find() == (0, 1, 1, None)


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5"])
def test_what_is_no_number(environment, text):
    environment(RANK=text)
    assert find() == (0, 1, 1, None)


def test_local_world_size(environment):
    environment(LOCAL_WORLD_SIZE=None)
    assert find()[2] == 8
    environment(LOCAL_WORLD_SIZE="2")
    assert find()[2] == 2
    assert find(local_world_size=3)[2] == 3
    assert find(0, 2, share="x") == (0, 2, 2, "x")
    assert find(0, 2, 1, "x") == (0, 2, 1, "x")
    assert find(0, 4, share="x") == (0, 4, 2, "x")


def test_what_is_told_goes_first(environment, monkeypatch):
    environment()
    assert find(0, 1) == (0, 1, 1, None)
    assert find(share="mine")[3] == "mine"
    monkeypatch.setattr(ranks, "_distributed", lambda: (1, 2))
    assert find()[:2] == (1, 2)
    assert find(0, 1)[:2] == (0, 1)


def test_names_of_a_job(environment):
    """The same in all ranks, another for each loader, and another when torchrun starts the job again."""
    environment()
    names = [find()[3] for _ in range(3)]
    numbers = [int(name.rpartition(".")[2]) for name in names]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]
    environment(RANK="0", TORCHELASTIC_RESTART_COUNT="1")
    assert find()[3].rpartition(".")[0] == "job-none-localhost-29500-1"


@pytest.mark.parametrize(
    "change",
    [
        {"TORCHELASTIC_RUN_ID": "r" * 80}, {"MASTER_ADDR": "2001:db8::7"}, {"TORCHELASTIC_RUN_ID": "runs/2: übung"},
        {"MASTER_ADDR": "a-node-with-a-long-name.and-a-longer-domain.example"},
    ],
)  # fmt: skip
def test_names_that_feedd_would_not_take(environment, change):
    environment(**change)
    name = find()[3]
    assert name.isascii() and len(name) <= 50 and all(letter.isalnum() or letter in ".-_" for letter in name)
    environment(**change, RANK="4")
    ranks._loaders_made -= 1
    assert find()[3] == name, "every rank finds the same name"


def test_ranks_without_a_name(environment):
    with pytest.raises(ValueError, match="share="):
        find(0, 2)
    assert find(0, 1) == (0, 1, 1, None)


def test_torchruns_ranks_meet(daemon, environment):
    """Two processes with the environment that torchrun gives them."""
    code = """
import feedd, os
loader = feedd.DataLoader("numbers", 8, shuffle=True, seed=11, framework="numpy")
for epoch in range(2):
    for id, body in loader: print(epoch, *id.tolist())
"""
    variables = {**TORCHRUN, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    processes = [support.start(code, daemon=daemon, variables={**variables, "RANK": str(rank)}) for rank in range(2)]
    for rank, process in enumerate(processes):
        lines = support.numbers_of(support.finish(process))
        right = [[epoch, *batch] for epoch in range(2) for batch in wanted(8, world_size=2, rank=rank, epoch=epoch, **SHUFFLED)]
        assert lines == right
