"""Views of feedd.conf share the files and the index of their dataset, however many views there are."""

import os
import signal
import struct

import consumer
import data
import expected
import fuse
import harness
import mixes
import test_indexing
import test_ragged
import test_tar

SAMPLES = 4000
SHARD = [(f"{i:05}", {"jpg": bytes([i % 251]) * (i % 9), "cls": b"%d" % i}) for i in range(SAMPLES)]
PARTS = [(f"part{i}", i * 500, (i + 1) * 500) for i in range(8)]
MADE = " made in "


def serve(**settings):
    instance = harness.Instance(linger=0, **settings)
    test_tar.write(instance.directory / "s.tar", SHARD)
    instance.add_dataset("wds", format="tar", path=instance.directory / "s.tar", field_jpg="bytes", field_cls="i32")
    for name, begin, end in PARTS:
        instance.add_view(name, "wds", samples=f"{begin}..{end}")
    return instance


def check_parts(feedd, shard=SHARD):
    for name, begin, end in (PARTS[0], PARTS[5]):
        expected.check_run(test_ragged.content_of(shard[begin:end]), consumer.read(feedd, name, 50), 50)


def descriptors(feedd, of):
    """Inodes and sizes of the daemon's descriptors for a file, or for memory, of that name."""
    opened = harness.open_files(feedd.process.pid)
    return [(found.st_ino, found.st_size) for _, target, found in opened if of in target]


def indices(feedd):
    return set(descriptors(feedd, "memfd:feedd-index"))


def mapped_indices(feedd):
    """Resident bytes of the indices that the daemon has mapped."""
    found, of_index = 0, False
    with open(f"/proc/{feedd.process.pid}/smaps") as lines:
        for line in lines:
            first, *rest = line.split()
            if not first.endswith(":"):
                of_index = "memfd:feedd-index" in line
            elif of_index and first == "Rss:":
                found += int(rest[0]) << 10
    return found


def test_files_are_indexed_once_and_the_index_is_there_once():
    """Without index_folder, an index that is not shared would have to be made again."""
    with serve() as feedd:
        feedd.start().indexed()
        check_parts(feedd)
        log = feedd.read_log()
        assert log.count(MADE) == 1 and log.count("the index is that of dataset wds") == len(PARTS), log
        ((_, size),) = indices(feedd)
        assert size > 16 * SAMPLES and 0 < mapped_indices(feedd) < size + 8192, (mapped_indices(feedd), size)
        assert len(descriptors(feedd, str(feedd.directory / "s.tar"))) == 1
        shown = feedd.check().stdout
        assert shown.count(MADE) == 1 and shown.count("the index is that of dataset wds") == len(PARTS), shown


def test_a_view_in_use_keeps_what_it_shares_across_a_reload():
    changed = [(key, {**members, "cls": b"7"}) for key, members in SHARD]
    with serve() as feedd:
        feedd.start().indexed()
        with consumer.Consumer(feedd, "part0", 50, step=True, epochs=1) as reader:
            reader.attached()
            batches = reader.take(1)
            (old,) = indices(feedd)
            test_tar.write(feedd.directory / "new.tar", changed)
            os.replace(feedd.directory / "new.tar", feedd.directory / "s.tar")
            feedd.ctl("reload")
            assert len(indices(feedd)) == 2 and old in indices(feedd)  # the feed has one, and all datasets another
            check_parts(feedd, changed)
            expected.check_run(test_ragged.content_of(SHARD[:500]), batches + reader.take(9), 50)
            reader.next_ends()
        harness.eventually(lambda: len(indices(feedd)) == 1 and old not in indices(feedd), 10, "the old index is gone")


def test_sources_of_a_mix_share_it():
    with serve() as feedd:
        feedd.add_mix("both", {"part0": 1, "part7": 1}, 1000)
        feedd.start().indexed()
        sources = [expected.Source(test_ragged.content_of(SHARD[begin:end])) for _, begin, end in (PARTS[0], PARTS[7])]
        mixes.check(feedd, mixed=expected.Mixed(sources, [1, 1], 1000), epochs=1)
        assert len(indices(feedd)) == 1 and feedd.read_log().count(MADE) == 1


def test_views_wait_for_their_dataset():
    """So does a mix of one of them."""
    with test_indexing.slow_instance() as feedd:
        feedd.add_view("late", "wds", samples="..40", pad_jpg=test_tar.ROOM)
        feedd.add_mix("mixed", {"late": 1}, 100)
        feedd.start()
        test_indexing.half_way(feedd)
        for name in ("late", "mixed"):
            assert test_indexing.row(feedd, name)["state"] == "queued"
        feedd.storage.answer_held()
        for name in ("wds", "late", "mixed"):
            test_indexing.ready(feedd, name)
        assert feedd.read_log().count(MADE) == 1


def test_views_fail_with_their_dataset_and_return_with_it():
    with harness.Instance() as feedd:
        content = test_tar.add_shards(feedd, [test_tar.some(30)])
        feedd.add_view("head", "wds", samples="..10")
        feedd.add_mix("mixed", {"head": 1}, 100)
        path = feedd.directory / "wds-0.tar"
        whole = path.read_bytes()
        path.write_bytes(whole[:2000])
        feedd.start()
        for name in ("wds", "head", "mixed"):
            harness.eventually(lambda name=name: test_indexing.row(feedd, name)["state"] == "failed", 10, "it has failed")
            assert "wds-0.tar: found 2000 bytes in the file" in test_indexing.row(feedd, name)["problem"]
        path.write_bytes(whole)
        done = feedd.ctl("index", "mixed")  # builds what it is made of first
        assert "the mix is ready" in done.stdout, done
        for name in ("wds", "head"):
            assert test_indexing.row(feedd, name)["state"] == "open"
        assert feedd.read_log().count(MADE) == 1
        test_tar.check(feedd, {name: values[:10] for name, values in content.items()}, name="head")


def test_feedctl_index_still_looks_at_the_files_of_a_view():
    with serve() as feedd:
        feedd.start().indexed()
        assert "the index fits its files" in feedd.ctl("index", "part3").stdout
        test_tar.write(feedd.directory / "s.tar", [(key, {**members, "cls": b"7"}) for key, members in SHARD])
        assert "its files have changed since feedd opened them" in feedd.ctl("index", "part3").stdout
        harness.eventually(lambda: len(indices(feedd)) == 1, 5, "what was opened to be checked is closed")


def serve_slow_view():
    """A feedd whose view is being made: the view's list of indices is on storage that does not answer yet."""
    instance = serve()
    listed = instance.directory / "listed.npy"
    data.write_npy(listed, "<i8", (SAMPLES,), struct.pack(f"<{SAMPLES}q", *range(SAMPLES)))
    instance.storage = fuse.Fuse("listed.npy", listed.read_bytes(), direct=True)
    instance.storage.hold(lambda offset: True)
    instance.add_view("slow", "wds", indices=instance.storage.path)
    instance.start()
    harness.eventually(lambda: instance.storage.held, 10, "the list is being read")
    return instance


def test_a_dataset_is_removed_while_its_view_is_made():
    with serve_slow_view() as feedd:
        feedd.datasets.clear()
        feedd.views.clear()
        test_indexing.add_numbers(feedd)
        feedd.write_config()
        feedd.ctl("reload")
        assert len(indices(feedd)) == 1  # that of the view being made
        feedd.storage.answer_held()
        harness.eventually(lambda: not indices(feedd) and not descriptors(feedd, "s.tar"), 10, "all of it is closed")
        test_indexing.read_numbers(feedd)


def test_a_dataset_is_replaced_while_its_view_is_made():
    """The view that was being made is given up, and the one that is served has the new files."""
    changed = [(key, {**members, "cls": b"7"}) for key, members in SHARD]
    with serve_slow_view() as feedd:
        (old,) = indices(feedd)
        del feedd.views["slow"]
        feedd.write_config()
        test_tar.write(feedd.directory / "new.tar", changed)
        os.replace(feedd.directory / "new.tar", feedd.directory / "s.tar")
        feedd.ctl("reload")
        check_parts(feedd, changed)
        assert old in indices(feedd)
        feedd.storage.answer_held()
        harness.eventually(lambda: len(indices(feedd)) == 1 and old not in indices(feedd), 10, "the old index is gone")
        check_parts(feedd, changed)


def test_the_daemon_ends_while_a_view_is_made():
    with serve_slow_view() as feedd:
        feedd.process.send_signal(signal.SIGTERM)
        harness.eventually(lambda: not feedd.socket.exists(), 5, "the daemon has cleaned up")
        feedd.storage.answer_held()  # the kernel ends no process whose thread waits for such a read
        assert feedd.wait(5) == 0
