"""SIGHUP and feedctl reload: new datasets appear, feeds in use continue unchanged, and a broken configuration changes
nothing."""

import errno
import os
import signal
import threading

import consumer
import data
import expected
import harness


def serve(**settings):
    instance = harness.Instance(**settings)
    instance.path = data.add_records(instance, samples=500, size=32)
    return instance.start()


def content(instance):
    return expected.read_records([instance.path], 32, {"x": (0, 32)})


def names(instance):
    return [line.split()[0] for line in instance.ctl("datasets").stdout.splitlines()[1:]]


def replace(path, samples, size):
    """Another file under the same name, as a careful program does it."""
    new = path.with_suffix(".new")
    data.write_records(new, samples=samples, size=size, first=10_000)
    new.rename(path)


def test_new_dataset_appears():
    with serve() as feedd:
        consumer.refused(feedd, "ENOENT", "others", "feedctl datasets", dataset="others")
        data.add_records(feedd, "others", samples=100, size=8)
        feedd.write_config()
        done = feedd.ctl("reload")
        assert done.stdout == "serving 2 datasets\n  dataset others: added\n", done
        assert names(feedd) == ["numbers", "others"]
        assert len(consumer.read(feedd, "others", 10)) == 10


def test_numbers_of_samples_that_change():
    """Those of a folder, of a flat file, of an array, and of their views; the others are not named."""
    with serve() as feedd:
        folder = feedd.directory / "folder"
        (folder / "class").mkdir(parents=True)
        for name in "abc":
            (folder / f"class/{name}").write_bytes(b"x")
        data.write_npy(feedd.directory / "array.npy", "<i4", (7,), bytes(28))
        feedd.add_dataset("files", format="folder", path=folder, field_x="bytes @ file", field_y="i64 @ class")
        feedd.add_dataset("array", format="npy", field_x=feedd.directory / "array.npy")
        feedd.add_view("half", "numbers", samples="0%..50%")
        feedd.add_view("few", "array", samples="0..2")
        feedd.write_config()
        feedd.ctl("reload")
        assert feedd.ctl("reload").stdout == "serving 5 datasets\n"
        replace(feedd.path, samples=600, size=32)
        (folder / "class/d").write_bytes(b"x")
        (folder / "class/e").write_bytes(b"x")
        data.write_npy(feedd.directory / "new.npy", "<i4", (5,), bytes(20))
        (feedd.directory / "new.npy").rename(feedd.directory / "array.npy")
        lines = ["serving 5 datasets"]
        for what in ("dataset numbers: 600 samples (was 500)", "dataset files: 5 samples (was 3)",
                     "dataset array: 5 samples (was 7)", "view half: 300 samples (was 250)"):  # fmt: skip
            lines.append(f"{what}; feeds in use keep the old version")
        done = feedd.ctl("reload")
        assert done.stdout == "\n  ".join(lines) + "\n" and not done.stderr, done
        log = feedd.read_log().splitlines()
        for line in lines[1:]:
            assert sum(row.endswith(f" info: reloaded: {line}") for row in log) == 1, (line, log)
        assert feedd.ctl("reload").stdout == "serving 5 datasets\n"


def test_a_hangup_while_the_daemon_starts():
    """Here, while it reads its configuration from somebody who is slow."""
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=10, size=8)
        feedd.write_config()
        text = feedd.config.read_text()
        feedd.config.unlink()
        os.mkfifo(feedd.config)

        def write():
            first = harness.eventually(lambda: open_for_writing(feedd.config), 10, "the daemon reads its configuration")
            harness.eventually(lambda: feedd.process, 10, "its process number is known here")
            os.kill(feedd.process.pid, signal.SIGHUP)
            feedd.config.unlink()
            os.mkfifo(feedd.config)  # a new one, so that the reload does not get the end of the first text
            with os.fdopen(first, "w") as file:
                file.write(text)
            feedd.config.write_text(text)  # as soon as the reload reads it

        writer = threading.Thread(target=write)
        writer.start()
        feedd.start()
        writer.join()
        harness.eventually(lambda: "serving" in feedd.read_log() or "reload" in feedd.read_log(), 10, "the reload")
        assert len(consumer.read(feedd, "numbers", 10)) == 1


def test_hangup_does_the_same():
    with serve() as feedd:
        data.add_records(feedd, "others", samples=100, size=8)
        feedd.write_config()
        os.kill(feedd.process.pid, signal.SIGHUP)
        harness.eventually(lambda: len(names(feedd)) == 2, 5, "two datasets")
        assert "reloaded" in feedd.read_log()


def test_dataset_that_is_dropped():
    """A consumer that reads it continues to the end; nobody else can begin."""
    with serve() as feedd:
        data.add_records(feedd, "others", samples=500, size=32)
        with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=2, share="job") as reader:
            reader.attached()
            batches = reader.take(20)
            del feedd.datasets["numbers"]
            feedd.write_config()
            feedd.ctl("reload")
            assert names(feedd) == ["others"]
            consumer.refused(feedd, "ENOENT", "numbers")
            batches += reader.take(80)
            reader.next_ends()
            expected.check_run(content(feedd), batches, 10, epochs=2)


def test_replaced_file_is_for_new_feeds():
    """The feed in use keeps the data it began with; one that is made after the reload has the new ones."""
    with serve() as feedd:
        old = content(feedd)
        with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=2, share="job", token=True) as reader:
            reader.attached()
            batches = reader.take(20)
            replace(feedd.path, 300, 32)
            feedd.ctl("reload")
            # Not into the old feed under the same name: it has other data.
            consumer.refused(feedd, "EEXIST", "before its files changed", share="job")
            consumer.refused(feedd, "ESTALE", "other data", resume=batches[-1]["token"])
            new = consumer.read(feedd, "numbers", 10, epochs=2)
            expected.check_run(content(feedd), new, 10, epochs=2)
            assert content(feedd) != old
            batches += reader.take(80)
            reader.next_ends()
            expected.check_run(old, batches, 10, epochs=2)


def test_replaced_file_of_the_same_size():
    """Only its content tells: what is warm from before must not be handed out."""
    with serve() as feedd:
        consumer.read(feedd, "numbers", 10)
        replace(feedd.path, 500, 32)
        feedd.ctl("reload")
        expected.check_run(content(feedd), consumer.read(feedd, "numbers", 10), 10)


def test_loaders_that_are_replaced_after_a_reload_read_the_old_data():
    with serve(ring="64K") as feedd:
        old = content(feedd)
        with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=3) as reader:
            reader.attached()
            batches = reader.take(5)
            replace(feedd.path, 500, 32)
            feedd.ctl("reload")
            for pid in feedd.children():
                harness.kill(pid)
            batches += reader.take(145)
            expected.check_run(old, batches, 10, epochs=3)


def check_broken(instance, *parts):
    """Reloading is refused with a sentence that contains these parts, and everything continues as before."""
    before = instance.descriptors()
    done = instance.ctl("reload", check=False)
    assert done.returncode == 1, done
    for part in parts:
        assert str(part) in done.stderr, f"nothing of {part!r} in {done.stderr}"
    os.kill(instance.process.pid, signal.SIGHUP)
    harness.eventually(lambda: instance.read_log().count("everything stays as it was") == 2, 5, "a word in the log")
    assert any(str(parts[0]) in line for line in instance.status()["last_errors"]), instance.status()
    assert names(instance) == ["numbers"]
    instance.check_descriptors(before)
    expected.check_run(content(instance), consumer.read(instance, "numbers", 10), 10)


def test_broken_configuration_changes_nothing():
    with serve() as feedd:
        text = feedd.config.read_text() + "[dataset others]\nformat = records\ncolour = blue\n"
        feedd.write_config(text)
        check_broken(feedd, "colour", f"{feedd.config}:{len(text.splitlines())}")


def test_missing_configuration_changes_nothing():
    with serve() as feedd:
        feedd.config.unlink()
        check_broken(feedd, feedd.config, "No such file")


def test_missing_data_file_changes_nothing():
    """Of the datasets that are all right none is swapped in either."""
    with serve() as feedd:
        data.add_records(feedd, "others", samples=100, size=8)
        feedd.add_dataset("third", format="records", path="nowhere.bin", record_bytes=8, field_x="u8[8] @ 0")
        feedd.write_config()
        check_broken(feedd, "nowhere.bin", "third")


def test_settings_that_change():
    with serve(ring_memory="64M") as feedd:
        feedd.settings["ring_memory"] = "1M"
        feedd.settings["log_level"] = "debug"
        feedd.settings["socket"] = "/tmp/elsewhere.sock"
        feedd.write_config()
        done = feedd.ctl("reload")
        assert done.stdout.splitlines()[1:] == ["  ring_memory = 1M (was 64M)", "  log_level = debug (was info)"], done
        said = f"socket = /tmp/elsewhere.sock takes effect after a restart; still listening on {feedd.socket}"
        assert done.stderr == f"feedctl: warning: {said}\n", done
        assert feedd.status()["ring_memory"] == 1 << 20
        assert feedd.statistics()["ring_memory"] == 1 << 20
        assert f"warning: reloaded: {said}\n" in feedd.read_log()
        feedd.settings["socket"] = "/tmp/other.sock"
        feedd.write_config()
        assert f"still listening on {feedd.socket}" in feedd.ctl("reload").stderr
        consumer.refused(feedd, "ENOSPC", "ring_memory", batch_size=100, ring_bytes=8 << 20)


def test_reloading_again_and_again_under_consumers():
    with serve() as feedd:
        reader = consumer.Consumer(feedd, "numbers", 10, epochs=20, sleep_us=500)
        reader.attached()
        before = feedd.descriptors()
        count = 0
        while reader.process.poll() is None and count < 200:
            os.kill(feedd.process.pid, signal.SIGHUP)
            if count % 5 == 0:
                feedd.ctl("reload", check=False)
            count += 1
        expected.check_run(content(feedd), reader.finish(), 10, epochs=20)
        assert count > 20
        feedd.check_descriptors(before)


def test_reload_from_many_at_once():
    """One is in progress, and the others are told so; nobody waits indefinitely."""
    with serve() as feedd:
        results = []

        def reload():
            results.append(feedd.ctl("reload", check=False))

        threads = [threading.Thread(target=reload) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert any(done.returncode == 0 for done in results)
        assert all(done.returncode == 0 or "under way" in done.stderr for done in results), results


def test_asker_that_goes_away():
    with serve() as feedd:
        for _ in range(20):
            with feedd.client() as session:
                session.hello()
                session.send("command", kind=0)
        harness.eventually(lambda: feedd.ctl("reload", check=False).returncode == 0, 5, "a reload")


def test_hangup_during_a_reload_is_not_lost():
    """The reload under way may have read the text that was there before: the newer one comes into force after it."""
    with serve() as feedd:
        old = feedd.config.read_text()
        feedd.config.unlink()
        os.mkfifo(feedd.config)  # so that the reload waits for its text
        os.kill(feedd.process.pid, signal.SIGHUP)
        writer = harness.eventually(lambda: open_for_writing(feedd.config), 5, "the reload reads its configuration")
        os.kill(feedd.process.pid, signal.SIGHUP)
        feedd.status()  # it has seen the signal by now
        data.add_records(feedd, "others", samples=100, size=8)
        feedd.config.unlink()
        feedd.write_config()
        with os.fdopen(writer, "w") as text:
            text.write(old)
        harness.eventually(lambda: len(names(feedd)) == 2, 5, "the newer configuration")


def open_for_writing(fifo):
    """None while nobody reads it."""
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        assert error.errno == errno.ENXIO, error
        return None
