"""Decoders that run out of memory for a moment are tried again, and no sample counts as bad."""

import consumer
import expected
import harness
import pictures
import test_compressed
import test_gpu_images
from devices import SIMULATED


def environment():
    if harness.sanitized():
        harness.skip("a library cannot be preloaded before the address sanitizer")
    return {"LD_PRELOAD": str(harness.PROGRAMS / "tests/scarce_decoder.so")}


def none_is_bad(feedd):
    for feed in feedd.statistics()["feeds"]:
        counters = feed["loader_counters"]
        assert counters["read_errors"] == counters["skipped"] == counters["unfit_ending"] == 0, counters
    assert "cannot be decoded" not in feedd.read_log()


def test_images():
    encoded = pictures.some(40, seed=3, least=64, kinds=("jpg",))
    with test_gpu_images.serve(encoded, environment=environment(), linger=30) as feedd:
        batches = consumer.read(feedd, "pictures", 7, seed=5)
        pictures.check(batches, encoded, pictures.training(48), 5)
        none_is_bad(feedd)


@harness.host_memory
def test_images_on_a_gpu():
    """Loaders do not decode an image themselves because memory ran out."""
    encoded = pictures.some(40, seed=4, least=200, kinds=test_gpu_images.ALIKE)
    with test_gpu_images.serve(encoded, environment=environment(), linger=30) as feedd:
        batches = consumer.read(feedd, "pictures", 7, seed=5, device=SIMULATED)
        test_gpu_images.check(feedd, encoded, batches, 7)
        none_is_bad(feedd)
        assert sum(feed["feed_counters"]["refused_images"] for feed in feedd.statistics()["feeds"]) == 0


def test_blocks():
    whole = test_compressed.table()
    with harness.Instance(loaders=2, linger=30) as feedd:
        test_compressed.add(feedd, whole)
        feedd.start(environment=environment())
        batches = consumer.read(feedd, "hf", 16)
        expected.check_run(test_compressed.delivered(whole), batches, 16)
        none_is_bad(feedd)
