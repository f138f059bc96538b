"""Fields whose samples differ in length: values and offsets, from tar shards, against plain slicing."""

import contextlib
import json
import re
import struct

import consumer
import expected
import harness
import test_tar
import test_weights

FIELDS = {"field_jpg": "bytes @ jpg|jpeg", "pad_jpg": None, "field_cls": "i32"}


def content_of(samples):
    return {
        "jpg": expected.Ragged(members["jpg"] for _, members in samples),
        "cls": [struct.pack("<i", int(members["cls"])) for _, members in samples],
    }


def add(instance, shards, **options):
    test_tar.add_shards(instance, shards, **{**FIELDS, **options})
    return content_of(sum(shards, []))


# ---- What is delivered -------------------------------------------------------------------------------------


def test_every_reader():
    for reader in test_tar.READERS:
        with harness.Instance(io=reader) as feedd:
            content = add(feedd, test_tar.three_shards())
            feedd.start()
            test_tar.check(feedd, content, shuffle=True, epochs=2)


def test_empty_samples_and_single_ones():
    samples = [(f"{i:04}", {"jpg": b"x" * (i % 4 == 1) * 5000, "cls": b"1"}) for i in range(50)]
    with harness.Instance() as feedd:
        content = add(feedd, [samples])
        feedd.start()
        for batch_size in (1, 3, 50, 64):
            test_tar.check(feedd, content, batch_size, shuffle=True)


def test_all_samples_are_empty():
    with harness.Instance() as feedd:
        content = add(feedd, [[(f"{i:04}", {"jpg": b"", "cls": b"1"}) for i in range(20)]])
        feedd.start()
        test_tar.check(feedd, content, epochs=2)


def test_several_ragged_fields():
    samples = [
        (f"{i:04}", {"jpg": b"j" * (i * 37 % 900), "txt": b"t" * (i * 11 % 70), "cls": str(i).encode()}) for i in range(200)
    ]
    with harness.Instance() as feedd:
        content = add(feedd, [samples], field_txt="bytes", field_again="bytes @ jpg", pad_again="100")
        content["txt"] = expected.Ragged(members["txt"] for _, members in samples)
        content["again"] = [test_tar.padded(members["jpg"], 100, 0) for _, members in samples]
        feedd.start()
        test_tar.check(feedd, content, 64, shuffle=True, epochs=2)


def test_ranks_views_and_weights():
    with harness.Instance() as feedd:
        content = add(feedd, test_tar.three_shards())
        feedd.add_view("part", "wds", samples="10%..60%", split_seed=4)
        feedd.start()
        part = expected.view(content, 10, 60, 4)
        test_tar.check(feedd, part, 4, name="part", shuffle=True)
        for rank in range(3):
            batches = consumer.read(feedd, "wds", 4, shuffle=True, rank=rank, world_size=3, local_world_size=1)
            expected.check_run(content, batches, 4, shuffle=True, rank=rank, world_size=3)


def test_resume_with_another_world_size():
    with harness.Instance() as feedd:
        content = add(feedd, test_tar.three_shards())
        feedd.start()
        with consumer.Consumer(feedd, "wds", 4, step=True, shuffle=True, epochs=1) as reader:
            reader.attached()
            together = reader.take(9)
            token = reader.token()
        for rank in range(2):
            ranks = {"rank": rank, "world_size": 2, "local_world_size": 1}
            together += consumer.read(feedd, "wds", 4, resume=token, shuffle=True, epochs=1, **ranks)
        expected.check_bytes(content, together)
        assert expected.check_exactly_once(101, together) == 1


def test_loaders_and_daemon_die():
    with harness.Instance() as feedd:
        content = add(feedd, test_tar.three_shards())
        feedd.start()
        batches = consumer.read_through_kills(feedd, "wds", 5, 42, shuffle=True, epochs=2)
        expected.check_run(content, batches, 5, epochs=2, shuffle=True)


def test_on_a_gpu():
    """Two consumers on one simulated GPU, and one in host memory, of one feed."""
    with harness.Instance() as feedd:
        content = add(feedd, test_tar.three_shards())
        feedd.start()
        run = {"shuffle": True, "epochs": 2, "share": "all", "wait_for": 3}
        with contextlib.ExitStack() as stack:
            readers = [
                stack.enter_context(consumer.Consumer(feedd, "wds", 7, device=device, **run))
                for device in ("host:0", "host:0", None)
            ]
            for reader in readers:
                expected.check_run(content, reader.finish(), 7, shuffle=True, epochs=2)


# ---- Room --------------------------------------------------------------------------------------------------


def test_one_sample_is_a_thousand_times_as_large():
    """No slot is as large as the largest possible batch before a batch needs it, and every batch fits, also on a GPU."""
    samples = test_tar.some(400)
    for place in range(50, 100, 10):
        samples[place][1]["jpg"] = bytes([place]) * 3_000_000
    for device in (None, "host:0"):
        with harness.Instance() as feedd:
            content = add(feedd, [samples])
            feedd.start()
            with consumer.Consumer(feedd, "wds", 5, step=True, epochs=1, ring_bytes=1, device=device) as reader:
                reader.attached()
                batches = reader.take(80)
                [feed] = json.loads(feedd.ctl("feeds", "--json").stdout)
                reader.next_ends()
            expected.check_run(content, batches, 5)
            # No batch has more than one of the large samples.
            assert 3_000_000 < feed["ring_bytes"] < feed["slots"] * 5 * 3_000_000 / 4, feed


def test_a_draw_may_take_the_largest_sample_again_and_again():
    samples = test_tar.some(50)
    samples[7][1]["jpg"] = bytes(1_000_000)
    with harness.Instance() as feedd:
        content = add(feedd, [samples])
        weights = [0.01] * 50
        weights[7] = 1
        test_weights.write_weights(feedd.directory / "weights.npy", weights, "<f8")
        feedd.add_view("drawn", "wds", weights="weights.npy")
        feedd.start()
        batches = consumer.read(feedd, "drawn", 10, epochs=2)
        expected.check_places(50, batches, 10, epochs=2)
        expected.check_drawn(content, weights, batches, 0)


# ---- feedctl read --verify ---------------------------------------------------------------------------------


def test_verify():
    """On a simulated GPU, feedctl fetches values and offsets first. The digest is the same there."""
    with harness.Instance(simulated_gpus=1) as feedd:
        add(feedd, test_tar.three_shards(), field_txt="bytes @ cls", pad_txt=None)
        feedd.add_view("val", "wds", samples="30%..70%", split_seed=3)
        feedd.start()
        digests = set()
        arguments = "--epochs=2", "--shuffle", "--seed=3", "--batch-size=7", "--verify", "--digest"
        for device in ((), ("--device=host:0",)):
            for name, samples in (("wds", 202), ("val", 80)):
                done = feedd.ctl("read", name, *arguments, *device)
                said = f"verified {samples} samples of 2 whole epochs: each in its place, none twice, all bytes"
                assert said in done.stdout, done
                digests |= set(re.findall("digest ([0-9a-f]+)", done.stdout))
        assert len(digests) == 4, digests  # two epochs of each


def test_verify_finds_what_differs():
    """The file is replaced by another, which the loaders do not have."""
    with harness.Instance() as feedd:
        samples = test_tar.some(20)
        add(feedd, [samples])
        feedd.start().indexed()
        path = feedd.directory / "wds-0.tar"
        data = bytearray(path.read_bytes())
        at = data.index(samples[7][1]["jpg"]) + 99
        data[at] ^= 1
        path.unlink()
        path.write_bytes(data)
        done = feedd.ctl("read", "wds", "--epochs=1", "--verify", check=False)
        assert done.returncode == 1 and "field jpg of sample 7 (number 7 of the batch) differs at byte 99:" in done.stderr, done
