"""How long a batch lives: as long as somebody holds a tensor of it, or a view of one, wherever."""

import errno
import gc
import itertools
import pathlib
import threading
import weakref

import data
import pytest
import support
from support import SHUFFLED, raw, read, samples_of, wanted

import feedd


class Endless:
    """Batches, epoch after epoch, with the samples that they have to be."""

    def __init__(self, loader):
        self.loader = loader
        self.iterator = iter(loader)
        self.right = itertools.chain.from_iterable(wanted(epoch=epoch, **SHUFFLED) for epoch in itertools.count())

    def __next__(self):
        try:
            batch = next(self.iterator)
        except StopIteration:
            self.iterator = iter(self.loader)
            batch = next(self.iterator)
        return batch, next(self.right)


def check(batch, right):
    assert samples_of(batch) == right


def hold_all(endless, count):
    """The batches that may be held, and the proof that there are not more."""
    held = [next(endless) for _ in range(count)]
    with pytest.raises(feedd.TooManyBatches):
        next(endless)
    return held


def test_too_many_batches_says_what_to_do(load):
    loader = load(prefetch_factor=3, **SHUFFLED)
    iterator = iter(loader)
    held = [next(iterator) for _ in range(4)]
    with pytest.raises(feedd.TooManyBatches) as found:
        next(iterator)
    assert str(found.value) == (
        "all 4 batches that this loader may hold at once are held by tensors, or views of them, that are still alive:"
        " let go of them, use copy=True, or raise prefetch_factor (now 3)"
    )
    assert found.value.code == errno.ENOBUFS and isinstance(found.value, BufferError)
    assert len(held) == 4


def test_nothing_is_lost_by_it(load):
    endless = Endless(load(prefetch_factor=2, **SHUFFLED))
    for _ in range(20):
        held = hold_all(endless, 3)
        for batch in held:
            check(*batch)
        del held, batch


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_each_batch_goes_back_by_itself(load, order):
    """In whatever order they are let go of, one goes back and one comes."""
    endless = Endless(load(prefetch_factor=2, **SHUFFLED))
    held = dict(enumerate(hold_all(endless, 3)))
    for number in order:
        del held[number]
        held[number] = next(endless)
        with pytest.raises(feedd.TooManyBatches):
            next(endless)
        for batch in held.values():
            check(*batch)


def test_every_field_holds_the_batch(load):
    endless = Endless(load(prefetch_factor=1, **SHUFFLED))
    for which in range(2):
        held = [batch[which] for batch, _ in hold_all(endless, 2)]
        with pytest.raises(feedd.TooManyBatches):
            next(endless)
        del held
        next(endless)


def test_views_hold_the_batch(load):
    endless = Endless(load(prefetch_factor=1, **SHUFFLED))
    held = hold_all(endless, 2)
    views = [(batch[1][3:5, ::2].reshape(-1)[1:], right) for batch, right in held]
    bytes_then = [raw(view) for view, _ in views]
    del held
    with pytest.raises(feedd.TooManyBatches):
        next(endless)
    assert [raw(view) for view, _ in views] == bytes_then
    del views
    assert next(endless)


def test_cycles_are_collected_before_anybody_complains(load):
    """As the traceback of an exception makes them, which also holds what the loop's function had."""
    endless = Endless(load(prefetch_factor=1, **SHUFFLED))
    gc.disable()
    try:
        for _ in range(30):
            batch, right = next(endless)
            check(batch, right)
            cycle = [batch]
            cycle.append(cycle)
            del batch, cycle
    finally:
        gc.enable()


def test_the_last_holder_in_another_thread(load):
    endless = Endless(load(prefetch_factor=1, **SHUFFLED))
    for _ in range(20):
        held = hold_all(endless, 2)
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()
        check(*next(endless))


def test_copies_hold_nothing(load):
    endless = Endless(load(prefetch_factor=1, copy=True, **SHUFFLED))
    held = [next(endless) for _ in range(40)]
    for batch, right in held:
        check(batch, right)
        batch[1][:] = 255


def test_what_is_held_is_not_overwritten(load):
    """While the ring turns many times over."""
    endless = Endless(load(prefetch_factor=8, **SHUFFLED))
    held = [next(endless) for _ in range(7)]
    for _ in range(1500):
        check(*next(endless))
    for batch, right in held:
        check(batch, right)


def test_tensors_outlive_their_loader(daemon, device):
    """And hold its session with them, until the last of them is gone."""
    loader = support.loader(daemon, device=device, **SHUFFLED)
    iterator = iter(loader)
    held = [next(iterator) for _ in range(3)]
    gone = weakref.ref(loader)
    loader.close()
    del loader, iterator
    gc.collect()
    assert gone() is None
    for batch, right in zip(held, wanted(**SHUFFLED)):
        check(batch, right)
    support.check_sessions(daemon, 1)
    last = held[1][1]
    before = raw(last)
    del held, batch
    support.check_sessions(daemon, 1)
    assert raw(last) == before
    del last
    support.check_sessions(daemon, 0)


def test_a_loader_nobody_wants_any_more_leaves(daemon, device):
    loader = support.loader(daemon, device=device)
    next(iter(loader))
    support.check_sessions(daemon, 1)
    del loader
    support.check_sessions(daemon, 0)


def test_many_loaders_leave_no_descriptors(daemon, device):
    def count():
        return len(list(pathlib.Path("/proc/self/fd").iterdir()))

    def once():
        with support.loader(daemon, device=device) as loader:
            next(iter(loader))

    once()
    before = count()
    for _ in range(20):
        once()
    assert count() <= before


def test_memory_does_not_grow(daemon, device):
    """Leases and the objects around them are freed: a hundred thousand batches fit in the space of a few."""
    loader = support.loader(daemon, batch_size=1, device=device)

    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096

    def some():
        for _ in range(10):
            for batch in loader:
                del batch

    some()
    before = resident()
    for _ in range(4):
        some()
    assert resident() - before < 3 << 20
    loader.close()


EXIT = """
import atexit, os, sys, threading, time, feedd
loader = feedd.DataLoader("numbers", 16, framework=FRAMEWORK, device=DEVICE)
iterator = iter(loader)
held = [next(iterator) for _ in range(3)]
"""
ENDINGS = [
    "", "sys.held = held; sys.iterator = iterator", "loader.close()", "del loader, iterator", "os._exit(0)",
    "held.append(held); del held", "sys.exit(0)",
    "threading.Thread(target=lambda: threading.Event().wait(), daemon=True).start()",
    "threading.Timer(0.2, held.clear).start()",
]  # fmt: skip
if support.FRAMEWORK != "torch":  # whose own code does not bear it when a thread is ended while it deletes a tensor
    ENDINGS.append(
        "del held; threading.Thread(target=lambda: [0 for _ in iter(int, 1) for _ in loader], daemon=True).start();"
        " time.sleep(.1)"
    )


@pytest.mark.parametrize("device", support.SCRIPT_DEVICES)
@pytest.mark.parametrize("ending", ENDINGS)
def test_exit_with_tensors_and_iterators_alive(daemon, device, ending):
    """The program ends cleanly, and the daemon notices."""
    assert support.run(support.program(EXIT + ending, device), daemon=daemon) == ""
    support.check_sessions(daemon, 0)


@pytest.mark.parametrize("device", support.SCRIPT_DEVICES)
def test_tensors_are_whole_when_the_program_ends(daemon, device):
    """What runs last of all still reads what the batches hold."""
    ending = "atexit.register(lambda held=held: [print(*body[7].tolist()) for id, body in held])"
    right = [list(data.sample_bytes(number, support.RECORD)[8:]) for number in (7, 16 + 7, 32 + 7)]
    assert support.numbers_of(support.run(support.program(EXIT + ending, device), daemon=daemon)) == right
    support.check_sessions(daemon, 0)


def test_reading_on_after_a_failure_in_the_loop(load):
    loader = load(prefetch_factor=1, **SHUFFLED)
    for epoch in range(5):
        with pytest.raises(ZeroDivisionError):
            for batch in loader:
                1 / (samples_of(batch) == [])
    assert read(loader) == wanted(epoch=5, **SHUFFLED)
