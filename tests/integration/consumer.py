"""Runs consumer.c against an instance and reads the lines it prints."""

import contextlib
import json
import queue
import subprocess
import threading
import time

import harness


class Consumer:
    """One consumer process. Options are those of consumer.c, with underscores; True is a flag, None and False nothing.

    `user` runs it as that uid and gid; `wrap` is a program that becomes it; `environment` and `program` are further
    variables and arguments of subprocess.Popen.
    """

    def __init__(
        self, instance, dataset, batch_size, user=None, wrap=(),
        environment=None, program=None, **options
    ):  # fmt: skip
        given = {"dataset": dataset, "batch_size": batch_size, "samples": True, **options}
        arguments = [
            f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
            for name, value in given.items() if value is not None and value is not False
        ]  # fmt: skip
        identity = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        self.process = subprocess.Popen(
            [*wrap, harness.PROGRAMS / "tests/consumer", *arguments], text=True, cwd="/",
            stdin=subprocess.PIPE if options.get("step") else subprocess.DEVNULL, stdout=subprocess.PIPE,
            env=instance.environment(**(environment or {})), **identity,
            **{"preexec_fn": harness.die_with_parent, **(program or {})},
        )  # fmt: skip
        self.pid = self.process.pid
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def event(self, seconds=20.0):
        """The next line; None when the process has closed its output."""
        try:
            return self.lines.get(timeout=seconds * harness.SLOWNESS)
        except queue.Empty:
            raise AssertionError(f"no word from the consumer within {seconds:g} s") from None

    def expect(self, kind, seconds=20.0):
        event = self.event(seconds)
        assert event and event["event"] == kind, f"wanted {kind}, got {event}"
        return event

    def expect_error(self, code, *parts, seconds=20.0):
        """The next line must be an error with that code and a sentence that contains these parts."""
        event = self.expect("error", seconds)
        assert event["code"] == code, f"{event}, wanted {code}"
        for part in parts:
            assert str(part) in event["text"], f"nothing of {part!r} in {event}"
        return event

    def attached(self):
        return self.expect("attached")

    # ---- Step by step --------------------------------------------------------------------------------------

    def command(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()

    def next(self, timeout_ms=20000):
        """Takes a batch, which must come."""
        self.command("next", timeout_ms)
        return self.expect("batch")

    def next_fails(self, code, *parts, timeout_ms=20000):
        self.command("next", timeout_ms)
        return self.expect_error(code, *parts)

    def next_ends(self, timeout_ms=20000):
        self.command("next", timeout_ms)
        return self.expect("end")

    def release(self, batch):
        self.command("release", batch["number"])
        self.expect("released")

    def take(self, count):
        """Takes and releases `count` batches."""
        batches = []
        for _ in range(count):
            batches.append(self.next())
            self.release(batches[-1])
        return batches

    def hashes(self, batch):
        self.command("rehash", batch["number"])
        return self.expect("hashes")["crc"]

    def token(self):
        self.command("token")
        return self.expect("token")["token"]

    def close(self):
        """Closes cleanly, like a program that has finished."""
        self.command("close")
        assert self.process.wait(20 * harness.SLOWNESS) == 0

    # ---- Running by itself ---------------------------------------------------------------------------------

    def events(self, seconds=25.0):
        """All lines up to the end of its output."""
        deadline = time.monotonic() + seconds * harness.SLOWNESS
        events = []
        while (event := self.event(max(deadline - time.monotonic(), 0) / harness.SLOWNESS)) is not None:
            events.append(event)
        self.process.wait()
        return events

    def finish(self, seconds=25.0):
        """Its batches, after it has reached the end of its run without an error."""
        self.last = self._finish("end", seconds)
        return self.batches

    def fail(self, code, *parts, seconds=25.0):
        """Its batches, after it has ended with that error."""
        self.last = self._finish("error", seconds)
        assert self.last["code"] == code, f"{self.last}, wanted {code}"
        for part in parts:
            assert str(part) in self.last["text"], f"nothing of {part!r} in {self.last}"
        return self.batches

    def _finish(self, kind, seconds):
        events = self.events(seconds)
        self.batches = [event for event in events if event["event"] == "batch"]
        assert events and events[-1]["event"] == kind, f"wanted {kind}, got {events[-1:]}"
        return events[-1]

    def kill(self):
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait()


def read(instance, dataset, batch_size, epochs=1, **options):
    """The batches of a whole run."""
    with Consumer(instance, dataset, batch_size, epochs=epochs, **options) as reader:
        reader.attached()
        return reader.finish()


def read_through_kills(instance, dataset, batch_size, count, **options):
    """The `count` batches of a whole run, during which all loaders and then the daemon are killed."""
    options = {"reconnect_timeout": 20000, **options}
    with Consumer(instance, dataset, batch_size, step=True, **options) as reader:
        reader.attached()
        batches = reader.take(5)
        for loader in instance.children_called("loader"):
            harness.kill(loader)
        batches += reader.take(10)
        instance.process.kill()
        instance.process.wait()
        instance.start()
        batches += reader.take(count - 15)
        reader.next_ends()
        return batches


def refused(instance, code, *parts, dataset="numbers", batch_size=10, **options):
    """Attaching must fail with that code and a sentence that contains these parts."""
    with Consumer(instance, dataset, batch_size, **options) as reader:
        reader.expect_error(code, *parts)
