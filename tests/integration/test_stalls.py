"""What one client, or whoever reads the log, does must not hold up the daemon's loop: others are answered at once."""

import fcntl
import os
import time

import data
import harness
import wire

SOON_S = 0.5


def query_time(session):
    """How long the daemon takes to answer a client."""
    begun = time.monotonic()
    session.query("STATUS")
    return time.monotonic() - begun


class StoppedReader:
    """A pipe that feedd's messages go to, and that nobody reads unless told to."""

    def __init__(self, instance):
        self.path = instance.directory / "log.fifo"
        os.mkfifo(self.path)
        self.file = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.fcntl(self.file, fcntl.F_SETPIPE_SZ, 4096)  # soon full
        # Opened by a shell, so that feedd gets a descriptor that blocks.
        self.wrap = ("sh", "-c", f'exec "$@" 2>"{self.path}"', "sh")

    def read(self):
        text = b""
        try:
            while block := os.read(self.file, 65536):
                text += block
        except BlockingIOError:
            pass
        return text.decode(errors="replace")


def refused_connection(instance):
    with instance.client() as session:
        session.send_raw(wire.frame(b"\xff" * 50))
        session.expect_closed()


def test_a_log_whose_reader_stops():
    with harness.Instance() as feedd:
        data.add_records(feedd)
        reader = StoppedReader(feedd)
        feedd.start(wrap=reader.wrap)
        with feedd.client() as bystander:
            bystander.hello()
            for _ in range(100):  # a line each
                refused_connection(feedd)
            assert query_time(bystander) < SOON_S * harness.SLOWNESS
            text = reader.read()
            assert text.count("\n") >= 10, text
            assert "dropped" not in text, text
            refused_connection(feedd)
            text = reader.read()
            assert "lines were dropped: whoever reads this log does not keep up" in text, text
        feedd.stop()
        os.close(reader.file)
