"""Clients that break the protocol: each loses its own session, and nobody else notices."""

import errno
import os
import struct
import time

import data
import harness
import wire


def serve(**settings):
    """A running feedd with one small dataset. Feeds go with their last consumer, so that descriptors can be counted."""
    instance = harness.Instance(linger=0, **settings)
    try:
        data.add_records(instance)
        return instance.start()
    except BaseException:
        instance.__exit__(AssertionError, None, None)
        raise


class Bystander:
    """A well-behaved consumer that is attached while others misbehave, and must continue unharmed."""

    def __init__(self, instance):
        self.session = instance.client()
        self.next = self.session.attach("numbers", 10, prefetch=2)["sequence"]

    def take(self):
        """Takes one grant and gives it back."""
        grant = self.session.expect("grant")
        assert grant["sequence"] == self.next, f"granted {grant['sequence']} instead of {self.next}"
        self.next += len(grant["slots"])
        self.session.send("release", slots=grant["slots"], waiting=True)


def attack(act, code=None, seconds=10.0):
    """Runs act(session) against a fresh feedd: the session has to be closed, with an Error of `code` if one is named,
    the descriptors have to come back, and a bystander has to be served on."""
    with serve() as instance:
        bystander = Bystander(instance)
        bystander.take()
        before = instance.descriptors()
        with instance.client() as session:
            error = None
            try:
                act(session)
                error = session.expect_closed(seconds)
            except wire.Closed:
                pass
            if code is not None:
                assert error, "the session was closed without a word"
                assert error["code"] == code, f"error {error}, wanted code {errno.errorcode[code]}"
                assert len(error["text"]) > 10, f"no sentence in {error}"
        instance.check_descriptors(before)
        for _ in range(5):
            bystander.take()
        bystander.session.close()


def test_frame_of_no_bytes():
    attack(lambda session: session.send_raw(wire.frame(b"")), errno.EPROTO)


def test_frame_beyond_the_limit():
    attack(lambda session: session.send_raw(struct.pack("<I", wire.MAX_MESSAGE + 1)), errno.EMSGSIZE)


def test_frame_of_four_gigabytes():
    attack(lambda session: session.send_raw(b"\xff\xff\xff\xff" + b"x" * 1000))


def test_garbage_instead_of_a_message():
    attack(lambda session: session.send_raw(wire.frame(b"\xff" * 50)), errno.EPROTO)


def test_garbage_instead_of_a_frame():
    attack(lambda session: session.send_raw(b"GET / HTTP/1.1\r\nHost: feedd\r\n\r\n"))


def test_largest_frame_of_garbage():
    attack(lambda session: session.send_raw(wire.frame(os.urandom(wire.MAX_MESSAGE))))


def test_unknown_message_before_hello():
    attack(lambda session: session.send_raw(wire.frame(wire.varint(99 << 3 | 2) + b"\0")), errno.EPROTO)


def test_unknown_message_after_hello():
    def act(session):
        session.hello()
        session.send_raw(wire.frame(wire.varint(99 << 3 | 2) + b"\0"))

    attack(act, errno.EPROTO)


def test_nested_length_that_lies():
    hello = wire.varint(1 << 3 | 2) + wire.varint(1 << 40) + b"\x08\x01"
    attack(lambda session: session.send_raw(wire.frame(hello)))


def test_name_that_is_no_text():
    def act(session):
        session.hello()
        session.send("attach", dataset=b"\xff\xfe\0x", batch_size=1)

    attack(act)


def test_name_that_is_too_long():
    def act(session):
        session.hello()
        session.send("attach", dataset="n" * 60000, batch_size=1)

    attack(act)


def test_request_before_hello():
    attack(lambda session: session.send("attach", dataset="numbers", batch_size=10), errno.EPROTO)


def test_hello_twice():
    def act(session):
        session.hello()
        session.send("hello", version=wire.VERSION)

    attack(act, errno.EPROTO)


def test_hello_of_another_version():
    attack(lambda session: session.send("hello", version=wire.VERSION + 1), errno.EPROTO)


def test_attach_twice():
    def act(session):
        session.attach("numbers", 10)
        session.send("attach", dataset="numbers", batch_size=10)

    attack(act, errno.EPROTO)


def test_release_without_attach():
    def act(session):
        session.hello()
        session.send("release", slots=[0])

    attack(act, errno.EPROTO)


def test_release_of_a_slot_never_granted():
    def act(session):
        session.attach("numbers", 10, share="gather", wait_for=2)
        session.send("release", slots=[0])

    attack(act, errno.EPROTO)


def test_release_of_a_slot_beyond_the_ring():
    def act(session):
        session.attach("numbers", 10)
        session.send("release", slots=[4_000_000_000])

    attack(act, errno.EPROTO)


def test_release_twice():
    def act(session):
        session.attach("numbers", 10, prefetch=1)
        slot = session.expect("grant")["slots"][0]
        session.send("release", slots=[slot, slot])

    attack(act, errno.EPROTO)


def test_release_of_too_many_slots():
    def act(session):
        session.attach("numbers", 10)
        session.send("release", slots=[0] * 10_000)

    attack(act, errno.EPROTO)


def attack_with_descriptors(act):
    """The daemon ends the session, or the kernel refuses the descriptors (from Linux 6.16 on) and the session is unharmed.
    test_stalls.py has the former on every kernel."""
    with serve() as instance, instance.client() as session, open("/dev/null", "rb") as file:
        try:
            act(session, file.fileno())
        except PermissionError:
            session.send("query", kind=0)
            session.expect("answer")
            return
        except wire.Closed:
            pass
    attack(lambda other: act(other, os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)), errno.EPROTO)


def test_descriptors_that_nobody_asked_for():
    def act(session, fd):
        session.hello()
        session.send("query", kind=0, fds=[fd])

    attack_with_descriptors(act)


def test_more_descriptors_than_the_protocol_knows():
    def act(session, fd):
        session.hello()
        session.send("query", kind=0, fds=[fd] * 200)

    attack_with_descriptors(act)


def test_descriptors_with_every_message():
    def act(session, fd):
        session.hello()
        for _ in range(20):
            session.send("query", kind=0, fds=[fd] * 3)

    attack_with_descriptors(act)


def test_torn_frame_then_gone():
    with serve() as instance:
        before = instance.descriptors()
        whole = wire.frame(wire.client_message("hello", version=wire.VERSION))
        for size in range(1, len(whole)):
            with instance.client() as session:
                session.send_raw(whole[:size])
        instance.check_descriptors(before)
        Bystander(instance).take()


def test_frame_byte_by_byte():
    with serve() as instance, instance.client() as session:
        for byte in wire.frame(wire.client_message("hello", version=wire.VERSION, client_name="slow")):
            session.send_raw(bytes([byte]))
            time.sleep(0.002)
        assert session.expect("welcome")["version"] == wire.VERSION


def test_many_messages_in_one_write():
    with serve() as instance, instance.client() as session:
        hello = wire.frame(wire.client_message("hello", version=wire.VERSION))
        query = wire.frame(wire.client_message("query", kind=0))
        session.send_raw(hello + query * 50)
        session.expect("welcome")
        for _ in range(50):
            session.expect("answer")


@harness.limit(40)
def test_silence_instead_of_hello():
    with serve() as instance:
        before = instance.descriptors()
        begun = time.monotonic()
        with instance.client() as session:
            error = session.expect_closed(15 * harness.SLOWNESS)
            assert time.monotonic() - begun > 2, "closed before a slow client had a chance"
            assert error and error["code"] == errno.ETIMEDOUT, error
        instance.check_descriptors(before)


@harness.limit(60)
def test_client_that_never_reads():
    """It asks without end and never takes an answer: the daemon's memory is bounded, so it has to hang up."""
    with serve() as instance:
        bystander = Bystander(instance)
        before = instance.descriptors()
        with instance.client() as session:
            session.hello()
            query = wire.frame(wire.client_message("query", kind=0)) * 100
            try:
                for _ in range(2000):
                    session.send_raw(query)
                    bystander.take()
                raise AssertionError("200 thousand unread answers, and still connected")
            except (wire.Closed, TimeoutError):
                pass
        instance.check_descriptors(before)
        bystander.take()
        bystander.session.close()


def test_hundred_sessions_that_vanish():
    with serve() as instance:
        before = instance.descriptors()
        sessions = [instance.client() for _ in range(50)]
        for number, session in enumerate(sessions):
            if number % 2:
                session.send("hello", version=wire.VERSION)
        for session in sessions:
            session.close()
        instance.check_descriptors(before)
        Bystander(instance).take()


def test_consumers_that_vanish_give_their_feed_back():
    with serve() as instance:
        before = instance.descriptors()
        for _ in range(5):
            with instance.client() as session:
                session.attach("numbers", 10)
                session.expect("grant")
        instance.check_descriptors(before, 20)
        harness.eventually(lambda: not instance.children(), 20, "no loader left")


@harness.quick_attach
def test_ring_of_a_client_is_read_only():
    with serve() as instance, instance.client() as session:
        session.attach("numbers", 10)
        assert len(session.fds) == (3 if harness.DEVICE else 1), f"{len(session.fds)} descriptors with Attached"
        try:
            os.pwrite(session.fds[0], b"x", 0)
        except OSError as error:
            assert error.errno in (errno.EBADF, errno.EPERM), error
        else:
            raise AssertionError("a client can write to the ring")
