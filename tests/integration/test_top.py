"""feedctl top on a terminal."""

import contextlib
import re
import signal

import consumer
import data
import harness
from terminal import Feedctl as Terminal


@contextlib.contextmanager
def busy(**settings):
    """A daemon with a feed of two consumers, and one on a simulated GPU."""
    with harness.Instance(ring="64K", **settings) as feedd:
        data.add_records(feedd, "numbers", samples=1000, size=64)
        data.add_records(feedd, "tokens", samples=1000, size=256)
        feedd.start()
        endless = {"epochs": 0, "sleep_us": 2000, "quiet": True, "samples": False}
        with contextlib.ExitStack() as stack:
            readers = []
            for dataset, size, name, device in (
                ("numbers", 10, "job", "cpu"), ("numbers", 10, "job", "cpu"), ("tokens", 5, "llm", "host:0"),
            ):  # fmt: skip
                reader = consumer.Consumer(feedd, dataset, size, share=name, device=device, **endless)
                readers.append(stack.enter_context(reader))
                reader.attached()  # so that feeds have their numbers in this order
            yield feedd, readers
            for reader in readers:
                reader.kill()


def verdict(terminal, feed, bound):
    """The sentence about the selected feed, put together from its lines."""
    begin = rf"^feed {feed} is {bound}\. "
    lines = terminal.shows(begin)
    first = next(number for number, line in enumerate(lines) if re.match(begin, line))
    end = next(number for number in range(first, len(lines)) if not lines[number] or re.match("CONSUMER", lines[number]))
    return " ".join(lines[first:end])


FEED = r"^{} +{} .* \d[\d.]*k? "


@harness.host_memory
@harness.limit(90)
def test_shows_feeds_consumers_loaders_and_gpus():
    with busy() as (feedd, readers), Terminal(feedd, "top", "0.2") as terminal:
        pids = feedd.children_called("loader")
        screen = terminal.shows(
            rf"^feedd {feedd.process.pid} alive", r"^FEED \^ +NAME +SAMPLES/S", FEED.format(1, "job"), FEED.format(2, "llm"),
            r"^CONSUMER \^", rf" {readers[0].pid} ", rf" {readers[1].pid} ", rf" {readers[2].pid} ", r"^LOADER \^", r"^GPU \^",
            r"^HOST-0 .*\[.{6}\].*running", "[▁▂▃▄▅▆▇█]{4}", "^q quit",
            *(rf"^{pid} " for pid in pids),
        )  # fmt: skip
        assert len(screen) <= 24 and max(map(len, screen)) <= 80, screen
        assert screen[-1].startswith("q quit"), screen
        # Wider, there are more columns; on a telephone, the most important ones.
        terminal.resize(150, 40)
        wide = "^FEED \\^ .*DATASET.*RING.*LOADERS", r"\[.{6}\] \d+/\d+", "HEARTBEAT", "DEVICE", " cpu ", " HOST-0 "
        terminal.shows(*wide)
        terminal.resize(40, 18)
        screen = terminal.shows(r"^FEED \^ +NAME +SAMPLES/S.*BOTTLENECK$", FEED.format(1, "job"), "^q Tab")
        assert len(screen) <= 18 and max(map(len, screen)) <= 40, screen
        terminal.resize(10, 3)
        terminal.resize(80, 24)
        terminal.shows(FEED.format(1, "job"))
        terminal.keys("q")
        assert terminal.status() == 0


@harness.host_memory
@harness.limit(90)
def test_keys():
    with busy() as (feedd, readers), Terminal(feedd, "top", "0.2", width=100, height=30) as terminal:
        terminal.shows(FEED.format(1, "job"), FEED.format(2, "llm"), "^LOADER")

        def places():
            lines = terminal.screen()
            return [line.split()[1] for line in lines if re.match(r"[12] +(job|llm) ", line)]

        assert places() == ["job", "llm"], terminal.screen()
        terminal.keys("r")
        terminal.shows("^FEED v")
        # A feed is idle, and comes last, until its consumer counts.
        harness.eventually(lambda: places() == ["llm", "job"], 10, "the order is reversed")
        terminal.keys("s")
        terminal.shows(r"^FEED +NAME \^")
        assert places() == ["job", "llm"], terminal.screen()
        # The feed that is picked, alone: its consumer and its loaders.
        terminal.keys("End", "Down", "Down", "Enter")
        other = f" {readers[0].pid} "
        harness.eventually(lambda: not any(other in line for line in terminal.screen()), 10, "other feeds' consumers gone")
        terminal.shows(rf" {readers[2].pid} ")
        terminal.keys("Enter")
        terminal.shows(rf" {readers[0].pid} ", rf" {readers[2].pid} ")
        terminal.keys("Tab", "Tab", "s")
        terminal.shows(r"^LOADER +FEED v")
        terminal.keys("Escape")
        assert terminal.status() == 0


@harness.host_memory
@harness.limit(90)
def test_idle_feeds_come_last():
    """So do their loaders, and their histories do not begin with earlier activity."""
    with harness.Instance(ring="64K", loaders=1) as feedd:
        data.add_records(feedd, "numbers", samples=1000, size=64)
        feedd.start()
        for batch_size in (10, 20):
            consumer.read(feedd, "numbers", batch_size)
        with consumer.Consumer(feedd, "numbers", 30, epochs=0, sleep_us=2000, quiet=True, samples=False) as reader:
            with Terminal(feedd, "top", "0.2") as terminal:
                terminal.shows(r"^3 .*[▁▂▃▄▅▆▇█]", r"^1 ", r"^2 ")
                lines = [line for line in terminal.screen() if re.match(r"[123] ", line)]
                assert [line.split()[0] for line in lines] == ["3", "1", "2"], lines
                assert not any(re.search("[▁▂▃▄▅▆▇█]", line) for line in lines[1:]), lines
                loaders = [line.split() for line in terminal.screen() if re.match(r"\d+ +[123] ", line)]
                assert len(loaders) == 3 and loaders[0][1] == "3", terminal.screen()
                terminal.keys("q")
                assert terminal.status() == 0
            reader.kill()


@harness.host_memory
@harness.limit(90)
def test_what_the_selected_feed_is_bound_by():
    """With its hint and its shares, which fit at 80 x 24, as stats says it."""
    with busy() as (feedd, _), Terminal(feedd, "top", "0.2") as terminal:
        said = verdict(terminal, 1, "bound by its consumers")
        assert "Batches wait for the consumers: feedd could deliver more. Shares: consumers wait " in said, said
        assert re.search(r"; loaders copy \d+ %, decode \d+ %, wait for storage \d+ %, for room \d+ %\.$", said), said
        terminal.keys("Down")
        said = verdict(terminal, 2, "bound by .*")
        assert " Shares: consumers wait " in said, said
        # Also that of the selected consumer's feed.
        terminal.keys("Up")
        verdict(terminal, 1, "bound by its consumers")
        terminal.keys("Tab", "End", "Down", "Down", "Down")
        verdict(terminal, 2, "bound by .*")
        terminal.resize(40, 18)
        lines = terminal.shows(r"^feed 2 is bound by ", "^q Tab", "^CONSUMER")
        assert len(lines) <= 18 and max(map(len, lines)) <= 40, lines


@harness.host_memory
@harness.limit(90)
def test_follows_the_daemon():
    with busy() as (feedd, readers), Terminal(feedd, "top", "0.2", width=100) as terminal:
        terminal.shows(FEED.format(1, "job"))
        feedd.process.send_signal(signal.SIGSTOP)
        terminal.shows("is wedged", "consumers: the daemon does not answer", seconds=20)
        feedd.process.send_signal(signal.SIGCONT)
        terminal.shows("alive", rf" {readers[0].pid} ", seconds=20)
        for reader in readers:
            reader.kill()
        feedd.stop()
        terminal.shows("stopped cleanly", "no feed: nobody reads", "no feedd is running")
        feedd.start()
        terminal.shows(rf"^feedd {feedd.process.pid} alive", "no feed: nobody reads")
        terminal.keys("C-c")
        assert terminal.status() == 0


@harness.host_memory
def test_a_terminal_without_unicode():
    with busy() as (feedd, _), Terminal(feedd, "top", "0.2", charset="C") as terminal:
        screen = terminal.shows(FEED.format(1, "job"), r"[@#*+=]{4}")
        assert all(line.isascii() for line in screen), screen
        terminal.keys("q")
        assert terminal.status() == 0


@harness.host_memory
def test_needs_a_terminal():
    with harness.Instance() as feedd:
        data.add_records(feedd)
        done = feedd.ctl("top", check=False)
        assert done.returncode == 1 and "no feedd is running" in done.stderr, done
        feedd.start()
        done = feedd.ctl("top", check=False)
        assert done.returncode == 1 and "needs a terminal" in done.stderr, done
        assert feedd.ctl("top", "0", check=False).returncode == 2
        with Terminal(feedd, "top") as terminal:
            terminal.shows("no feed: nobody reads")
            terminal.keys("q")
            assert terminal.status() == 0
