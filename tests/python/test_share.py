"""share=: independent jobs that read one feed."""

import errno

import harness
import pytest
import support
from support import SHUFFLED, read, samples_of, take, wanted

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
        with support.loader(daemon, **SHUFFLED, share="both") as loader:
            processes = [support.start(READER, daemon=daemon) for _ in range(2)]
            epochs = [int(process.stdout.readline()) for process in processes]
            for epoch in range(max(epochs) + 1):
                assert read(loader) == wanted(**SHUFFLED, epoch=epoch)
            for epoch, process in zip(epochs, processes):
                lines = support.numbers_of(support.finish(process))
                right = wanted(**SHUFFLED, epoch=epoch)
                assert lines and lines == right[len(right) - len(lines) :]
            assert len(daemon.statistics()["feeds"]) == 1


def test_two_loaders_of_one_feed(load):
    first = load(**SHUFFLED, share="pair")
    second = load(**SHUFFLED, share="pair")
    start = second._describe()  # the first one may have been given some batches before the second was there
    epoch, consumed = start["start_epoch"], start["start_consumed"]
    iterator = iter(first)
    for number in range(epoch):
        assert read(iterator) == wanted(**SHUFFLED, epoch=number)
        iterator = iter(first)
    right = wanted(**SHUFFLED, epoch=epoch)
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
    loader = load_host(**SHUFFLED, share="skips")
    take(iter(loader), 3)
    assert read(loader) == wanted(**SHUFFLED, epoch=1)


def test_each_keeps_its_leases_over_a_restart(device):
    """Whoever returns first."""
    with support.instance(ring="64K", device_pool="64K") as daemon:
        with support.loaders(daemon, device=device, **SHUFFLED, batch_size=2, share="both", prefetch_factor=9) as load:
            first, second = load(), load()  # the second one gets what is left
            promised = first._describe()["prefetch"], second._describe()["prefetch"]
            assert promised[0] == 10 and 1 < promised[1] < 10
            right, run = wanted(2, **SHUFFLED), []
            begun = second._describe()["start_consumed"] // 2  # the first one may have been given some batches before
            iterators = iter(first), iter(second)
            assert take(iterators[1], 3) == right[begun : begun + 3]
            run += take(iterators[0], 3)
            support.kill(daemon)
            daemon.start()
            other = support.Thread(read, iterators[1])
            harness.eventually(lambda: support.sessions(daemon) == 1, 10, "the second one is back")
            while support.sessions(daemon) < 2:
                run += take(iterators[0], 1)
            held = [next(iterators[0]) for _ in range(10)]
            with pytest.raises(feedd.TooManyBatches):
                next(iterators[0])
            run += read(held)
            held.clear()
            assert run + read(iterators[0]) == right
            assert other.done() == right[begun + 3 :]
            assert (first._describe()["prefetch"], second._describe()["prefetch"]) == promised


def test_the_description_follows_a_restart():
    """A daemon that returns with less memory gives fewer leases, and says so."""
    with support.instance(ring="2M") as daemon:
        with support.loaders(daemon, device="cpu") as load:
            loader = load(batch_size=1)
            promised = loader._describe()["prefetch"]
            iterator = iter(loader)
            take(iterator, 1)
            support.kill(daemon)
            daemon.settings.update(ring="64K", ring_memory="1M")
            daemon.write_config()
            daemon.start()
            held = []
            with pytest.raises(feedd.TooManyBatches) as raised:
                for _ in range(2 * promised):
                    held.append(next(iterator))
                    if loader._describe()["prefetch"] == promised:
                        held.pop()  # still one of those that it had in hand
            now = loader._describe()["prefetch"]
            assert 1 < now < promised and len(held) == now
            assert f"all {now} batches" in str(raised.value), raised.value


def test_one_that_is_too_slow_is_detached(device):
    """It holds its batches for longer than max_lag while another one waits: the other continues, and this one is told. It may
    continue from its position with a private loader."""
    with support.instance(ring="32K", device_pool="64K", max_lag=1) as daemon:
        with support.loaders(daemon, device=device, **SHUFFLED) as load:
            slow, quick = load(share="both", prefetch_factor=1), load(share="both", timeout=20)
            begun = quick._describe()["start_consumed"] // 16
            iterator = iter(slow)
            held = [next(iterator) for _ in range(2)]
            with pytest.raises(feedd.TooManyBatches):
                next(iterator)
            right = wanted(**SHUFFLED)
            assert [samples_of(batch) for batch in held] == right[:2]
            assert read(quick) == right[begun:]
            assert read(quick) == wanted(epoch=1, **SHUFFLED), "it is held up no more"
            for _ in range(2):
                with pytest.raises(feedd.Error, match="1 s while others .* \\(max_lag\\), so it was detached") as raised:
                    next(iterator)
                assert type(raised.value) is feedd.Error and raised.value.code == errno.ETIME
            own = load()
            own.load_state_dict(slow.state_dict())
            assert read(own) == right[2:]
            (feed,) = [feed for feed in daemon.statistics()["feeds"] if feed["name"] == "both"]
            assert feed["feed_counters"]["consumers_detached"] == 1
