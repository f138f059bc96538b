"""Slots of a pool that grow: none is as large as the largest batch before a batch needs that, and every batch arrives whole,
whatever dies, comes later or still reads what a slot had before. If there is no memory, a batch waits for a slot
that is large enough, or the consumers on that GPU are told."""

import contextlib
import random
import time

import consumer
import data
import devices
import expected
import harness
import test_gpu_streams
import test_ragged
import test_tar
from devices import CPU, GPU, OTHER, SIMULATED, SIMULATED_UUID

MIB = 1 << 20
LARGE = MIB
BATCH = 8
COUNT = 600
SHAPE = {"shuffle": True, "seed": 7}


def samples(large=range(100, COUNT, 100), size=LARGE):
    """Most have up to 3000 bytes."""
    made = test_tar.some(COUNT)
    for place in large:
        made[place][1]["jpg"] = random.Random(place).randbytes(size + place)
    return made


def serve(made=None, environment=None, dataset=None, **settings):
    """A feedd with those samples, and what it must deliver."""
    feedd = harness.Instance(**{"device_pool": "256K", "device_linger": 1, **settings})
    content = test_ragged.add(feedd, [made or samples()], **(dataset or {}))
    return feedd.start(environment=environment), content


def open_at(feedd, device, **options):
    return consumer.Consumer(feedd, "wds", BATCH, device=device, **options)


def open_all(stack, feedd, places, **options):
    """Consumers of one feed, which begins when all have attached."""
    run = {"share": "job", "wait_for": len(places), **options}
    readers = [stack.enter_context(open_at(feedd, device, **run)) for device in places]
    for reader in readers:
        reader.uuid = reader.attached()["device"]
    return readers


def check_all(content, readers, **shape):
    for reader in readers:
        expected.check_run(content, reader.finish(), BATCH, **shape)


def pool_bytes(feedd, uuid):
    return devices.gpu(feedd, uuid)["pool_bytes"]


# ---- What is delivered, and what it takes ------------------------------------------------------------------


def test_slots_grow_as_batches_need_it():
    feedd, content = serve()
    with feedd, open_at(feedd, GPU, epochs=2, step=True, **SHAPE) as reader:
        uuid = reader.attached()["device"]
        at_first = pool_bytes(feedd, uuid)
        batches = reader.take(2 * COUNT // BATCH)
        grown = pool_bytes(feedd, uuid)
        reader.next_ends()
        expected.check_run(content, batches, BATCH, epochs=2, **SHAPE)
        # Slots for the largest batch, which has all of the large samples, would have 20 MiB together.
        assert at_first <= 2 * MIB < grown <= 2 * MIB + 4 * 4 * MIB, (at_first, grown)


def test_slots_grow_again():
    """First by a little, then by much."""
    made = samples(range(100, 300, 20), 100_000)
    for place in range(400, COUNT, 40):
        made[place][1]["jpg"] = random.Random(place).randbytes(place * 12_000)
    feedd, content = serve(made)
    with feedd, contextlib.ExitStack() as stack:
        check_all(content, open_all(stack, feedd, [GPU, GPU, CPU, OTHER], epochs=2), epochs=2)


def test_what_batches_could_have_does_not_count():
    """Each sample could be replaced by the largest one: 300 MB, where a batch has two or three."""
    feedd, content = serve(samples((50, 550)), dataset={"on_error": "replace"})
    with feedd, consumer.Consumer(feedd, "wds", 300, device=GPU, epochs=2, **SHAPE) as reader:
        uuid = reader.attached()["device"]
        expected.check_run(content, reader.finish(), 300, epochs=2, **SHAPE)
        assert pool_bytes(feedd, uuid) <= 32 * MIB, pool_bytes(feedd, uuid)


def test_two_share_a_pool_that_grows():
    feedd, content = serve()
    with feedd, contextlib.ExitStack() as stack:
        check_all(content, open_all(stack, feedd, [GPU, GPU, CPU], epochs=3, **SHAPE), epochs=3, **SHAPE)


def test_ranks_share_a_pool_that_grows():
    feedd, content = serve()
    run = {"epochs": 2, "share": "job", "wait_for": 2, "world_size": 2, "device_world_size": 2, **SHAPE}
    with feedd, contextlib.ExitStack() as stack:
        readers = [stack.enter_context(open_at(feedd, GPU, rank=rank, **run)) for rank in range(2)]
        for rank, reader in enumerate(readers):
            reader.attached()
            expected.check_run(content, reader.finish(), BATCH, epochs=2, rank=rank, world_size=2, **SHAPE)


def test_one_comes_after_slots_have_grown():
    feedd, content = serve()
    with feedd, open_at(feedd, GPU, epochs=6, step=True, share="job", **SHAPE) as first:
        uuid = first.attached()["device"]
        first.take(2 * COUNT // BATCH)
        assert pool_bytes(feedd, uuid) > 2 * MIB
        with open_at(feedd, GPU, epochs=6, share="job", **SHAPE) as second:
            second.attached()
            rest = first.take(4 * COUNT // BATCH)
            batches = second.finish()
        first.next_ends()
        expected.check_bytes(content, rest + batches)
        assert len(batches) >= 3 * COUNT // BATCH, len(batches)


def test_nothing_is_left_of_slots_that_have_grown():
    feedd, _ = serve(linger=0, device_linger=60)
    with feedd:
        consumer.read(feedd, "wds", BATCH, device=CPU)
        before = open_there = None
        for _ in range(4):
            with open_at(feedd, GPU, step=True, share="job") as reader:
                uuid = reader.attached()["device"]
                reader.take(COUNT // BATCH)
                with open_at(feedd, GPU, share="job") as other:  # joins where the first one is
                    other.attached()
            harness.eventually(lambda: not devices.gpu(feedd, uuid)["pools"], 10, "the pool is gone")
            before = before or feedd.descriptors()
            feedd.check_descriptors(before)
            (transfer,) = devices.transfers(feedd)
            open_there = open_there or feedd.descriptors(transfer)
            assert pool_bytes(feedd, uuid) == 0 and feedd.descriptors(transfer) <= open_there


def test_streams_still_read_what_slots_had():
    """Kernels that come late to a batch find its bytes, though its slot has grown and is wanted for another one."""
    dice = random.Random(3)
    large = range(50, COUNT, 50)
    sizes = [dice.randrange(1_500_000) if i in large else dice.randrange(3000) for i in range(COUNT)]
    made = [(f"{i:06}", {"jpg": bytes([i % 251]) * size, "cls": b"1"}) for i, size in enumerate(sizes)]
    feedd, _ = serve(made)
    with feedd:
        run = {"dataset": "wds", "batch_size": BATCH, "share": "job", "wait_for": 3}
        pace = (0, 0), (8000, 1), (2000, 0)
        late = [test_gpu_streams.Late(feedd, slow_us=slow, streams=2, hold=hold, **run) for slow, hold in pace]
        for reader in late:
            assert reader.finish()["batches"] == 3 * COUNT // BATCH


# ---- Processes that die ------------------------------------------------------------------------------------


def test_transfer_process_is_killed_after_slots_have_grown():
    """The next one copies into the same memory."""
    feedd, content = serve()
    with feedd, contextlib.ExitStack() as stack:
        readers = open_all(stack, feedd, [GPU, GPU], epochs=3, step=True, **SHAPE)
        batches = [], []
        for number in range(3 * COUNT // BATCH):
            if number in (90, 160):
                grown = pool_bytes(feedd, readers[0].uuid)
                (pid,) = harness.eventually(lambda: devices.transfers(feedd), 5, "a transfer process")
                harness.kill(pid)
            for reader, taken in zip(readers, batches):
                taken += reader.take(1)
        for reader, taken in zip(readers, batches):
            reader.next_ends()
            expected.check_run(content, taken, BATCH, epochs=3, **SHAPE)
        assert pool_bytes(feedd, readers[0].uuid) >= grown > 2 * MIB


def test_transfer_process_is_killed_again_and_again():
    feedd, content = serve(samples(range(20, COUNT, 20)))
    with feedd, contextlib.ExitStack() as stack:
        readers = open_all(stack, feedd, [GPU, CPU, GPU], epochs=4, sleep_us=harness.slowly(5000), **SHAPE)
        kills = devices.Kills(feedd)
        while readers[0].process.poll() is None:
            time.sleep(random.uniform(0, 0.3))
            if not harness.on_real_gpu() or not kills.count:
                kills.kill()
        check_all(content, readers, epochs=4, **SHAPE)
        assert kills.count >= (1 if harness.on_real_gpu() else 3), kills.count


@harness.host_memory
def test_transfer_process_ends_while_a_slot_grows():
    """Each process ends with the second slot that is to grow, and the next one is asked again."""
    feedd, content = serve(samples(range(50, COUNT, 50)), environment={devices.FAULTS: "crash_create=2"})
    with feedd, contextlib.ExitStack() as stack:
        check_all(content, open_all(stack, feedd, [SIMULATED, CPU, SIMULATED], epochs=2), epochs=2)
        assert devices.gpu(feedd, SIMULATED_UUID)["gpu_counters"]["processes_replaced"] >= 1


@harness.host_memory
def test_transfer_processes_that_always_end_when_a_slot_grows():
    feedd, content = serve(samples((100,)), environment={devices.FAULTS: f"crash_bytes={2 * MIB}"})
    with feedd, open_at(feedd, CPU, epochs=1, share="job", wait_for=2) as host:
        fails(feedd, SIMULATED, "EIO", "has died each time that a slot of the pool was to grow", share="job", wait_for=2)
        host.attached()
        expected.check_run(content, host.finish(), BATCH)


def test_loaders_and_daemon_die():
    feedd, content = serve()
    with feedd:
        batches = consumer.read_through_kills(feedd, "wds", BATCH, 2 * COUNT // BATCH, device=GPU, epochs=2, **SHAPE)
        expected.check_run(content, batches, BATCH, epochs=2, **SHAPE)


def test_consumers_are_killed_while_others_continue():
    feedd, content = serve(samples(range(20, COUNT, 20)))
    with feedd, contextlib.ExitStack() as stack:
        stays, *others = open_all(stack, feedd, [GPU, GPU, GPU], epochs=3, sleep_us=3000, **SHAPE)
        for reader in others:
            time.sleep(0.2)
            reader.kill()
        check_all(content, [stays], epochs=3, **SHAPE)


# ---- Lack of memory ----------------------------------------------------------------------------------------

# The usual pool of these tests has less than one MiB, and a slot for a large sample two: what a GPU allocates at least.


def fails(feedd, device, code, *parts, **options):
    with open_at(feedd, device, quiet=True, **options) as reader:
        reader.attached()
        reader.fail(code, *parts)


@harness.host_memory
def test_a_batch_waits_for_a_slot_that_is_large_enough():
    """There is memory for one such slot, in the budget or on the GPU."""
    for settings in ({"device_memory": "3M"}, {"environment": {devices.FAULTS: f"memory={3 * MIB}"}}):
        feedd, content = serve(samples((100, 105, 114, 122, 598)), **settings)
        with feedd, open_at(feedd, SIMULATED, step=True) as reader:
            reader.attached()
            batches = reader.take(COUNT // BATCH)
            grown = pool_bytes(feedd, SIMULATED_UUID)
            expected.check_run(content, batches, BATCH)
            assert 2 * MIB < grown <= 3 * MIB, grown


@harness.host_memory
def test_who_waits_for_a_batch_may_be_who_holds_the_slot():
    feedd, _ = serve(samples((100, 110)), device_memory="3M")
    with feedd, open_at(feedd, SIMULATED, step=True, hold=4, max_lag=1) as reader:
        reader.attached()
        batches = [reader.next()]
        while batches[-1]["samples"][-1] < 100:
            reader.release(batches[-1])
            batches.append(reader.next())
        reader.next_fails("ENOSPC", "a batch needs more memory than most: 2 MiB on GPU HOST-0", "3 MiB (device_memory)")


@harness.host_memory
def test_no_memory_in_the_budget():
    """Consumers elsewhere continue."""
    for setting, words in (
        ("device_memory", "MiB (device_memory)"),
        ("user_device_memory", "per user (user_device_memory)"),
    ):
        feedd, content = serve(**{setting: "2M"})
        with feedd, open_at(feedd, CPU, epochs=1, share="job", wait_for=2) as host:
            needs = "a batch needs more memory than most: 2 MiB on GPU HOST-0"
            fails(feedd, SIMULATED, "ENOSPC", needs, words, share="job", wait_for=2)
            host.attached()
            expected.check_run(content, host.finish(), BATCH)


@harness.host_memory
def test_no_memory_on_the_gpu():
    feedd, content = serve(environment={devices.FAULTS: f"memory={2 * MIB}"})
    with feedd, open_at(feedd, CPU, epochs=1, share="job", wait_for=2) as host:
        words = ("a batch needs more memory than most, and 2 MiB of GPU memory are needed on HOST-0", "smaller batches")
        fails(feedd, SIMULATED, "ENOMEM", *words, share="job", wait_for=2)
        host.attached()
        expected.check_run(content, host.finish(), BATCH)


@harness.host_memory
def test_a_batch_that_cannot_be_pinned():
    """Its consumers on that GPU are told; others there continue with the same process."""
    feedd = harness.Instance(device_pool="256K", device_linger=1)
    content = test_ragged.add(feedd, [samples((100,), 6 * MIB)])
    data.add_records(feedd, "numbers")
    with feedd.start(environment={devices.FAULTS: f"pin_most={5 * MIB}"}), contextlib.ExitStack() as stack:
        other = stack.enter_context(consumer.Consumer(feedd, "numbers", BATCH, device=SIMULATED, step=True))
        other.attached()
        other.take(3)
        before = devices.transfers(feedd)
        host = stack.enter_context(open_at(feedd, CPU, epochs=1, share="job", wait_for=2))
        fails(feedd, SIMULATED, "EIO", "cannot pin", share="job", wait_for=2)
        host.attached()
        expected.check_run(content, host.finish(), BATCH)
        other.take(20)
        assert devices.transfers(feedd) == before and len(before) == 1


@harness.host_memory
def test_memory_to_pin_that_comes_late():
    feedd, content = serve(samples((100,)), environment={devices.FAULTS: f"pin_most={MIB // 2},pin_lacks=5"})
    with feedd, open_at(feedd, SIMULATED, epochs=1) as reader:
        reader.attached()
        expected.check_run(content, reader.finish(), BATCH)
        assert devices.gpu(feedd, SIMULATED_UUID)["gpu_counters"]["processes_replaced"] == 0


@harness.host_memory
def test_no_more_than_a_batch_needs_if_that_is_all_there_is():
    """Twice what the slot has is asked for first."""
    made = samples((100,), 2_500_000)
    made[300][1]["jpg"] = random.Random(300).randbytes(4_500_000)
    # The second time, 8 MiB are asked for beside the 4 that there are, and then 6.
    for settings in ({"device_memory": "11M"}, {"environment": {devices.FAULTS: f"memory={11 * MIB}"}}):
        feedd, content = serve(made, **settings)
        with feedd, open_at(feedd, SIMULATED, step=True) as reader:
            reader.attached()
            batches = reader.take(COUNT // BATCH)
            grown = pool_bytes(feedd, SIMULATED_UUID)
            expected.check_run(content, batches, BATCH)
            assert 6 * MIB < grown < 11 * MIB, grown


@harness.host_memory
def test_idle_pools_make_way():
    for settings in ({"device_memory": "5M"}, {"environment": {devices.FAULTS: f"memory={5 * MIB}"}}):
        feedd, content = serve(samples((100,)), linger=30, **settings)
        with feedd:
            for name in ("one", "two", "three"):
                with open_at(feedd, SIMULATED, step=True, share=name) as reader:
                    reader.attached()
                    expected.check_run(content, reader.take(COUNT // BATCH), BATCH)
                    reader.close()


# ---- Clients that are slow to read -------------------------------------------------------------------------


def test_one_that_does_not_read_keeps_few_descriptors_open():
    feedd, content = serve(samples(range(30, COUNT, 60)), device_pool="4M")
    with feedd, feedd.client() as silent:
        silent.attach("wds", BATCH, device=devices.SIMULATED_UUID, share="job", wait_for=2, prefetch=32, epochs=2)
        with open_at(feedd, SIMULATED, share="job", wait_for=2, epochs=2, prefetch=4) as reader:
            reader.attached()
            taken = [reader.event() for _ in range(16)]
            assert len(taken) == 16
            open_here = feedd.descriptors()
        assert open_here < 200, open_here
        grown, slots = set(), []
        while len(slots) < 32:
            body, message = silent.receive(5 * harness.SLOWNESS)
            if body == "slot_memory":
                grown.add(message["slot"])
            elif body == "grant":
                slots += message.get("slots", [])
        assert grown and grown <= set(slots), (grown, slots)
