"""Indices that take long: what is served, told and waited for meanwhile, and what becomes of failures."""

import json
import os
import re
import signal
import subprocess
import time

import consumer
import fuse
import harness
import test_tar

SHARD = test_tar.some(60)


def slow_instance(**settings):
    """feedd, not started, with a dataset `numbers` that is ready at once, and one of two shards, of which the first is on
    storage of the test's own: reading it beyond its middle has to wait for storage.answer_held()."""
    instance = harness.Instance(**settings)
    shard = instance.directory / "shard.tar"
    test_tar.write(shard, SHARD)
    content = shard.read_bytes()
    instance.storage = fuse.Fuse("shard.tar", content, direct=True)
    instance.storage.hold(lambda offset: offset > len(content) // 2)
    (instance.directory / "s-0.tar").symlink_to(instance.storage.path)
    test_tar.write(instance.directory / "s-1.tar", test_tar.some(20, 60))
    instance.content = test_tar.content_of(SHARD + test_tar.some(20, 60))
    instance.add_dataset("wds", format="tar", path=instance.directory / "s-*.tar", **test_tar.FIELDS)
    add_numbers(instance)
    return instance


def add_numbers(instance, name="numbers", **options):
    (instance.directory / f"{name}.bin").write_bytes(bytes(range(200)))
    instance.add_dataset(name, format="records", path=f"{name}.bin", record_bytes=4, field_x="u8[4] @ 0", **options)


def row(instance, name="wds"):
    (found,) = [entry for entry in json.loads(instance.ctl("datasets", "--json").stdout) if entry["name"] == name]
    return found


def half_way(instance, name="wds"):
    """Waits until the reader of the first shard waits; returns the figures."""
    def is_there():
        figures = row(instance, name)["indexing"]
        return figures and figures["files_done"] == 1 and instance.storage.held and figures

    return harness.eventually(is_there, 10, "the second of two shards is indexed, and the first is not")


def ready(instance, name="wds"):
    harness.eventually(lambda: row(instance, name)["state"] == "open", 10, f"{name} is open")


def read_numbers(instance):
    with consumer.Consumer(instance, "numbers", 10, epochs=1) as reader:
        assert sum(batch["count"] for batch in reader.finish()) == 50


def catches(pid, number):
    """Whether the process has a handler for the signal."""
    with open(f"/proc/{pid}/status") as status:
        (caught,) = [line.split()[1] for line in status if line.startswith("SigCgt:")]
    return int(caught, 16) >> (number - 1) & 1


def ctl_in_background(instance, *arguments):
    return subprocess.Popen(
        [harness.PROGRAMS / "feedctl", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=instance.environment(), preexec_fn=harness.die_with_parent,
    )  # fmt: skip


# ---- While it is built -------------------------------------------------------------------------------------


def test_the_daemon_serves_at_once():
    with slow_instance() as feedd:
        feedd.start()
        figures = half_way(feedd)
        assert figures["files"] == 2 and 0 < figures["bytes_done"] < figures["bytes"] and figures["rest_s"] > 0, figures
        assert row(feedd)["samples"] == 0 and row(feedd, "numbers")["state"] == "open"
        read_numbers(feedd)
        (line,) = feedd.status()["indexing"]
        assert re.match(r"wds: 1 of 2 files, [0-9.]+ KiB of [0-9.]+ KiB, ([0-9.]+ (bytes|[KM]iB)/s, about|nothing)", line), line
        assert "indexing: 1 of 2 files" in feedd.ctl("datasets").stdout
        assert "  indexing       wds: " in feedd.ctl("status").stdout
        feedd.storage.answer_held()
        ready(feedd)
        assert feedd.status()["indexing"] == [] and row(feedd)["indexing"] is None
        assert "made in" in row(feedd)["index"] and "dataset wds: index of" in feedd.read_log()
        test_tar.check(feedd, feedd.content, shuffle=True, seed=2)


def test_consumers_wait_for_it():
    with slow_instance() as feedd:
        feedd.add_view("val", "wds", samples="50%..")
        feedd.start()
        half_way(feedd)
        sentences = "the index of dataset wds is being built: 1 of 2 files", "/s, about"
        consumer.refused(feedd, "EAGAIN", *sentences, dataset="wds", batch_size=10, connect_timeout=1500)
        queued = "the index of dataset val waits for others"
        consumer.refused(feedd, "EAGAIN", queued, dataset="val", batch_size=1, connect_timeout=1000)
        with consumer.Consumer(feedd, "wds", 10, epochs=1) as first, consumer.Consumer(feedd, "val", 10, epochs=1) as second:
            time.sleep(0.5)
            feedd.storage.answer_held()
            assert sum(batch["count"] for batch in first.finish()) == 80
            assert sum(batch["count"] for batch in second.finish()) == 40


def test_samples_are_shown_once_it_is_there():
    with slow_instance() as feedd:
        feedd.start()
        half_way(feedd)
        shown = ctl_in_background(feedd, "show", "wds", "70")
        time.sleep(0.3)
        assert shown.poll() is None
        feedd.storage.answer_held()
        output, said = shown.communicate(timeout=20)
        assert shown.returncode == 0 and output.startswith("sample 70 of wds\n") and not said, (output, said)


def test_the_log_and_the_manager_are_told():
    with slow_instance() as feedd:
        feedd.start()
        half_way(feedd)
        harness.eventually(lambda: "dataset wds: indexing, 1 of 2 files" in feedd.read_log(), 14, "a line of progress")
        harness.eventually(lambda: "nothing read for" in feedd.ctl("status").stdout, 14, "storage is said to be silent")
        feedd.storage.answer_held()


def test_feedctl_waits_and_shows_how_far_it_is():
    with slow_instance() as feedd:
        feedd.start()
        half_way(feedd)
        with ctl_in_background(feedd, "index", "wds") as command:
            assert command.stderr.readline().startswith("1 of 2 files, ")
            assert command.poll() is None
            feedd.storage.answer_held()
            out, _ = command.communicate(timeout=10 * harness.SLOWNESS)
            assert command.returncode == 0 and out.startswith("dataset wds is ready: 80 samples, index of"), out
        test_tar.check(feedd, feedd.content)


# ---- Checks ------------------------------------------------------------------------------------------------


def test_an_index_that_fits_and_one_that_does_not():
    with harness.Instance(index_folder="kept") as feedd:
        (feedd.directory / "kept").mkdir()
        content = test_tar.add_shards(feedd, [test_tar.some(30)])
        add_numbers(feedd)
        feedd.start()
        ready(feedd)
        assert feedd.ctl("index", "wds").stdout.startswith("dataset wds: the index fits its files: 30 samples, index of")
        assert feedd.ctl("index", "numbers").stdout.endswith("50 samples, no index is needed\n")
        fresh = test_tar.add_shards(feedd, [test_tar.some(40)])
        assert "its files have changed" in feedd.ctl("index", "wds").stdout
        feedd.ctl("reload")
        assert "read in" in row(feedd)["index"]  # what the check has built is used
        test_tar.check(feedd, fresh)
        assert content != fresh
        done = feedd.ctl("index", "wdx", check=False)
        assert done.returncode == 1 and 'perhaps you mean "wds"' in done.stderr, done
        assert feedd.ctl("index", check=False).returncode == feedd.ctl("index", "a", "b", check=False).returncode == 2


# ---- Failures ----------------------------------------------------------------------------------------------


def test_failures_are_told_and_tried_again():
    with harness.Instance() as feedd:
        content = test_tar.add_shards(feedd, [test_tar.some(30)])
        add_numbers(feedd)
        path = feedd.directory / "wds-0.tar"
        whole = path.read_bytes()
        path.write_bytes(whole[:2000])
        feedd.start()
        harness.eventually(lambda: row(feedd)["state"] == "failed", 10, "the index cannot be built")
        reason = "wds-0.tar: found 2000 bytes in the file"
        assert reason in row(feedd)["problem"] and reason in feedd.ctl("datasets").stdout
        assert reason in feedd.status()["indexing"][0] and reason in feedd.status()["last_errors"][-1]
        consumer.refused(feedd, "ENODATA", "the index of dataset wds could not be built", reason, dataset="wds", batch_size=10)
        read_numbers(feedd)
        for command in (("index", "wds"), ("reload",), ("show", "wds"), ("show", "wds", "3")):
            done = feedd.ctl(*command, check=False)
            assert done.returncode == 1 and reason in done.stderr, done
        assert row(feedd)["state"] == "failed"
        path.write_bytes(whole)
        feedd.ctl("reload")
        test_tar.check(feedd, content)
        path.write_bytes(whole[:2000])
        done = feedd.ctl("index", "wds", check=False)  # what is served stays
        assert done.returncode == 1 and reason in done.stderr and row(feedd)["state"] == "open", done


def test_files_that_change_meanwhile():
    with slow_instance() as feedd:
        feedd.start()
        half_way(feedd)
        with (feedd.directory / "s-1.tar").open("ab") as shard:
            shard.write(bytes(512))
        feedd.storage.answer_held()
        harness.eventually(lambda: row(feedd)["state"] == "failed", 10, "the change is noticed")
        assert "s-1.tar: the file was changed while it was indexed" in row(feedd)["problem"]
        assert "dataset wds is ready: 80 samples" in feedd.ctl("index", "wds").stdout
        test_tar.check(feedd, feedd.content)


def test_a_cause_that_passes():
    """Storage that failed and works again: nobody has to reload, but nobody reads it in vain all the time either."""
    with slow_instance() as feedd:
        feedd.storage.answer_held()
        feedd.storage.failing = True
        feedd.add_mix("both", {"wds": 1}, 80)
        feedd.start()
        harness.eventually(lambda: row(feedd)["state"] == "failed", 10, "the index cannot be built")
        until, attempts = time.monotonic() + 5, 0
        while time.monotonic() < until:
            for name in ("wds", "both"):
                words = "the index of dataset wds could not be built", "Input/output error", "feedd tries again when"
                consumer.refused(feedd, "EIO", *words, dataset=name, batch_size=10)
                attempts += 1
        tried = feedd.read_log().count("dataset wds: its index cannot be built")
        assert 2 <= tried <= 4 < attempts, (tried, attempts)  # at once, and after 1, 2 and 4 s at the earliest
        feedd.storage.failing = False

        def is_there():
            with consumer.Consumer(feedd, "both", 10, epochs=1) as reader:
                return reader.process.wait(20) == 0

        harness.eventually(is_there, 20, "it is built when it is used")
        assert row(feedd)["state"] == row(feedd, "both")["state"] == "open" and not row(feedd)["problem"]
        test_tar.check(feedd, feedd.content)


def test_interrupt_ends_the_command_alone():
    """Ctrl-C: the command says that the daemon continues, and ends as any program does that does not catch the signal."""
    with slow_instance() as feedd:
        feedd.start()
        for options in ((), ("--quiet",)):
            half_way(feedd)
            command = ctl_in_background(feedd, "index", "wds", *options)
            harness.eventually(lambda pid=command.pid: catches(pid, signal.SIGINT), 10, "the command waits for the daemon")
            command.send_signal(signal.SIGINT)
            output, said = command.communicate(timeout=10 * harness.SLOWNESS)
            assert command.returncode == -signal.SIGINT and not output, (command.returncode, output, said)
            assert "the daemon continues with the index of wds" in said.splitlines()[-1], said
            assert "feedctl status" in said.splitlines()[-1], said
        assert row(feedd)["state"] == "indexing"
        feedd.storage.answer_held()
        ready(feedd)
        test_tar.check(feedd, feedd.content)


# ---- Reloads and ends --------------------------------------------------------------------------------------


def test_reload_meanwhile():
    with slow_instance(index_folder="kept") as feedd:
        (feedd.directory / "kept").mkdir()
        feedd.start()
        half_way(feedd)
        add_numbers(feedd, "more")
        feedd.write_config("[feedd]\nnonsense = 1\n")
        assert feedd.ctl("reload", check=False).returncode == 1
        assert half_way(feedd)  # it continues
        feedd.write_config()
        with ctl_in_background(feedd, "index", "wds") as command:
            feedd.process.send_signal(signal.SIGHUP)
            time.sleep(1)  # the reload waits for the same index
            assert row(feedd)["state"] == "indexing" and command.poll() is None
            read_numbers(feedd)
            feedd.storage.answer_held()
            harness.eventually(lambda: "reloaded: serving 3 datasets" in feedd.read_log(), 10, "the reload is done")
            out, _ = command.communicate(timeout=10 * harness.SLOWNESS)
            assert command.returncode == 0 and out, out
        assert row(feedd, "more")["state"] == row(feedd)["state"] == "open"
        assert feedd.read_log().count("made in") <= 1  # not built twice
        test_tar.check(feedd, feedd.content)


def test_stop_meanwhile():
    with slow_instance() as feedd:
        feedd.start()
        half_way(feedd)
        with consumer.Consumer(feedd, "wds", 10) as waiting:
            time.sleep(0.5)
            feedd.process.send_signal(signal.SIGTERM)
            waiting.expect_error("ESHUTDOWN", seconds=3)
        harness.eventually(lambda: not feedd.socket.exists(), 3, "the daemon has cleaned up")
        feedd.storage.answer_held()  # the kernel ends no process whose thread waits for such a read
        assert feedd.wait(5) == 0


def test_kill_meanwhile():
    with slow_instance(index_folder="kept") as feedd:
        kept = feedd.directory / "kept"
        kept.mkdir()
        feedd.start()
        half_way(feedd)
        feedd.process.send_signal(signal.SIGKILL)
        feedd.storage.answer_held()
        feedd.process.wait()
        assert list(kept.iterdir()) == []
        feedd.start()
        ready(feedd)
        test_tar.check(feedd, feedd.content)
        assert [path.suffix for path in kept.iterdir()] == [".index"]
        feedd.stop()
        os.truncate(next(kept.iterdir()), 100)  # as if it had been cut off by a crash of the machine
        feedd.start()
        ready(feedd)
        test_tar.check(feedd, feedd.content)
