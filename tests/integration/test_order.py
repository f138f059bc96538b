"""The order of samples is a function of seed, epoch and dataset alone."""

import consumer
import data
import expected
import harness

SHAPE = {"epochs": 3, "shuffle": True, "seed": 11}


def digest(instance, batch_size=32, **options):
    """Of everything a run delivers: places, samples, bytes."""
    with consumer.Consumer(instance, "numbers", batch_size, quiet=True, **options) as reader:
        reader.finish()
        return reader.last["digest"]


def digest_with(**settings):
    with harness.Instance(**settings) as feedd:
        data.add_records(feedd, samples=3001, size=100)
        feedd.start()
        return digest(feedd, **SHAPE)


def test_loaders_ring_and_reader_do_not_matter():
    found = {
        (loaders, ring, io): digest_with(loaders=loaders, ring=ring, io=io)
        for loaders, ring, io in (
            (1, "1M", "uring"), (2, "1M", "mapped"), (4, "64K", "uring"), (4, "64K", "mapped"), (3, "16M", "pread"),
            (1, "0", "auto"),
        )
    }  # fmt: skip
    assert len(set(found.values())) == 1, found


def test_ring_of_the_consumers_choice_does_not_matter():
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=3001, size=100)
        feedd.start()
        found = {size: digest(feedd, ring_bytes=size, **SHAPE) for size in (None, 1, 1 << 20, 20 << 20)}
        found["prefetch"] = digest(feedd, prefetch=17, **SHAPE)
        assert len(set(found.values())) == 1, found


def test_golden_digest():
    """Pinned: it changes only if the order, the cut into batches or the meaning of the options changes."""
    assert digest_with() == "57e7dace9f1402a1", digest_with()


def test_restarts_do_not_matter():
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=3001, size=100)
        found = []
        for _ in range(3):
            feedd.start()
            found += [digest(feedd, **SHAPE), digest(feedd, **SHAPE)]
            feedd.stop()
        assert len(set(found)) == 1, found


def test_seed_and_epoch_matter():
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=200, size=8)
        feedd.start()
        orders = {}
        for seed in (0, 1, 2**64 - 1):
            batches = consumer.read(feedd, "numbers", 200, epochs=2, shuffle=True, seed=seed)
            orders.update({(seed, batch["epoch"]): tuple(batch["samples"]) for batch in batches})
        assert len(set(orders.values())) == 6


def test_large_shuffled_run_against_the_description():
    with harness.Instance() as feedd:
        path = data.add_records(feedd, samples=5000, size=24)
        feedd.start()
        content = expected.read_records([path], 24, {"x": (0, 24)})
        batches = consumer.read(feedd, "numbers", 77, epochs=3, shuffle=True, seed=2**63 + 5)
        expected.check_run(content, batches, 77, epochs=3, shuffle=True, seed=2**63 + 5)
        assert expected.check_exactly_once(5000, batches) == 3


def test_seed_without_shuffle_means_nothing():
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=100, size=8)
        feedd.start()
        first = consumer.read(feedd, "numbers", 30, seed=1, share="same")
        with consumer.Consumer(feedd, "numbers", 30, epochs=1, seed=1, share="other", step=True) as one:
            one.attached()
            with consumer.Consumer(feedd, "numbers", 30, epochs=1, seed=2, share="other", step=True) as two:
                two.attached()
        assert [batch["samples"][0] for batch in first] == [0, 30, 60, 90]
