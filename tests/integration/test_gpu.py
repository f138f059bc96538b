"""Batches in GPU memory: the same bytes in the same order as in host memory, no matter who shares the feed."""

import os
import time

import consumer
import data
import devices
import expected
import harness
from devices import CPU, GPU, OTHER, SAMPLES

NOBODY = 65534
SHAPE = {"epochs": 3, "shuffle": True, "seed": 13}
DTYPES = {
    "bool": 1, "u8": 1, "i8": 1, "u16": 2, "i16": 2, "u32": 4, "i32": 4, "u64": 8, "i64": 8, "f16": 2, "bf16": 2, "f32": 4,
    "f64": 8, "c64": 8, "c128": 16,
}  # fmt: skip


# ---- The same bytes ----------------------------------------------------------------------------------------


def check_both(feedd, dataset, content, batch_size=13, **shape):
    """A run in host memory and one on the GPU: each right, and so both the same."""
    digests, shape = set(), {"epochs": 1, **shape}
    for device in (CPU, GPU):
        with consumer.Consumer(feedd, dataset, batch_size, device=device, share=device[:3], **shape) as reader:
            assert (reader.attached()["device"] == CPU) == (device == CPU)
            expected.check_run(content, reader.finish(), batch_size, **shape)
            digests.add(reader.last["digest"])
    assert len(digests) == 1, digests


def test_every_dtype_and_shape():
    """One record with a field of each type, of sizes that fall on no boundary."""
    fields, options, at = {}, {}, 3
    for number, (dtype, size) in enumerate(DTYPES.items()):
        shape = [number % 5 + 1, 3][: number % 3]
        count = 1
        for extent in shape:
            count *= extent
        fields[f"f_{dtype}"] = (at, size * count)
        options[f"field_f_{dtype}"] = f"{dtype}[{', '.join(map(str, shape))}] @ {at}" if shape else f"{dtype} @ {at}"
        at += size * count + number % 4
    with harness.Instance(ring="64K", device_pool="64K") as feedd:
        path = feedd.directory / "all.bin"
        data.write_records(path, 300, at + 5)
        feedd.add_dataset("all", format="records", path=path, record_bytes=at + 5, **options)
        feedd.start()
        check_both(feedd, "all", expected.read_records([path], at + 5, fields), shuffle=True, seed=2, epochs=2)
        check_both(feedd, "all", expected.read_records([path], at + 5, fields), batch_size=1)


# ---- Together ----------------------------------------------------------------------------------------------


def test_host_and_two_gpus_share_one_reading():
    """Storage is read once, and the data goes once to each GPU, however many consumers it has."""
    with devices.serve() as feedd:
        readers = devices.start_all(feedd, [CPU, GPU, OTHER, GPU, CPU, OTHER], **SHAPE)
        right = devices.content(feedd)
        for reader in readers:
            expected.check_run(right, reader.finish(), 20, **SHAPE)
        counters = devices.feed(feedd)
        assert counters["loader_counters"]["samples"] == 3 * SAMPLES, counters
        assert counters["feed_counters"]["samples"] == 6 * 3 * SAMPLES, counters
        for reader in readers[1:3]:
            gpu = devices.gpu(feedd, reader.uuid)
            assert gpu["gpu_counters"]["copies"] == 3 * SAMPLES / 20, gpu
            assert gpu["gpu_counters"]["copied_bytes"] == 3 * SAMPLES * 64, gpu
            assert gpu["pools"] == 1 and gpu["bus_bytes_per_s"] > 0, gpu


def test_first_batch_waits_for_all():
    """Whoever is there first: pools take nothing from the ring before all have come."""
    for order in ((GPU, CPU, OTHER), (OTHER, GPU, CPU)):
        with devices.serve() as feedd:
            options = {"share": "job", "wait_for": 3, "step": True, "epochs": 1}
            readers = []
            for device in order:
                if readers:
                    readers[-1].next_fails("EAGAIN", timeout_ms=200)
                readers.append(devices.start(feedd, device, **options))
            for batch in expected.run_batches(SAMPLES, 20):
                for reader in readers:
                    assert reader.take(1)[0]["samples"] == batch["samples"]
            assert devices.feed(feedd)["loader_counters"]["samples"] == SAMPLES, "something was read twice"
            for reader in readers:
                reader.kill()


def test_different_speeds_on_different_devices():
    """The slow ones hold the others up; nobody loses anything."""
    for slow in (CPU, GPU, OTHER):
        with devices.serve() as feedd:
            readers = [
                consumer.Consumer(
                    feedd, "numbers", 20, device=device, share="job", wait_for=3, epochs=1,
                    sleep_us=5000 if device == slow else 0,
                )
                for device in (CPU, GPU, OTHER)
            ]  # fmt: skip
            for reader in readers:
                reader.attached()
                expected.check_run(devices.content(feedd), reader.finish(), 20, epochs=1)
            assert devices.feed(feedd)["feed_counters"]["consumers_detached"] == 0


def test_one_who_comes_later_to_another_device():
    """It begins at the feed's position and continues from there."""
    right = [batch["samples"] for batch in expected.run_batches(SAMPLES, 20, **SHAPE)]
    with devices.serve() as feedd:
        for first_device, later in ((CPU, GPU), (GPU, CPU), (GPU, OTHER)):
            options = {"share": f"{first_device[:3]}-{later[:3]}", "step": True, **SHAPE}
            with devices.start(feedd, first_device, **options) as first:
                early = first.take(30)
                with devices.start(feedd, later, **options) as second:
                    late = []
                    for _ in range(40):
                        early += first.take(1)
                        late += second.take(1)
                expected.check_bytes(devices.content(feedd), early + late)
                assert [batch["samples"] for batch in early] == right[:70]
                begin = right.index(late[0]["samples"])
                assert 30 <= begin <= 50 and [batch["samples"] for batch in late] == right[begin : begin + 40], begin


def test_ranks_on_different_gpus():
    """Some of them without a sample in the last batch."""
    for samples, batch_size in ((2000, 20), (31, 10)):
        with harness.Instance(device_pool="32K", ring="64K") as feedd:
            path = data.add_records(feedd, samples=samples)
            feedd.start()
            shape = {"world_size": 3, "epochs": 3, "shuffle": True}
            readers = [
                consumer.Consumer(feedd, "numbers", batch_size, device=device, share="job", wait_for=3, rank=rank, **shape)
                for rank, device in enumerate((GPU, CPU, OTHER))
            ]
            right = expected.read_records([path], 64, {"x": (0, 64)})
            for rank, reader in enumerate(readers):
                reader.attached()
                expected.check_run(right, reader.finish(), batch_size, rank=rank, **shape)


def test_more_ranks_on_a_gpu_than_its_pool_was_made_for():
    """Elsewhere there is room for them."""
    with devices.serve() as feedd:
        options = {"share": "job", "world_size": 3, "step": True, "device_world_size": 1}
        with devices.start(feedd, GPU, rank=0, **options) as first:
            first.take(2)
            consumer.refused(feedd, "ENOSPC", "rank 1", "device_world_size", batch_size=20, device=GPU, rank=1, **options)
            with devices.start(feedd, OTHER, rank=1, **options) as second, \
                    devices.start(feedd, CPU, rank=2, **options) as third:
                second.take(5), third.take(5), first.take(5)


def test_an_unused_pool_makes_way_for_more_ranks():
    """A job that ran with one rank per GPU comes back with two."""
    with devices.serve() as feedd:
        options = {"share": "job", "world_size": 3, "step": True}
        with devices.start(feedd, CPU, rank=2, **options):  # keeps the feed
            with devices.start(feedd, GPU, rank=0, device_world_size=1, **options) as alone:
                alone.take(2)
            with devices.start(feedd, GPU, rank=0, device_world_size=2, **options) as first, \
                    devices.start(feedd, GPU, rank=1, device_world_size=2, **options) as second:
                first.take(5), second.take(5)


def test_tokens_go_from_device_to_device():
    with devices.serve() as feedd:
        together, token = [], None
        for number, device in enumerate((CPU, GPU, OTHER, GPU, CPU, GPU)):
            with devices.start(feedd, device, step=True, resume=token, share="job" if number % 2 else None, **SHAPE) as reader:
                together += reader.take(17 + number)
                token = reader.token()
        together += consumer.read(feedd, "numbers", 20, resume=token, device=GPU, **SHAPE)
        expected.check_bytes(devices.content(feedd), together)
        right = expected.run_batches(SAMPLES, 20, **SHAPE)
        assert [batch["samples"] for batch in together] == [batch["samples"] for batch in right]


# ---- Leases ------------------------------------------------------------------------------------------------


def test_all_but_one_are_held():
    """Each may keep all its leases but one indefinitely and work with that one; what it holds does not change."""
    with devices.serve() as feedd:
        options = {"share": "job", "wait_for": 3, "max_lag": 20, "prefetch": 3, "step": True, "epochs": 1}
        readers = [consumer.Consumer(feedd, "numbers", 20, device=device, **options) for device in (GPU, CPU, GPU)]
        for reader in readers:
            reader.attached()
        held = [(reader, batch) for reader in readers for batch in (reader.next(), reader.next())]
        for _ in range(98):
            for reader in readers:
                reader.take(1)
        for reader, batch in held:
            assert reader.hashes(batch) == batch["crc"], "a batch has changed under its holder"
        for reader in readers:
            reader.next_ends()
            reader.close()


def test_releases_out_of_order():
    with devices.serve() as feedd:
        with devices.start(feedd, GPU, step=True, prefetch=5, **SHAPE) as reader:
            batches, held = [], []
            for number in range(300):
                held.append(reader.next())
                batches.append(held[-1])
                if len(held) == 5:
                    for place in (3, 0, 2) if number % 2 else (1,):
                        batch = held.pop(place)
                        assert reader.hashes(batch) == batch["crc"]
                        reader.release(batch)
            for batch in reversed(held):
                reader.release(batch)
            reader.next_ends()
            expected.check_run(devices.content(feedd), batches, 20, **SHAPE)


# ---- Coming and going --------------------------------------------------------------------------------------


def test_what_commands_show():
    with devices.serve() as feedd:
        with devices.start(feedd, GPU, step=True, share="job") as reader, devices.start(feedd, CPU, step=True, share="job"):
            reader.take(5)
            gpu = devices.gpu(feedd, reader.uuid)
            assert (gpu["state"], gpu["pools"]) == ("running", 1) and gpu["name"], gpu
            harness.eventually(lambda: devices.gpu(feedd, reader.uuid)["pinned_bytes"] >= 64 << 10, 2, "a pinned ring")
            assert devices.gpu(feedd, reader.uuid)["pool_bytes"] >= 32 << 10
            assert [gpu["pid"]] == devices.transfers(feedd), gpu
            (shown,) = feedd.status()["gpus"]
            assert (shown["uuid"], shown["pid"], shown["pools"]) == (reader.uuid, gpu["pid"], 1), shown
            assert sorted(row["device"] for row in devices.clients(feedd)) == sorted([CPU, reader.uuid])
            assert reader.uuid in feedd.ctl("status").stdout
            assert reader.uuid.split("-")[1] in feedd.ctl("clients").stdout, feedd.ctl("clients").stdout
            assert "COPIES" in feedd.ctl("stats", "--once").stdout


def test_idle_pool_is_unpinned_and_its_process_ends():
    """The feed continues in host memory; the GPU is released after device_linger."""
    with devices.serve(linger=1, device_linger=int(2 * harness.SLOWNESS)) as feedd:  # it is looked at before it ends
        with devices.start(feedd, CPU, step=True, share="job") as stays:
            before = feedd.descriptors()
            with devices.start(feedd, GPU, step=True, share="job") as reader:
                reader.take(3), stays.take(3)
                harness.eventually(lambda: devices.gpu(feedd, reader.uuid)["pinned_bytes"], 2, "a pinned ring")
            harness.eventually(lambda: devices.gpu(feedd, reader.uuid)["pools"] == 0, 5, "the pool is closed")
            assert devices.transfers(feedd)
            harness.eventually(lambda: devices.gpu(feedd, reader.uuid)["pinned_bytes"] == 0, 2, "nothing is pinned")
            harness.eventually(lambda: not devices.transfers(feedd), 5, "its process has ended")
            # On a real GPU what it had there goes before the process is quite gone.
            harness.eventually(lambda: not feedd.statistics()["gpus"] and not feedd.status()["gpus"], 5, "the GPU is left")
            feedd.check_descriptors(before)
            stays.take(20)
            with devices.start(feedd, GPU, step=True, share="job") as reader:
                reader.take(1)


def test_fifty_come_and_go():
    with devices.serve(linger=0, device_linger=60) as feedd:

        def once(number):
            with devices.start(feedd, GPU, step=True, share="job") as one, \
                    devices.start(feedd, GPU, step=True, share="job") as two:
                one.take(2)
                if number % 2:
                    two.close()
            harness.eventually(lambda: not feedd.children_called("loader"), 10, "no loader")

        for number in range(3):
            once(number)
        (process,) = devices.transfers(feedd)
        counts = feedd.descriptors(), feedd.descriptors(process)
        for number in range(50):
            once(number)
        feedd.check_descriptors(counts[0])
        assert devices.transfers(feedd) == [process]
        harness.eventually(lambda: feedd.descriptors(process) <= counts[1], 5, "descriptors of the transfer process")


def test_two_users():
    """Each user has a separate feed on the same GPU, even under the same name."""
    if os.geteuid():
        harness.skip("only root can run programs as another user")
    with harness.Instance(socket_mode="0666", ring="64K", device_pool="32K") as feedd:
        feedd.directory.chmod(0o711)
        feedd.path = data.add_records(feedd, samples=SAMPLES)
        feedd.start()
        mine = consumer.Consumer(feedd, "numbers", 20, device=GPU, share="job", **SHAPE)
        his = consumer.Consumer(feedd, "numbers", 10, device=GPU, share="job", user=NOBODY, **SHAPE)
        uuid = mine.attached()["device"]
        assert his.attached()["device"] == uuid
        harness.eventually(lambda: devices.gpu(feedd, uuid)["pools"] == 2, 5, "two pools")
        for reader, batch_size in ((mine, 20), (his, 10)):
            expected.check_run(devices.content(feedd), reader.finish(), batch_size, **SHAPE)
        assert len(devices.transfers(feedd)) == 1


def test_transfer_process_has_nothing_else_of_the_daemons():
    """Null, two of the log, settings, socket, statistics, eventfd; of a pool the event of its feed. No rings of others."""
    with devices.serve() as feedd:
        with devices.start(feedd, OTHER, step=True, share="one") as one, \
                devices.start(feedd, CPU, step=True, share="two") as two:
            one.take(2), two.take(2)
            (pid,) = devices.transfers(feedd)
            targets = [target for _, target, _ in harness.open_files(pid)]
            assert sum(target.startswith("socket:") for target in targets) == 1, targets
            assert not [target for target in targets if str(feedd.path) in target], targets
            assert len(targets) <= 8, targets
            with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
                rings = {line.split()[4] for line in maps if "/dev/shm" in line}
            assert len(rings) <= 3, rings  # the feed's ring, the pool's, the statistics if they are there


def test_stop_with_consumers_at_work():
    with devices.serve() as feedd:
        readers = devices.start_all(feedd, [GPU, CPU, OTHER], shuffle=True)
        time.sleep(0.3)
        begun = time.monotonic()
        feedd.stop()
        assert time.monotonic() - begun < 3 * harness.SLOWNESS
        for reader in readers:
            reader.kill()
