"""Resume tokens: a run continues exactly where another one stopped."""

import ctypes
import ctypes.util

import consumer
import data
import expected
import harness

SAMPLES, SIZE = 1000, 16


def serve(**settings):
    instance = harness.Instance(**settings)
    instance.path = data.add_records(instance, samples=SAMPLES, size=SIZE)
    return instance.start()


def content(instance):
    return expected.read_records([instance.path], SIZE, {"x": (0, SIZE)})


def token_after(instance, batches, batch_size=10, **options):
    """What was delivered before, and the token: from a consumer that was killed after that many batches."""
    with consumer.Consumer(instance, "numbers", batch_size, step=True, **options) as reader:
        reader.attached()
        before = reader.take(batches)
        return before, reader.token()


def check_resumed(before_options, after_options, batches, settings=None):
    """Takes some batches, resumes with other options, and wants the whole of three epochs together."""
    order = {"shuffle": True, "seed": 21, "epochs": 3}
    with serve(**(settings or {})) as feedd:
        before, token = token_after(feedd, batches, **order, **before_options)
        together = list(before)
        world_size = after_options.get("world_size", 1)
        for rank in range(world_size):
            options = {"rank": rank, "local_world_size": 1, **order, **after_options}
            after = consumer.read(feedd, "numbers", resume=token, **{"batch_size": 10, **options})
            expected.check_bytes(content(feedd), after)
            together += after
        assert expected.check_exactly_once(SAMPLES, together) == 3


def test_in_the_middle_of_an_epoch():
    check_resumed({}, {}, 137)


def test_at_the_very_beginning():
    check_resumed({}, {}, 0)


def test_at_the_end_of_an_epoch():
    check_resumed({}, {}, 100)


def test_before_the_last_batch():
    check_resumed({}, {}, 299)


def test_with_another_batch_size():
    check_resumed({}, {"batch_size": 33}, 37)


def test_with_more_ranks():
    check_resumed({}, {"world_size": 3}, 37)


def test_with_more_ranks_and_another_batch_size():
    check_resumed({}, {"world_size": 7, "batch_size": 9}, 111)


def test_without_shuffle():
    with serve() as feedd:
        before, token = token_after(feedd, 45)
        after = consumer.read(feedd, "numbers", 10, epochs=2, resume=token)
        assert after[0]["samples"] == list(range(450, 460)), after[0]
        assert expected.check_exactly_once(SAMPLES, before + after) == 2


def test_from_two_ranks_to_one():
    """The token of any rank is that of the job, once all of them are done with the same global batch."""
    with serve() as feedd:
        order = {"shuffle": True, "seed": 4, "epochs": 2, "world_size": 2, "local_world_size": 1}
        first, token = token_after(feedd, 12, rank=0, **order)
        second, other = token_after(feedd, 12, rank=1, **order)
        assert token == other, (token, other)
        after = consumer.read(feedd, "numbers", 10, epochs=2, shuffle=True, seed=4, resume=token)
        assert expected.check_exactly_once(SAMPLES, first + second + after) == 2


def test_with_drop_last():
    with serve() as feedd:
        order = {"shuffle": True, "seed": 4, "epochs": 2, "drop_last": True}
        before, token = token_after(feedd, 15, batch_size=30, **order)
        after = consumer.read(feedd, "numbers", 30, resume=token, **order)
        whole = consumer.read(feedd, "numbers", 30, **order)
        assert [batch["samples"] for batch in before + after] == [batch["samples"] for batch in whole]


def test_after_the_end_of_the_run():
    """Nothing is left, and that is not an error."""
    with serve() as feedd:
        _, token = token_after(feedd, 100)
        assert consumer.read(feedd, "numbers", 10, epochs=1, resume=token) == []
        assert consumer.read(feedd, "numbers", 64, epochs=1, resume=token) == []


def test_tokens_in_a_chain():
    """Each run continues the previous one, with another world size each time."""
    with serve() as feedd:
        order = {"shuffle": True, "seed": 9}
        together, token = [], None
        for world_size, batch_size, steps in ((1, 10, 7), (2, 6, 11), (5, 4, 3), (1, 1, 13), (3, 50, 2)):
            tokens = set()
            for rank in range(world_size):
                options = {"rank": rank, "world_size": world_size, "local_world_size": 1, "resume": token}
                taken, found = token_after(feedd, steps, batch_size, **order, **options)
                together += taken
                tokens.add(found)
            assert len(tokens) == 1, tokens
            token = tokens.pop()
        together += consumer.read(feedd, "numbers", 10, epochs=1, resume=token, **order)
        assert expected.check_exactly_once(SAMPLES, together) == 1


def test_token_outlives_the_daemon():
    with serve() as feedd:
        before, token = token_after(feedd, 63, shuffle=True, seed=8)
        feedd.stop()
        feedd.start()
        after = consumer.read(feedd, "numbers", 10, epochs=2, shuffle=True, seed=8, resume=token)
        assert expected.check_exactly_once(SAMPLES, before + after) == 2


def test_token_counts_what_was_taken_not_what_was_prefetched():
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, prefetch=20) as reader:
            reader.attached()
            reader.next(), reader.next()
            assert reader.token().split(".")[5] == "20", reader.token()


# ---- Warm restarts -----------------------------------------------------------------------------------------


def counters(instance):
    feeds = instance.statistics()["feeds"]
    assert len(feeds) == 1, feeds
    return feeds[0]["loader_counters"]


def test_warm_restart_reads_nothing_twice():
    """A consumer is killed and comes back with its token: what the ring holds is there at once and not read again."""
    with serve(ring="256K") as feedd:
        order = {"shuffle": True, "seed": 5}
        with consumer.Consumer(feedd, "numbers", 10, step=True, token=True, **order) as reader:
            reader.attached()
            before = reader.take(40)
            token = before[-1]["token"]
            reader.kill()
        harness.eventually(lambda: feedd.statistics()["feeds"][0]["consumers"] == 0, 5, "the consumer is gone")
        after = consumer.read(feedd, "numbers", 10, epochs=1, resume=token, **order)
        assert expected.check_exactly_once(SAMPLES, before + after) == 1
        slots = feedd.statistics()["feeds"][0]["slots"]
        # Nothing twice; but for what was read ahead into the next epoch, which the ring bounds.
        assert SAMPLES <= counters(feedd)["samples"] <= SAMPLES + 10 * slots, (counters(feedd), slots)


def test_warm_restart_on_a_slow_storage():
    """One batch takes 0.2 s from this storage; the resumed consumer has its first one in a fraction of that."""
    with harness.Instance(ring="256K", io="uring", loaders=1, queue_depth=10) as feedd:
        data.add_records(feedd, samples=SAMPLES, size=SIZE, io_delay_us=200_000)
        feedd.start()
        with consumer.Consumer(feedd, "numbers", 10, step=True, token=True) as reader:
            reader.attached()
            token = reader.take(1)[-1]["token"]
            harness.eventually(lambda: feedd.statistics()["feeds"][0]["slots_ready"] >= 3, 10, "batches are read ahead")
            reader.kill()
        with consumer.Consumer(feedd, "numbers", 10, step=True, resume=token) as reader:
            reader.attached()
            reader.command("next", 100)
            assert reader.expect("batch")["samples"][0] == 10


# ---- Refusals ----------------------------------------------------------------------------------------------


def test_token_of_another_dataset():
    with harness.Instance() as feedd:
        data.add_records(feedd, "numbers", samples=100)
        data.add_records(feedd, "others", samples=101)
        feedd.start()
        _, token = token_after(feedd, 3)
        consumer.refused(feedd, "ESTALE", "other data", "others", dataset="others", resume=token)


def test_token_of_changed_data():
    with harness.Instance() as feedd:
        path = data.add_records(feedd, samples=100)
        feedd.start()
        _, token = token_after(feedd, 3)
        feedd.stop()
        data.write_records(path, samples=200, size=64)
        feedd.start()
        consumer.refused(feedd, "ESTALE", "other data", resume=token)


def test_token_of_another_seed():
    with serve() as feedd:
        _, token = token_after(feedd, 3, shuffle=True, seed=7)
        consumer.refused(feedd, "ESTALE", "seed 7", "8", shuffle=True, seed=8, resume=token)


def test_token_of_another_order():
    with serve() as feedd:
        _, shuffled = token_after(feedd, 3, shuffle=True)
        _, straight = token_after(feedd, 3)
        consumer.refused(feedd, "ESTALE", "shuffle", resume=shuffled)
        consumer.refused(feedd, "ESTALE", "sequential", shuffle=True, resume=straight)


def test_token_of_another_order_version():
    with serve() as feedd:
        _, token = token_after(feedd, 3, shuffle=True)
        assert token.startswith("feedd1.1.")
        consumer.refused(feedd, "EINVAL", "token", shuffle=True, resume=token.replace("feedd1.1.", "feedd1.2."))


def test_token_that_is_mangled():
    with serve() as feedd:
        _, token = token_after(feedd, 3, shuffle=True, seed=7)
        mangled = [token[:-1], token[1:], token[:20], token + "0", token.upper(), "x" * 127, "feedd1.", " " + token]
        mangled += [token[:place] + "9" + token[place + 1 :] for place in range(7, len(token), 9) if token[place] != "9"]
        for text in mangled:
            consumer.refused(feedd, "EINVAL", "token", shuffle=True, seed=7, resume=text)
        consumer.refused(feedd, "EINVAL", "token", resume="x" * 128)
        consumer.read(feedd, "numbers", 10, shuffle=True, seed=7, resume=token)


def with_epoch(token, epoch):
    """The token of another epoch, with a check word that fits."""
    if not (name := ctypes.util.find_library("xxhash")):
        harness.skip("libxxhash is not here to make a check word with")
    hash_of = ctypes.CDLL(name).XXH64
    hash_of.argtypes, hash_of.restype = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64], ctypes.c_uint64
    parts = token.split(".")[:-1]
    parts[4] = str(epoch)
    body = ".".join(parts)
    return f"{body}.{hash_of(body.encode(), len(body), 0):016x}"


def test_token_of_an_epoch_near_the_end_of_all_numbers():
    with serve() as feedd:
        _, token = token_after(feedd, 3)
        assert with_epoch(token, token.split(".")[4]) == token
        for epoch in (2**64 - 1, 2**64 - 2, 2**40):
            consumer.refused(feedd, "ESTALE", f"epoch {epoch}", resume=with_epoch(token, epoch))
        with consumer.Consumer(feedd, "numbers", 10, step=True, resume=with_epoch(token, 2**40 - 1)) as reader:
            reader.attached()
            reader.take(150)


def test_token_that_is_no_place_of_a_running_feed():
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 30, share="job", step=True) as first:
            first.attached()
            first.take(5)
            # 50 is not a multiple of 30.
            _, token = token_after(feedd, 5)
            consumer.refused(feedd, "ESTALE", "sample 50", batch_size=30, share="job", resume=token)
            first.take(1)


def test_token_of_what_a_running_feed_has_passed():
    with serve() as feedd:
        _, token = token_after(feedd, 1)
        with consumer.Consumer(feedd, "numbers", 10, share="job", step=True) as first:
            first.attached()
            first.take(20)
            consumer.refused(feedd, "ESTALE", "moved on", share="job", resume=token)
            first.take(1)
