"""Processes that copy memory as feedd's loaders do, from a mapped file into a ring, while something else is measured."""

import contextlib
import itertools
import tempfile
import time

import numpy

from harness import MIB, Talk, child_arguments, listen, say, told

PIECE = 4 * MIB
WORDS = 8  # of 64 bits between two counts, so that no two processes write to one cache line
BEHIND = 4  # pieces that one which was held up makes up for; with more it would copy faster than asked, later


class Copiers:
    """They are idle except in at_work(). `rate` is how many bytes per second all together copy, as many as they can if
    it is None."""

    def __init__(self, helpers, counts):
        self.helpers, self.counts = helpers, counts
        self.rate = None
        self.rates = []  # what counted() found

    def tell(self, **what):
        for helper in self.helpers:
            helper.tell(**what)
        for helper in self.helpers:
            helper.hear()

    @contextlib.contextmanager
    def at_work(self):
        """All of them copy when the block begins, and none when it is over. An error in it ends them with copiers()."""
        self.tell(pause=PIECE * len(self.helpers) / self.rate if self.rate else 0)
        yield
        self.tell()

    @contextlib.contextmanager
    def counted(self):
        """Counts, to a piece for each process, what they copy during the block."""
        before, began = int(self.counts.sum()), time.perf_counter()
        yield
        self.rates.append((int(self.counts.sum()) - before) / (time.perf_counter() - began))


@contextlib.contextmanager
def copiers(setting, path, count, ring_bytes):
    """So many processes for a block, which copy to a ring of that size that they share."""
    with contextlib.ExitStack() as stack:
        file, ring = (stack.enter_context(tempfile.NamedTemporaryFile(prefix=name, dir=setting.data)) for name in
                      ("copied-", "ring-"))
        ring.truncate(max(ring_bytes // PIECE, count) * PIECE)
        counts = numpy.memmap(file, dtype=numpy.uint64, mode="w+", shape=(count, WORDS))
        task = {"path": path, "counts": file.name, "ring": ring.name, "of": count}
        helpers = [stack.enter_context(Talk("copiers.py", setting, {**task, "number": number})) for number in range(count)]
        for helper in helpers:
            helper.hear()
        yield Copiers(helpers, counts)


def pieces_of(path, mode):
    file = numpy.memmap(path, dtype=numpy.uint8, mode=mode)
    return file[:len(file) // PIECE * PIECE].reshape(-1, PIECE)


def copy_until_told(pieces, ring, task, count, pause):
    """One piece after another, one every `pause` seconds; each process begins at another place, in the ring they take turns."""
    first = task["number"] * len(pieces) // task["of"]
    due = time.perf_counter()
    for done in itertools.count():
        if done == 1:
            say(step="at work")
        if done and told():
            return
        numpy.copyto(ring[(task["number"] + done * task["of"]) % len(ring)], pieces[(first + done) % len(pieces)])
        count += PIECE
        now = time.perf_counter()
        due = max(due + pause, now - BEHIND * pause)
        if due > now:
            time.sleep(due - now)


def child(task):
    """It needs no torch, and does not import it."""
    pieces, ring = pieces_of(task["path"], "r"), pieces_of(task["ring"], "r+")
    place = task["number"] * WORDS
    count = numpy.memmap(task["counts"], dtype=numpy.uint64, mode="r+")[place:place + 1]
    for number, piece in enumerate(pieces):  # every page is mapped before the first measurement
        numpy.copyto(ring[number % len(ring)], piece)
    say(step="ready")
    while True:
        copy_until_told(pieces, ring, task, count, listen()["pause"])
        listen()
        say(step="stopped")


if __name__ == "__main__":
    child(child_arguments().task)
