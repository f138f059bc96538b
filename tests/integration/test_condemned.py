"""Images at which decoders crash or hang: the loader is replaced, and the second time the sample is left out and named."""


import consumer
import expected
import harness
import pictures
import test_errors
import test_images

# As tests/integration/failing_decoder.c has them.
CRASHES, HANGS, KILLED = 166, 177, 188
COUNT = 40


def serve(bad, on_error, **settings):
    """`bad`: {sample: its width}"""
    library = harness.PROGRAMS / "tests/failing_decoder.so"
    instance = harness.Instance(loader_timeout=2, loaders=2, **settings)
    encoded = [pictures.encode(pictures.picture(i, bad.get(i, 100), 80), "jpg") for i in range(COUNT)]
    test_images.add(instance, encoded, "resize 72, center_crop 64", on_error=on_error)
    instance.content = test_images.evaluated(encoded)
    return instance.start(environment={"LD_PRELOAD": str(library)})


def check_log(feedd, bad):
    log = feedd.read_log()
    for sample in bad:
        ended = f"sample {sample} of dataset pictures has ended loaders of feed 1; it counts as unreadable from now on"
        assert log.count(ended) == 1, log


def test_crashes():
    bad = {3: CRASHES, 21: CRASHES, 22: CRASHES}
    for on_error, fate in (("skip", "skipped"), ("replace", "replaced")):
        with serve(bad, on_error) as feedd:
            batches = consumer.read(feedd, "pictures", 8, epochs=2, shuffle=True, seed=2)
            if on_error == "replace":
                assert expected.check_replaced(feedd.content, set(bad), batches, 8, epochs=2, shuffle=True, seed=2) == 6
            else:
                seen = sorted(sample for batch in batches for sample in batch["samples"])
                assert seen == sorted([*set(range(COUNT)) - set(bad)] * 2), seen
                expected.check_bytes(feedd.content, batches)
            check_log(feedd, bad)
            found = test_errors.counted(feedd, fate, 6, "pictures")
            assert {sample["sample"] for sample in found["samples"]} == set(bad), found
            assert "loaders have crashed, hung or been killed while they worked on it" in found["samples"][0]["reason"], found


def test_hangs():
    with serve({17: HANGS}, "skip") as feedd:
        batches = consumer.read(feedd, "pictures", 8)
        assert sum(batch["skipped"] for batch in batches) == 1
        check_log(feedd, {17})


def test_killed_for_its_memory():
    with serve({9: KILLED}, "skip") as feedd:
        batches = consumer.read(feedd, "pictures", 8)
        assert sum(batch["skipped"] for batch in batches) == 1
        check_log(feedd, {9})


def test_the_feed_fails_if_it_must():
    with serve({5: CRASHES}, "fail") as feedd:
        with consumer.Consumer(feedd, "pictures", 8, step=True) as reader:
            reader.attached()
            reader.next_fails("EIO", "00005.img", "loaders have crashed, hung or been killed while they worked on it")


def test_an_operator_who_kills_loaders_blames_no_sample():
    with serve({}, "fail") as feedd:
        with consumer.Consumer(feedd, "pictures", 8, step=True, epochs=30) as reader:
            reader.attached()
            batches = []
            for _ in range(25):
                batches += reader.take(3)
                for pid in feedd.children_called("loader"):
                    harness.kill(pid)
            batches += reader.take(30 * COUNT // 8 - len(batches))
            reader.next_ends()
        expected.check_run(feedd.content, batches, 8, epochs=30)
        assert "has ended loaders" not in feedd.read_log()
