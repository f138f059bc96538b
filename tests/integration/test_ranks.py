"""Ranks split global batches: together exactly the dataset, each with as many batches as the others."""

import consumer
import data
import expected
import harness


def attach_ranks(instance, world_size, batch_size, ranks=None, **options):
    """The consumers of one job, in one named feed, which begins when all are there."""
    ranks = range(world_size) if ranks is None else ranks
    shared = {"share": "job", "wait_for": len(ranks), "world_size": world_size, **options}
    return [consumer.Consumer(instance, "numbers", batch_size, rank=rank, **shared) for rank in ranks]


def check_world(samples, world_size, batch_size, batches_to_come=None, settings=None, **shape):
    """Runs all ranks, checks each of them against the contract and their union for completeness."""
    with harness.Instance(**(settings or {})) as feedd:
        path = data.add_records(feedd, samples=samples, size=16)
        feedd.start()
        content = expected.read_records([path], 16, {"x": (0, 16)})
        ranks = attach_ranks(feedd, world_size, batch_size, epochs=3, **shape)
        together, counts = [], set()
        for rank, reader in enumerate(ranks):
            batches = reader.finish()
            expected.check_run(content, batches, batch_size, epochs=3, world_size=world_size, rank=rank, **shape)
            counts.add(len(batches))
            together += batches
        assert len(counts) == 1, f"ranks have {counts} batches"
        assert batches_to_come is None or counts == {batches_to_come}, counts
        if not shape.get("drop_last"):
            assert expected.check_exactly_once(samples, together) == 3


def test_four_ranks():
    check_world(1000, 4, 8, batches_to_come=3 * 32, shuffle=True, seed=3)


def test_ranks_without_shuffle():
    check_world(1000, 3, 10)


def test_tail_of_some_samples_a_rank():
    check_world(1000, 4, 60, shuffle=True, seed=1)


def test_tail_shorter_than_the_world():
    """Three samples are left for eight ranks: five get an empty batch, so that all have the same number."""
    check_world(8 * 4 * 5 + 3, 8, 4, batches_to_come=3 * 6, shuffle=True, seed=1)


def test_tail_of_one_sample():
    check_world(2 * 7 * 3 + 1, 2, 7, batches_to_come=3 * 4)


def test_fewer_samples_than_ranks():
    check_world(3, 5, 10, batches_to_come=3, shuffle=True, seed=2)


def test_ranks_with_drop_last():
    check_world(1000, 4, 60, batches_to_come=3 * 4, drop_last=True, shuffle=True, seed=1)


def test_ranks_that_divide_exactly_with_drop_last():
    check_world(960, 4, 60, batches_to_come=3 * 4, drop_last=True)


def test_many_ranks_on_a_small_ring():
    check_world(640, 16, 5, settings={"ring": "64K"}, shuffle=True)


def test_each_rank_its_own_feed():
    """Ranks that do not share a name get the same split, as on machines of their own."""
    with harness.Instance() as feedd:
        path = data.add_records(feedd, samples=333, size=16)
        feedd.start()
        content = expected.read_records([path], 16, {"x": (0, 16)})
        together = []
        for rank in range(3):
            shape = {"rank": rank, "world_size": 3, "epochs": 2, "shuffle": True, "seed": 4}
            batches = consumer.read(feedd, "numbers", 20, local_world_size=1, **shape)
            expected.check_run(content, batches, 20, **shape)
            together += batches
        assert expected.check_exactly_once(333, together) == 2


def test_ranks_at_different_speeds():
    """Ranks need not keep step: a fast one comes to its end while a slow one has hardly begun."""
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=2000, size=16)
        feedd.start()
        slow, fast = attach_ranks(feedd, 2, 10, epochs=2, step=True)
        slow.attached(), fast.attached()
        first = slow.next()
        quick = fast.take(200)
        fast.next_ends()
        slow.release(first)
        late = [first, *slow.take(199)]
        slow.next_ends()
        assert expected.check_exactly_once(2000, quick + late) == 2
        slow.kill(), fast.kill()


def test_two_consumers_of_one_rank():
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=200, size=16)
        feedd.start()
        readers = attach_ranks(feedd, 2, 10, ranks=[0, 0, 1], epochs=2)
        twins, other = [reader.finish() for reader in readers[:2]], readers[2].finish()
        assert [batch["samples"] for batch in twins[0]] == [batch["samples"] for batch in twins[1]]
        assert expected.check_exactly_once(200, twins[0] + other) == 2


# ---- Refusals ----------------------------------------------------------------------------------------------


def test_more_ranks_than_the_feed_was_made_for():
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.start()
        shape = {"world_size": 4, "local_world_size": 2, "share": "job"}
        with consumer.Consumer(feedd, "numbers", 10, rank=0, step=True, **shape) as first:
            first.attached()
            with consumer.Consumer(feedd, "numbers", 10, rank=3, step=True, **shape) as second:
                second.attached()
                consumer.refused(feedd, "ENOSPC", "rank 1", 2, "world_size to the number of ranks", rank=1, **shape)
                # Another consumer of a rank that is there is not one rank more.
                with consumer.Consumer(feedd, "numbers", 10, rank=3, step=True, **shape) as third:
                    third.attached()
                first.take(3)


def test_rank_beyond_the_world():
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.start()
        consumer.refused(feedd, "EINVAL", "rank 4", "world", rank=4, world_size=4)
        consumer.refused(feedd, "EINVAL", "rank 1", "world", rank=1)
        consumer.refused(feedd, "EINVAL", "local_world_size 5", "4", world_size=4, local_world_size=5)


def test_rank_beyond_the_world_by_hand():
    """The daemon does not rely on the library's checks."""
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.start()
        for options in ({"rank": 4, "world_size": 4}, {"world_size": 2, "local_world_size": 3}, {"world_size": 1 << 31}):
            with feedd.client() as session:
                session.hello()
                session.send("attach", dataset="numbers", batch_size=10, **options)
                error = session.expect("error")
                assert error["code"] == 22, error


def test_global_batch_larger_than_the_dataset_with_drop_last():
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=100)
        feedd.start()
        consumer.refused(feedd, "EINVAL", 100, 110, "drop_last", batch_size=11, world_size=10, drop_last=True)
