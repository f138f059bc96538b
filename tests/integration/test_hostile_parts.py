"""Clients that bring weights with a part of the samples, and break the protocol or ask for too much."""

import errno

import data
import harness
from test_hostile import serve
from test_hostile_views import PIECE, WEIGHTS, after_hello, bring, packed, send


def choosing(times, count=1000, send_words=None):
    """Weights of 1, and how often each sample counts, as those words say."""
    words = packed([1] * count) + packed(times)

    def act(session):
        bring(session, words, WEIGHTS, chooses=True, count=count)
        session.expect("wanted")
        send(session, words if send_words is None else send_words(words))

    return act


def test_samples_that_count_too_often():
    most = 1 << 27
    for word in (most + 1, most + 1 << 32, (1 << 64) - 1):
        after_hello(choosing([1] * 250 + [word] + [1] * 249), errno.EPROTO)
    with serve() as instance, instance.client() as session:
        session.hello()
        choosing([most << 32 | most] * 500)(session)
        assert session.expect("brought")["samples"] == 1000


def test_no_sample_counts():
    after_hello(choosing([0] * 500), errno.EINVAL)


def test_more_samples_than_the_dataset_has():
    """Behind the last of an odd number is nothing."""
    with harness.Instance() as instance:
        data.add_records(instance, samples=7, size=8)
        with instance.start().client() as session:
            session.hello()
            choosing([1, 1, 1, 1 | 1 << 32], 7)(session)
            assert session.expect_closed()["code"] == errno.EPROTO
        with instance.client() as session:
            session.hello()
            choosing([1, 1, 1, 1], 7)(session)
            assert session.expect("brought")["samples"] == 7


def test_weights_without_what_was_to_follow():
    """And with it, where nothing was to follow."""
    for words in (lambda words: words[:8000], lambda words: words[:-8], lambda words: words + bytes(8)):
        after_hello(choosing([1] * 500, send_words=words), errno.EPROTO)
    after_hello(choosing([1] * 500, send_words=lambda words: words[:8000] + packed([2] * 500)), errno.EPROTO)

    def plain(session):
        words = packed([1] * 1000)
        bring(session, words, WEIGHTS)
        session.expect("wanted")
        send(session, words + packed([1] * 500))

    after_hello(plain, errno.EPROTO)


def test_weights_with_and_without_a_part_are_told_apart():
    """Also if their announcements have the same hash."""
    words = packed([1] * 1000) + packed([1] * 500)
    with serve() as instance, instance.client() as one, instance.client() as other:
        for session, chooses in ((one, True), (other, False)):
            session.hello()
            bring(session, words, WEIGHTS, chooses=chooses, count=1000)
            session.expect("wanted")
        send(one, words)
        assert one.expect("brought")["samples"] == 1000
        send(other, words[:8000])
        assert other.expect_closed()["code"] == errno.EPROTO


def test_another_client_takes_over():
    """The first one leaves when some of the words have arrived."""
    words = packed([1] * 6001) + packed([1] * 3001)  # the first piece has some of both
    with harness.Instance() as instance:
        data.add_records(instance, samples=6001, size=8)
        instance.start()
        first, second = instance.client(), instance.client()
        for session in (first, second):
            session.hello()
            bring(session, words, WEIGHTS, chooses=True, count=6001)
        first.expect("wanted")
        send(first, words[: 8 * PIECE])
        first.close()
        second.expect("wanted")  # from the first word on
        send(second, words)
        assert second.expect("brought")["samples"] == 6001
        second.close()


def test_how_often_samples_count_takes_room_too():
    """90,000 weights arrive with 360,000 bytes of it, and their table is smaller by 98 KB."""
    for room, fits in (("1040K", False), ("1100K", True)):
        with harness.Instance(view_memory="2M", user_view_memory=room) as instance:
            data.add_records(instance, samples=90_000, size=8)
            with instance.start().client() as session:
                session.hello()
                bring(session, b"", WEIGHTS, count=90_000, chooses=True)
                if fits:
                    session.expect("wanted")
                else:
                    assert session.expect_closed()["code"] == errno.ENOSPC
