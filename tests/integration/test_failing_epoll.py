"""The kernel may refuse to watch one more descriptor. Whoever needed it is told so or cut off; nobody else notices."""

import errno
import mmap
import struct

import data
import harness
import wire

MOST = 60  # descriptors that are watched for what is done here, at the very most


class Failing:
    """A running feedd whose n-th next attempt to watch a descriptor fails, when it is told to."""

    def __init__(self, **settings):
        if harness.sanitized():
            harness.skip("a library cannot be preloaded before the address sanitizer")
        self.feedd = harness.Instance(linger=0, device_linger=0, **settings)
        data.add_records(self.feedd)
        path = self.feedd.directory / "failing"
        path.write_bytes(bytes(4096))
        library = harness.PROGRAMS / "tests/failing_epoll.so"
        self.feedd.start(environment={"LD_PRELOAD": str(library), "FAILING_EPOLL": str(path)})
        with path.open("r+b") as file:
            self.order = mmap.mmap(file.fileno(), 4096)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.feedd.__exit__(*error)

    def arm(self, number, error):
        self.order[4:8] = struct.pack("=i", error)
        self.order[0:4] = struct.pack("=i", number)

    def has_failed(self):
        return struct.unpack("=i", self.order[0:4])[0] <= 0


def attach_and_ask(instance, **options):
    """All that a client may want. Ends early where it is refused or cut off."""
    with instance.client() as session:
        session.hello()
        session.send("attach", dataset="numbers", batch_size=20, **options)
        body, fields = session.receive()
        if body == "error":
            assert fields["text"], fields
            return
        assert body == "attached", (body, fields)
        if "device" in options:
            session.write_words(1 << 62)
        body, fields = session.receive()
        assert body in ("grant", "error"), (body, fields)
    with instance.client() as session:
        session.hello()
        session.query("STATUS")
        session.query("FEEDS")


def one_more_batch(session):
    session.send("release", slots=session.expect("grant")["slots"], waiting=True)


def check_every_refusal(error, **options):
    with Failing() as failing:
        feedd = failing.feedd
        with feedd.client() as bystander:
            bystander.attach("numbers", 10, prefetch=1)
            one_more_batch(bystander)
            attach_and_ask(feedd, **options)
            before = feedd.descriptors() + 1
            refused = 0
            for number in range(1, MOST):
                failing.arm(number, error)
                try:
                    attach_and_ask(feedd, **options)
                except (wire.Closed, OSError) as cut_off:
                    assert not isinstance(cut_off, TimeoutError), f"refusal {number}: no answer"
                assert feedd.process.poll() is None, f"refusal {number} has ended feedd"
                one_more_batch(bystander)
                if not failing.has_failed():
                    break
                refused += 1
            failing.arm(0, 0)
            print(f"{refused} refusals")
            assert refused >= 3 and number < MOST - 1, refused
            attach_and_ask(feedd, **options)
            one_more_batch(bystander)
            feedd.check_descriptors(before)


@harness.host_memory
def test_refused_for_want_of_memory():
    check_every_refusal(errno.ENOMEM)


@harness.host_memory
def test_refused_for_the_limit_on_watches():
    check_every_refusal(errno.ENOSPC)


@harness.host_memory
def test_refused_while_a_pool_is_made():
    check_every_refusal(errno.ENOMEM, device="HOST-0", device_world_size=1)
