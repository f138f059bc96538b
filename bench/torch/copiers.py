"""Processes that copy memory as feedd's loaders do, from a mapped file into a buffer, while something else is measured."""

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
    """They stand still but in at_work(). `rate` is how many bytes a second all together copy, as many as they can if
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
def copiers(setting, path, count):
    """So many processes for a block."""
    with tempfile.NamedTemporaryFile(prefix="copied-", dir=setting.data) as file, contextlib.ExitStack() as stack:
        counts = numpy.memmap(file, dtype=numpy.uint64, mode="w+", shape=(count, WORDS))
        helpers = [stack.enter_context(Talk("copiers.py", setting, {"path": path, "counts": file.name, "number": number,
                                                                    "of": count})) for number in range(count)]
        for helper in helpers:
            helper.hear()
        yield Copiers(helpers, counts)


def copy_until_told(pieces, first, buffer, count, pause):
    """One piece after another, one every `pause` seconds."""
    due = time.perf_counter()
    for done in itertools.count():
        if done == 1:
            say(step="at work")
        if done and told():
            return
        numpy.copyto(buffer, pieces[(first + done) % len(pieces)])
        count += PIECE
        now = time.perf_counter()
        due = max(due + pause, now - BEHIND * pause)
        if due > now:
            time.sleep(due - now)


def child(task):
    """Each process begins at another place of the file. It needs no torch, and does not import it."""
    source = numpy.memmap(task["path"], dtype=numpy.uint8, mode="r")
    pieces = source[:len(source) // PIECE * PIECE].reshape(-1, PIECE)
    place = task["number"] * WORDS
    count = numpy.memmap(task["counts"], dtype=numpy.uint64, mode="r+")[place:place + 1]
    buffer = numpy.empty(PIECE, dtype=numpy.uint8)
    for piece in pieces:  # every page is mapped before the first measurement
        numpy.copyto(buffer, piece)
    say(step="ready")
    while True:
        copy_until_told(pieces, task["number"] * len(pieces) // task["of"], buffer, count, listen()["pause"])
        listen()
        say(step="stopped")


if __name__ == "__main__":
    child(child_arguments().task)
