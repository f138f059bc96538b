"""share=: independent jobs that read one feed."""

import pytest
import support
from support import read, samples_of, take, wanted

import feedd

READER = """
import feedd
loader = feedd.DataLoader("numbers", 16, shuffle=True, seed=11, share="both", framework="numpy")
print(loader.epoch, flush=True)
for id, body in loader: print(*id.tolist())
"""


def test_processes_see_every_batch_each():
    """Who comes late begins where the feed is by then: it sees the end of an epoch, without a gap."""
    with support.instance() as daemon:
        with support.loader(daemon, shuffle=True, seed=11, share="both") as loader:
            processes = [support.start(READER, daemon=daemon) for _ in range(2)]
            epochs = [int(process.stdout.readline()) for process in processes]
            for epoch in range(max(epochs) + 1):
                assert read(loader) == wanted(shuffle=True, seed=11, epoch=epoch)
            for epoch, process in zip(epochs, processes):
                lines = [list(map(int, line.split())) for line in support.finish(process).splitlines()]
                right = wanted(shuffle=True, seed=11, epoch=epoch)
                assert lines and lines == right[len(right) - len(lines) :]
            assert len(daemon.statistics()["feeds"]) == 1


def test_two_loaders_of_one_feed(load):
    first = load(shuffle=True, seed=11, share="pair")
    second = load(shuffle=True, seed=11, share="pair")
    start = second._describe()  # the first one may have been given some batches before the second was there
    epoch, consumed = start["start_epoch"], start["start_consumed"]
    iterator = iter(first)
    for number in range(epoch):
        assert read(iterator) == wanted(shuffle=True, seed=11, epoch=number)
        iterator = iter(first)
    right = wanted(shuffle=True, seed=11, epoch=epoch)
    assert take(iterator, consumed // 16) == right[: consumed // 16]
    for one, other, batch in zip(iterator, second, right[consumed // 16 :], strict=True):
        assert samples_of(one) == samples_of(other) == batch


CHANGES = [{"batch_size": 8}, {"seed": 12}, {"shuffle": False}, {"drop_last": True}, {"dataset": "tokens"}]


@pytest.mark.parametrize("change", CHANGES)
def test_who_joins_agrees(load_host, change):
    options = {"dataset": "numbers", "batch_size": 16, "shuffle": True, "seed": 11, "share": "agree"}
    load_host(**options)
    with pytest.raises(feedd.OptionError, match="agree") as found:
        load_host(**{**options, **change})
    assert found.value.code == 17  # EEXIST


def test_a_shared_feed_goes_where_it_goes(load_host):
    loader = load_host(share="goes")
    state = loader.state_dict()
    take(iter(loader), 3)
    with pytest.raises(feedd.OptionError, match="shared as 'goes'"):
        loader.load_state_dict(state)
    loader.set_epoch(0)
    with pytest.raises(feedd.OptionError, match="past the beginning of epoch 0"):
        iter(loader)
    assert take(iter(loader), 1) == wanted(epoch=1)[:1], "what was refused is forgotten"
    loader.set_epoch(2)
    assert read(loader) == wanted(epoch=2), "what lies before is skipped"


def test_a_break_in_a_shared_feed_skips_to_the_next_epoch(load_host):
    loader = load_host(shuffle=True, seed=11, share="skips")
    take(iter(loader), 3)
    assert read(loader) == wanted(shuffle=True, seed=11, epoch=1)
