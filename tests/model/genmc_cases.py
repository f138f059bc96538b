"""What GenMC looks at: harnesses as they are, and with a defect put back into the project's code."""

import dataclasses


@dataclasses.dataclass
class Case:
    """`harness` is the name of a file in genmc/, compiled with `definitions`. `edits` are (file, old, new): `new` stands in
    place of `old` there. With `error`, GenMC must find an error that has this in its message."""
    harness: str
    title: str
    definitions: str = ""
    error: str = ""
    edits: tuple = ()


SUPERVISOR = "shm/ring_supervisor.c"
LOADER = "shm/ring_loader.c"
LEASES = "client/lib/leases.c"
POOL_CLIENT = "client/lib/mapped_pool.c"
COPIES = "daemon/transfer/copies.c"
TAP = "daemon/supervisor/delivery/fill_tap.c"

# The errors that GenMC finds, and what they mean.
RACE = "Non-atomic race"
DECEIVED = "Assertion violation: taken.first_position == OLD"
DECEIVED_BYTES = "Assertion violation: read == OLD"
NOT_WOKEN = "Assertion violation: atomic_load(&woken) > woken_before"
LOST = "Assertion violation: done == dispatched || collect(&ring, done)"
LOST_IN_QUEUE = "Assertion violation: collect(&ring, slot, 2)"
NO_ROOM = "Assertion violation: queued"


def weaker(file, text, order, instead="memory_order_relaxed"):
    """An edit that puts another order into `text`."""
    return (file, text, text.replace(order, instead, 1))


def done(order):
    """DONE of a chunk, with another order."""
    return (LOADER, "atomic_store(&words[claim->chunk], chunk_word(CHUNK_DONE, 0, skipped));",
            f"atomic_store_explicit(&words[claim->chunk], chunk_word(CHUNK_DONE, 0, skipped), {order});")


def poll(order):
    """The supervisor's look at chunks, with another order."""
    return (SUPERVISOR, "uint64_t word = atomic_load(&words[i]);", f"uint64_t word = atomic_load_explicit(&words[i], {order});")


FREE = ("// Release: a loader may take this chunk by way of an old queue entry of the slot.\n"
        "        atomic_store_explicit(&words[i], chunk_word(CHUNK_FREE, 0, 0), memory_order_release);")
CLAIM = "memory_order_acquire, memory_order_relaxed))\n        return false;"
HEAD = "++ring->queued, memory_order_release"
MOVED = "if (!cursor_moved(control, &cursor))\n                return false;"
NAME = "__ATOMIC_RELAXED);\n    atomic_thread_fence(memory_order_release);\n"

LOADERS = [
    Case("loaders", "one chunk"),
    Case("loaders", "two batches", "BATCHES=2"),
    Case("loaders", "two chunks", "CHUNKS=2 CLAIMS=1"),
    Case("loaders", "two chunks, of which each loader may do both", "CHUNKS=2 EARLY"),
    *[Case("loaders", f"one chunk, death before step {step}", f"DIES_AT={step}") for step in range(1, 13)],
    *[Case("loaders", f"two chunks, death before step {step}", f"CHUNKS=2 CLAIMS=1 EARLY DIES_AT={step}")
      for step in range(1, 14)],
    Case("loaders", "a chunk becomes FREE relaxed", "BATCHES=2", RACE, [weaker(SUPERVISOR, FREE, "memory_order_release")]),
    Case("loaders", "a claim is relaxed", "BATCHES=2", RACE, [weaker(LOADER, CLAIM, "memory_order_acquire")]),
    Case("loaders", "DONE is a release", "", NOT_WOKEN,
         [done("memory_order_release")]),
    Case("loaders", "DONE is looked for with acquire", "", NOT_WOKEN,
         [poll("memory_order_acquire")]),
    Case("loaders", "the supervisor arms with release", "", NOT_WOKEN,
         [(SUPERVISOR, "atomic_store(&ring->control->supervisor_asleep, 1);",
           "atomic_store_explicit(&ring->control->supervisor_asleep, 1, memory_order_release);")]),
    Case("loaders", "the last of two looks with acquire", "CHUNKS=2 CLAIMS=1 EARLY", NOT_WOKEN,
         [(LOADER, "if (!chunk_ended(atomic_load(&words[i])))",
           "if (!chunk_ended(atomic_load_explicit(&words[i], memory_order_acquire)))")]),
    Case("loaders", "a death is not followed by another look", "BATCHES=2 DIES_AT=11", NOT_WOKEN,
         [(SUPERVISOR, "    ring_supervisor_arm(ring);\n    // It may have been woken", "    // It may have been woken")]),
    Case("loaders", "what a dead loader had is forgotten", "DIES_AT=8", LOST,
         [(SUPERVISOR, "    count_urgent(ring, freed);\n    ring_wake", "    ring_wake")]),
    Case("loaders", "old defect: a chunk is recovered while its loader still works", "REAPED_EARLY DIES_AT=20", RACE),
]

FILL = "__atomic_load_n(&record->fill, __ATOMIC_RELAXED) == lease->fill"
RUN = "__atomic_load_n(&record->run, __ATOMIC_RELAXED) == attachment->run"

CLIENT = [
    Case("client", "its slot gets the next batch"),
    Case("client", "its slot gets a batch of the next run with the same number", "NEXT_RUN"),
    Case("client", "its slot gets a batch of the same name, because the lane has gone back", "SAME_NAME"),
    Case("client", "old defect: a detached consumer takes another run's samples for its own", "NEXT_RUN", DECEIVED,
         [(LEASES, FILL, "true"), (LEASES, RUN, "true")]),
    Case("client", "old defect: a batch of the same name is taken for the one before", "SAME_NAME", DECEIVED,
         [(LEASES, FILL, "true")]),
    Case("client", "a name is written without a fence", "", DECEIVED,
         [(SUPERVISOR, NAME, "__ATOMIC_RELAXED);\n")]),
    Case("client", "a name is read without a fence", "", DECEIVED,
         [(LEASES, "atomic_thread_fence(memory_order_acquire);", "")]),
    Case("client", "a claim has no fence", "", DECEIVED_BYTES, [(LOADER, "atomic_thread_fence(memory_order_release);", "")]),
    Case("client", "a slot gets its new name after its description", "", DECEIVED,
         [(SUPERVISOR, "    name_batch(ring, slot);\n    // Whatever", "    // Whatever"),
          (SUPERVISOR, "    describe_batch(ring, slot);\n}",
           "    describe_batch(ring, slot);\n    name_batch(ring, slot);\n}")]),
]

PROBE = "if (!cursor_moved(control, &cursor))\n                __VERIFIER_assert_fail(\"cursor_moved\", \"\", 0);"

QUEUE = [
    Case("queue", "it is full of spent entries"),
    Case("queue", "a FREE chunk is in front", "REFUSED"),
    *[Case("queue", f"full, death before step {step}", f"DIES_AT={step}") for step in range(2, 9)],
    *[Case("queue", f"full, one loader, death before step {step}", f"ALONE DIES_AT={step}") for step in range(1, 21)],
    Case("queue", "in an intact ring the cursor has moved", "ALONE", edits=[(LOADER, MOVED, PROBE)]),
    Case("queue", "the supervisor never passes over entries", "ALONE", NO_ROOM,
         [(SUPERVISOR, "if (round > header->chunks_per_slot)\n", "if (true)\n")]),
    Case("queue", "the head is written relaxed", "ALONE", "Assertion violation",
         [weaker(SUPERVISOR, HEAD, "memory_order_release")]),
    Case("queue", "the head is read relaxed", "ALONE", "Assertion violation",
         [weaker(LOADER, "&control->queue_head, memory_order_acquire);\n        if (entry", "memory_order_acquire")]),
    Case("queue", "a loader does come to a head that is too far ahead", "ALONE", "reached",
         [(LOADER, MOVED, '__VERIFIER_assert_fail("reached", "", 0);')]),
]

POOL = [
    Case("pool", "a consumer releases"),
    Case("pool", "a consumer leaves", "LEFT"),
    Case("pool", "old defect: a slot is used again while it is copied", "FREED_EARLY", RACE),
    Case("pool", "a release is written relaxed", "", RACE,
         [weaker(POOL_CLIENT, "&pool->words[slot], fill, memory_order_release", "memory_order_release")]),
    Case("pool", "a release is read relaxed", "", RACE,
         [weaker(COPIES, "&words->words[copy->claim.slot], memory_order_acquire", "memory_order_acquire")]),
    Case("pool", "a copy does not wait for the last release", "", RACE, [(COPIES, " + 1 >= copy->fill", " + 2 >= copy->fill")]),
    Case("pool", "a consumer's bit is taken out relaxed", "LEFT", RACE,
         [weaker(TAP, "->unread, others, memory_order_release", "memory_order_release")]),
    Case("pool", "unread is read relaxed", "LEFT", RACE,
         [weaker(COPIES, "&batch->unread, memory_order_acquire", "memory_order_acquire")]),
    Case("pool", "the end of a copy is read relaxed", "", RACE,
         [weaker(COPIES, "&copies->done[copy->claim.slot], memory_order_acquire", "memory_order_acquire")]),
    Case("pool", "DONE is relaxed", "", RACE,
         [done("memory_order_relaxed")]),
    Case("pool", "DONE is seen relaxed", "", RACE,
         [poll("memory_order_relaxed")]),
    Case("pool", "a copy's chunk becomes FREE relaxed, and its queue entry too", "", RACE,
         [weaker(SUPERVISOR, "&ring_chunks(ring, slot)[0], chunk_word(CHUNK_FREE, 0, 0), memory_order_release",
                 "memory_order_release"),
          weaker(SUPERVISOR, HEAD, "memory_order_release")]),
]

ASLEEP = "Assertion violation: !slept"
ANNOUNCED = "atomic_exchange(&control->loaders_asleep, 1);"

SLEEP = [
    Case("sleep", "a batch is dispatched"),
    Case("sleep", "a chunk is recovered", "RECOVERED"),
    Case("sleep", "a loader announces its sleep by a release", "", ASLEEP,
         [(LOADER, ANNOUNCED, "atomic_store_explicit(&control->loaders_asleep, 1, memory_order_release);")]),
    Case("sleep", "the supervisor takes the flag back relaxed", "", ASLEEP,
         [(SUPERVISOR, "!atomic_exchange(&control->loaders_asleep, 0))\n        return;",
           "!atomic_exchange_explicit(&control->loaders_asleep, 0, memory_order_relaxed))\n        return;")]),
    Case("sleep", "a loader looks for urgent jobs before it announces its sleep", "RECOVERED", ASLEEP,
         [(LOADER, ANNOUNCED, "uint32_t wanted = atomic_load(&control->urgent_wanted);\n    " + ANNOUNCED),
          (LOADER, "atomic_load(&control->urgent_wanted) != ring->urgent_seen;", "wanted != ring->urgent_seen;")]),
    Case("sleep", "the futex word is read after the look", "", ASLEEP,
         [(LOADER, "    uint32_t work = atomic_load(&control->work);\n", ""),
          (LOADER, "    struct timespec limit",
           "    uint32_t work = atomic_load(&control->work);\n    struct timespec limit")]),
]

CASES = LOADERS + SLEEP + CLIENT + POOL + QUEUE
