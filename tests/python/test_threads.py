"""Loaders and tensors in several threads."""

import queue
import time

import harness
import pytest
import support
from support import SHUFFLED, Thread, read, samples_of, take, wanted

import feedd


def test_iterating_in_a_thread(load):
    loader = load(**SHUFFLED)
    assert Thread(read, loader).done() == wanted(**SHUFFLED)
    assert read(loader) == wanted(epoch=1, **SHUFFLED)


def test_a_thread_that_loads_ahead(load):
    """What programs do that load the next batch while one is in use: the last holder is another thread than the first."""
    loader = load(prefetch_factor=4, **SHUFFLED)
    ahead = queue.Queue(maxsize=2)

    def produce():
        for epoch in range(4):
            for batch in loader:
                ahead.put(batch)
        ahead.put(None)

    thread = Thread(produce)
    for epoch in range(4):
        assert [samples_of(ahead.get()) for _ in range(len(loader))] == wanted(epoch=epoch, **SHUFFLED)
    assert ahead.get() is None
    thread.done()


def test_loaders_in_threads_of_their_own(load):
    def run(seed):
        loader = load(shuffle=True, seed=seed)
        return [read(loader) for _ in range(3)]

    threads = [Thread(run, seed) for seed in range(6)]
    for seed, thread in enumerate(threads):
        assert thread.done() == [wanted(shuffle=True, seed=seed, epoch=epoch) for epoch in range(3)]


def test_two_loaders_in_turns(load):
    loaders = [load(shuffle=True, seed=seed) for seed in range(2)]
    iterators = [iter(loader) for loader in loaders]
    for number in range(len(loaders[0])):
        for seed, iterator in enumerate(iterators):
            assert take(iterator, 1) == [wanted(shuffle=True, seed=seed)[number]]


def test_many_holders(load):
    """Tensors that are let go of in many threads at a time, while others come."""
    loader = load(batch_size=1, prefetch_factor=63, **SHUFFLED)
    work = queue.Queue(maxsize=30)
    bad = []

    def hold():
        while (item := work.get()) is not None:
            batch, right = item
            if samples_of(batch) != right:
                bad.append(right)
            del item, batch

    holders = [Thread(hold) for _ in range(6)]
    for epoch in range(12):
        for batch, right in zip(loader, wanted(1, epoch=epoch, **SHUFFLED), strict=True):
            work.put((batch, right))
            del batch
    for _ in holders:
        work.put(None)
    for holder in holders:
        holder.done()
    assert not bad


def test_a_holder_lets_go_while_another_loader_waits():
    """Two consumers of a shared feed: when one holds its batches, the ring is full for the other. Nobody asks for the next
    batch where the tensors are let go of, and yet they go back at once."""
    with support.instance(ring="16K", max_lag=60) as daemon:
        with support.loader(daemon, share="both") as slow, support.loader(daemon, share="both", timeout=20) as quick:
            iterator = iter(slow)
            held = []
            with pytest.raises(feedd.TooManyBatches):
                while True:
                    held.append(next(iterator))
            seen = []
            thread = Thread(lambda: seen.extend(len(batch) for _ in range(3) for batch in quick))
            harness.eventually(lambda: waits(seen), 5, "the ring is full")
            there = len(seen)
            held.clear()
            harness.eventually(lambda: len(seen) > there, 5, "the other one continues")
            slow.close()
            thread.done()


def waits(seen):
    """Whether the other thread gets no further."""
    before = len(seen)
    time.sleep(0.3)
    return len(seen) == before


def test_a_holder_lets_go_while_the_main_thread_waits(device):
    """It is waiting for a daemon that does not answer just then."""
    with support.instance() as daemon:
        loader = support.loader(daemon, prefetch_factor=2, device=device, **SHUFFLED)
        iterator = iter(loader)
        found = take(iterator, 2)
        held = [next(iterator)]
        with support.stopped(daemon):
            thread = Thread(read, iterator)
            time.sleep(0.2)
            found.append(samples_of(held.pop()))
        assert found + thread.done() == wanted(**SHUFFLED)
        loader.close()


def test_closing_while_another_thread_waits():
    with support.instance() as daemon:
        loader = support.loader(daemon, prefetch_factor=1, timeout=10)
        iterator = iter(loader)
        next(iterator)

        def run():
            try:
                return read(iterator)
            except feedd.Error as error:
                return str(error)

        with support.stopped(daemon):
            thread = Thread(run)
            time.sleep(0.2)
            loader.close()
        assert thread.done().startswith("the loader is closed")


def test_opening_in_many_threads(daemon, device):
    def once(seed):
        for _ in range(5):
            with support.loader(daemon, device=device, shuffle=True, seed=seed) as loader:
                assert take(iter(loader), 2) == wanted(shuffle=True, seed=seed)[:2]

    for thread in [Thread(once, seed) for seed in range(4)]:
        thread.done()
    support.check_sessions(daemon, 0)


def test_closing_while_others_ask(daemon, device):
    """Whoever is in the middle of a question gets its answer; the next one hears that the loader is closed."""

    def ask(question):
        try:
            while True:
                question()
        except feedd.Error as error:
            return str(error)

    for _ in range(30):
        loader = support.loader(daemon, device=device)
        feed = loader._feed
        threads = [Thread(ask, question) for question in (feed.token, feed.settle, feed.describe, lambda: feed.token_at(1, 0))]
        loader.close()
        for thread in threads:
            assert thread.done().startswith("the loader is closed")
