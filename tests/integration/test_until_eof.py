"""feedd --until-eof: a daemon that ends with the process that holds its standard input."""

import contextlib
import os
import signal
import subprocess
import time

import consumer
import data
import harness


@contextlib.contextmanager
def served(**settings):
    """feedd with a pipe for standard input, and the descriptor that keeps it open."""
    with harness.Instance(**settings) as feedd:
        data.add_records(feedd, samples=1000, size=64)
        pipe = feedd.directory / "owner"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open(pipe, os.O_WRONLY)
        feedd.start(wrap=["sh", "-c", f'exec "$@" <{pipe}', "sh"], arguments=["--until-eof"])
        os.close(reader)
        yield feedd, writer


def check_end(feedd):
    """In good order and in time, with nothing left."""
    assert feedd.wait(5) == 0
    feedd.check_nothing_left()
    assert "standard input has ended" in feedd.read_log()
    feedd.process = None


def test_it_ends_with_its_owner():
    with served() as (feedd, writer):
        with consumer.Consumer(feedd, "numbers", 10, step=True) as reader:
            reader.attached()
            held = reader.next()
            os.close(writer)
            check_end(feedd)
            assert reader.hashes(held) == held["crc"], "a batch in hand is gone"


def test_what_is_written_there_means_nothing():
    with served() as (feedd, writer):
        for size in (1, 256, 4096):
            os.write(writer, b"x" * size)
            assert feedd.ctl("datasets").stdout
        os.close(writer)
        check_end(feedd)


def test_stopping_costs_nothing():
    """The end of the pipe is reported for as long as somebody asks, and a loader that hangs makes stopping take a while."""
    with served(stop_timeout=2) as (feedd, writer):
        with consumer.Consumer(feedd, "numbers", 10, step=True) as reader:
            reader.attached()
            os.kill(feedd.loaders(2)[0], signal.SIGSTOP)
            os.close(writer)
            harness.eventually(lambda: "standard input has ended" in feedd.read_log(), 2, "it stops")
            before = feedd.cpu_seconds()
            time.sleep(1)
            assert feedd.cpu_seconds() - before < 0.3, "it turns in circles"
            check_end(feedd)


def test_the_last_of_several_owners():
    with served() as (feedd, writer):
        other = os.dup(writer)
        os.close(writer)
        time.sleep(0.2)
        assert "numbers" in feedd.ctl("datasets").stdout
        os.close(other)
        check_end(feedd)


def test_an_owner_that_is_killed():
    with served() as (feedd, writer):
        owner = subprocess.Popen(["sleep", "60"], stdout=writer)
        os.close(writer)
        assert "numbers" in feedd.ctl("datasets").stdout
        owner.kill()
        owner.wait()
        check_end(feedd)


def test_an_owner_that_is_gone_before_it_serves():
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.write_config()
        command = [harness.PROGRAMS / "feedd", "--config", feedd.config, "--until-eof"]
        done = subprocess.run(command, input=b"", capture_output=True, timeout=10 * harness.SLOWNESS, check=False)
        assert done.returncode == 0 and b"standard input has ended" in done.stderr, done
        assert not feedd.socket.exists() and not feedd.stats.exists()


def test_standard_input_that_cannot_end():
    """A file is at its end at once; an invalid configuration is found first."""
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.write_config()
        command = [harness.PROGRAMS / "feedd", "--config", feedd.config, "--until-eof"]
        for source in ("/dev/null", feedd.config):
            with open(source, "rb") as file:
                done = subprocess.run(command, stdin=file, capture_output=True, timeout=10 * harness.SLOWNESS, check=False)
            assert done.returncode == 1 and b"standard input" in done.stderr and b"not a pipe" in done.stderr, done
            assert not feedd.socket.exists() and not feedd.stats.exists()


def test_without_it_the_end_of_standard_input_means_nothing():
    with harness.Instance() as feedd:  # whose standard input is /dev/null
        data.add_records(feedd)
        feedd.start()
        time.sleep(0.2)
        assert "numbers" in feedd.ctl("datasets").stdout
