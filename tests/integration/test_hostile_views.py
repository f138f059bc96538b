"""Clients that bring views and break the protocol, lie, dawdle or ask for too much: each loses its own session, and nobody
else notices."""

import contextlib
import ctypes
import errno
import select
import struct
import time

import consumer
import data
import expected
import harness
import users
import wire
from test_fairness import NOBODY, check_share, greeted
from test_hostile import Bystander, attack, serve

RANGE, SPLIT, LIST, WEIGHTS = 1, 2, 3, 4
I64, F64 = 9, 13
PIECE = 8000
XXH3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
XXH3.restype, XXH3.argtypes = ctypes.c_uint64, (ctypes.c_char_p, ctypes.c_size_t)


def packed(numbers):
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def bring(session, words=b"", kind=LIST, dtype=I64, dataset="numbers", **fields):
    """Announces a view with these words."""
    session.send("bring", **{
        "dataset": dataset, "kind": kind, "dtype": dtype, "count": len(words) // 8, "hash": XXH3(words, len(words)), **fields
    })  # fmt: skip


def send(session, words):
    for at in range(0, len(words), 8 * PIECE):
        session.send("piece", words=words[at : at + 8 * PIECE])


def list_of(count, first=0):
    """The words of a list, of one of the samples of data.add_records."""
    return packed([(first + i) % 1000 for i in range(count)])


def brought(session, words, **fields):
    """Brings a view that the daemon does not have."""
    session.hello()
    bring(session, words, **fields)
    session.expect("wanted")
    send(session, words)
    return session.expect("brought")["samples"]


def lists(instance):
    """What the daemon has open of views."""
    return [target for _, target, _ in harness.open_files(instance.process.pid) if "feedd-list" in target]


# ---- Against the protocol ----------------------------------------------------------------------------------


def after_hello(act, code):
    def whole(session):
        session.hello()
        act(session)

    attack(whole, code)


def test_bring_before_hello():
    attack(bring, errno.EPROTO)


def test_a_piece_that_belongs_to_nothing():
    after_hello(lambda session: session.send("piece", words=packed([1])), errno.EPROTO)


def test_a_piece_after_the_last():
    def act(session):
        brought(session, list_of(10))
        session.send("piece", words=packed([1]))

    attack(act, errno.EPROTO)


def test_a_second_view():
    def act(session):
        brought(session, list_of(10))
        bring(session, list_of(20))

    attack(act, errno.EPROTO)


def test_attach_before_the_view_is_there():
    def act(session):
        bring(session, list_of(10))
        session.send("attach", dataset="numbers", batch_size=1)

    after_hello(act, errno.EPROTO)


def test_a_view_after_attach():
    def act(session):
        session.attach("numbers", 10)
        bring(session, list_of(10))

    attack(act, errno.EPROTO)


def test_attach_to_another_dataset():
    def act(session):
        brought(session, list_of(10))
        session.send("attach", dataset="others", batch_size=1)

    with serve() as instance:
        data.add_records(instance, "others", samples=10, size=8)
        instance.write_config()
        instance.ctl("reload")
        with instance.client() as session:
            act(session)
            assert session.expect_closed()["code"] == errno.EINVAL


def test_a_piece_for_a_view_that_another_sends():
    with serve() as instance, instance.client() as one, instance.client() as other:
        for session in (one, other):
            session.hello()
            bring(session, list_of(10))
        one.expect("wanted")
        other.send("piece", words=list_of(10))
        assert other.expect_closed()["code"] == errno.EPROTO
        send(one, list_of(10))
        one.expect("brought")


def wrong_piece(words, total, code=errno.EPROTO):
    def act(session):
        bring(session, list_of(total))
        session.expect("wanted")
        session.send("piece", words=words)

    after_hello(act, code)


def test_pieces_of_the_wrong_size():
    for words, total in (
        (b"", 10), (list_of(9), 10), (list_of(11), 10), (list_of(10)[:-1], 10), (list_of(10), PIECE + 1),
        (list_of(PIECE + 1), PIECE + 1),
    ):  # fmt: skip
        wrong_piece(words, total)


def test_words_that_were_not_announced():
    wrong_piece(list_of(10, first=1), 10)


def test_numbers_that_the_dataset_does_not_have():
    wrong_piece(packed([1000]), 1, errno.ERANGE)
    wrong_piece(packed([(1 << 64) - 1]), 1, errno.ERANGE)


def test_weights_with_bits_that_they_do_not_have():
    def act(session):
        words = packed([1 << 32] * 1000)
        bring(session, words, WEIGHTS, dtype=12)
        session.expect("wanted")
        session.send("piece", words=words)

    after_hello(act, errno.EPROTO)


def test_views_that_cannot_be():
    for code, fields in (
        (errno.EINVAL, {"kind": 0}), (errno.EINVAL, {"kind": 5}), (errno.EINVAL, {"kind": (1 << 32) - 1}),
        (errno.EINVAL, {"dtype": 0}), (errno.EINVAL, {"dtype": 1}), (errno.EINVAL, {"dtype": F64}),
        (errno.EINVAL, {"dtype": (1 << 32) - 1}), (errno.EFBIG, {"count": 0}), (errno.EFBIG, {"count": (1 << 27) + 1}),
        (errno.EFBIG, {"count": (1 << 64) - 1}), (errno.EINVAL, {"kind": RANGE, "begin": 2, "end": 1}),
        (errno.EINVAL, {"kind": RANGE, "end": 1_000_001}), (errno.EINVAL, {"kind": SPLIT, "end": (1 << 32) - 1}),
        (errno.EINVAL, {"kind": SPLIT}), (errno.EINVAL, {"kind": WEIGHTS, "dtype": 14}),
        (errno.EINVAL, {"kind": WEIGHTS, "count": 1}), (errno.EINVAL, {"kind": WEIGHTS, "count": (1 << 64) - 1}),
        (errno.EINVAL, {"kind": WEIGHTS, "count": 1000, "epoch_samples": (1 << 64) - 1}), (errno.ENOENT, {"dataset": "x"}),
        (errno.ENOENT, {"dataset": "n" * 5000}),
    ):  # fmt: skip
        with serve() as instance, instance.client() as session:
            session.hello()
            bring(session, list_of(10), **fields)
            error = session.expect_closed()
            assert error["code"] == code and len(error["text"]) > 10, (fields, error)


# ---- Clients that leave, or dawdle -------------------------------------------------------------------------


def test_half_a_view_and_gone():
    with serve() as instance:
        bystander = Bystander(instance)
        bystander.take()
        before = instance.descriptors()
        for _ in range(5):
            with instance.client() as session:
                session.hello()
                bring(session, list_of(5 * PIECE))
                session.expect("wanted")
                send(session, list_of(2 * PIECE))
            bystander.take()
        instance.check_descriptors(before)


def test_another_client_takes_over():
    words = list_of(3 * PIECE + 5)
    with serve() as instance:
        first, second, third = (instance.client() for _ in range(3))
        for session in (first, second, third):
            session.hello()
            bring(session, words)
        first.expect("wanted")
        send(first, words[: 16 * PIECE])
        first.close()
        (next_one,), _, _ = select.select([second.socket, third.socket], [], [], 10)
        if next_one is third.socket:
            second, third = third, second
        second.expect("wanted")  # from the first word on
        send(second, words)
        assert second.expect("brought")["samples"] == third.expect("brought")["samples"] == 3 * PIECE + 5
        late = instance.client()
        late.hello()
        bring(late, words)
        late.expect("brought")  # nothing is to be sent
        for session in (second, third, late):
            session.send("attach", dataset="numbers", batch_size=10)
            session.expect("attached")
            session.close()


def test_a_liar_is_found_out_before_others_believe_it():
    words = list_of(10)
    with serve() as instance, instance.client() as liar, instance.client() as honest:
        for session in (liar, honest):
            session.hello()
            bring(session, words)
        liar.expect("wanted")
        send(liar, list_of(10, first=5))
        assert liar.expect_closed()["code"] == errno.EPROTO
        honest.expect("wanted")
        send(honest, words)
        assert honest.expect("brought")["samples"] == 10


@harness.limit(60)
def test_a_view_that_never_arrives():
    words = list_of(40 * PIECE)
    with serve() as instance, instance.client() as slow, instance.client() as patient:
        for session in (slow, patient):
            session.hello()
            bring(session, words)
        slow.expect("wanted")
        begun = time.monotonic()
        with contextlib.suppress(wire.Closed, TimeoutError):
            for at in range(0, len(words), 8 * PIECE):
                slow.send("piece", words=words[at : at + 8 * PIECE])
                slow.receive(1.0)
        error = slow.expect_closed(20 * harness.SLOWNESS)
        assert error is None or error["code"] == errno.ETIMEDOUT, error
        assert 9 < time.monotonic() - begun < 25 * harness.SLOWNESS
        patient.expect("wanted", 5 * harness.SLOWNESS)
        send(patient, words)
        patient.expect("brought")


# ---- Limits ------------------------------------------------------------------------------------------------


def test_views_take_no_more_than_their_users_may_have():
    count = 100_000  # 800,000 bytes
    with serve(view_memory="2M", user_view_memory="1M") as instance:
        bystander = Bystander(instance)
        with instance.client() as first:
            first.hello()
            bring(first, b"", count=count)
            first.expect("wanted")  # now it counts, though nothing has arrived
            for _ in range(3):
                with instance.client() as more:
                    more.hello()
                    bring(more, b"", count=count, hash=7)
                    error = more.expect_closed()
                    assert error["code"] == errno.ENOSPC and "user_view_memory" in error["text"], error
            bystander.take()
        with instance.client() as again:  # what it had is free
            again.hello()
            bring(again, b"", count=count, hash=7)
            again.expect("wanted")
        with instance.client() as huge:
            huge.hello()
            bring(huge, b"", count=1 << 27)
            assert huge.expect_closed()["code"] == errno.ENOSPC


def test_views_and_feeds_that_nobody_uses_make_way():
    with harness.Instance(view_memory="1M") as instance:  # feeds linger
        path = data.add_records(instance, samples=1000, size=24)
        instance.start()
        whole = expected.read_records([path], 24, {"x": (0, 24)})["x"]
        for first in range(4):
            file = instance.directory / "list"
            file.write_bytes(list_of(100_000, first))
            batches = consumer.read(instance, "numbers", 10_000, view=f"indices:{I64}:{file}")
            assert sum(batch["count"] for batch in batches) == 100_000
            content = {"x": [whole[(first + i) % 1000] for i in range(100_000)]}
            expected.check_run(content, batches, 10_000)


def test_views_are_forgotten_when_nobody_has_used_them_for_linger():
    with serve() as instance:  # linger=0
        with instance.client() as session:
            brought(session, list_of(10))
            assert lists(instance)
        harness.eventually(lambda: not lists(instance), what="the view forgotten")
        with instance.client() as session:
            brought(session, list_of(10))  # is wanted again


def test_other_users_do_not_find_it():
    with users.serve(linger=60) as instance:

        def as_nobody():
            with instance.client() as session:
                return str(brought(session, list_of(10)))  # it has to send it

        with instance.client() as session:
            assert brought(session, list_of(10)) == 10
            assert users.run_as(users.NOBODY, [], as_nobody) == "10"


def test_who_may_not_use_the_dataset_may_not_bring_a_view():
    with users.serve({"allow_users": "0"}) as instance:

        def as_nobody():
            with instance.client() as session:
                session.hello()
                bring(session, list_of(10))
                return str(session.expect_closed()["code"])

        assert users.run_as(users.NOBODY, [], as_nobody) == str(errno.EACCES)


# ---- Floods ------------------------------------------------------------------------------------------------


def flood(instance, flooding, kind):
    """So many sessions send views as fast as they can, again and again."""

    def act(ready):
        words, dtype = (packed([1] * 10_000), I64) if kind == WEIGHTS else (list_of(100_000), I64)
        number = 0
        sessions = []
        ready()
        while True:
            while len(sessions) < flooding:
                session = greeted(instance)
                number += 1
                bring(session, words, kind, dtype, hash=number)  # a lie, so that nothing of it stays
                sessions.append(session)
            session = sessions.pop(0)
            with contextlib.suppress(wire.Closed, TimeoutError, AssertionError):
                session.expect("wanted")
                send(session, words)
                session.expect_closed()
            session.close()

    return act


@harness.limit(60)
def test_a_flood_of_lists():
    check_share(flood, 20, LIST)


@harness.limit(60)
def test_a_flood_of_weights():
    check_share(flood, 20, WEIGHTS)


assert NOBODY == users.NOBODY
