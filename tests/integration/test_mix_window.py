"""Mixes of sources with shuffle windows: each gives its samples in the order in which it would by itself."""

import contextlib

import consumer
import expected
import mixes
import test_window

EPOCH = 700
WEIGHTS = (2, 1, 3)


def serve(**settings):
    """A mix "both" of files, a range of them in windows of its own, and records without windows."""
    instance = test_window.serve(**settings)
    instance.add_view("range", "numbers", samples="100..450", shuffle_window=4)
    plain = mixes.add_source(instance, "plain", 90, 3)
    instance.names = ("numbers", "range", "plain")
    instance.add_mix("both", dict(zip(instance.names, WEIGHTS)), EPOCH)
    ranged = expected.Shuffled(4, test_window.FILES, 100, 350)
    sources = [
        expected.Source(test_window.content(), windows=test_window.TWO),
        expected.Source(test_window.content(100, 350), windows=ranged),
        expected.Source(plain),
    ]
    instance.mixed = expected.Mixed(sources, WEIGHTS, EPOCH)
    return instance


def test_every_source_keeps_its_order():
    with serve().start() as feedd:
        for options in ({"seed": 5}, {"seed": 6, "batch_size": 64}, {"shuffle": False}):
            mixes.check(feedd, epochs=3, **options)


def test_resuming_with_another_world_size():
    with serve().start() as feedd:
        run = {"shuffle": True, "seed": 5, "epochs": 2}
        token = mixes.resume_after(feedd, 30, world_size=1, **run)
        with contextlib.ExitStack() as stack:
            ranks = [
                stack.enter_context(consumer.Consumer(feedd, "both", 10, resume=token, rank=rank, world_size=3, **run))
                for rank in range(3)
            ]
            batches = [batch for reader in ranks for batch in reader.finish()]
        feedd.mixed.check(batches, True, 5)
        places = sorted((batch["epoch"], sample) for batch in batches for sample in batch["samples"])
        assert places == [(0, place) for place in range(300, EPOCH)] + [(1, place) for place in range(EPOCH)]


def test_tokens_of_other_windows():
    with serve().start() as feedd:
        token = mixes.resume_after(feedd, 30, shuffle=True, seed=5)
        feedd.datasets["numbers"]["shuffle_window"] = 3
        feedd.write_config()
        feedd.ctl("reload")
        consumer.refused(feedd, "ESTALE", "shuffle_window", dataset="both", shuffle=True, seed=5, resume=token)


def test_what_feedctl_can_verify():
    with serve().start() as feedd:
        for shuffle, epochs in ((), 1), (("--shuffle", "--seed=5"), 3):
            run = "--batch-size=50", f"--epochs={epochs}", *shuffle
            said = feedd.ctl("read", "both", "--verify", *run).stdout
            assert f"verified {epochs * EPOCH} samples" in said and "all bytes equal to the files'" in said, said
        # A file that has the bytes of another one, which the loaders do not see.
        path = feedd.directory / "part5.bin"
        content = (feedd.directory / "part2.bin").read_bytes()[: path.stat().st_size]
        path.unlink()
        path.write_bytes(content)
        done = feedd.ctl("read", "both", "--verify", *run, check=False)
        assert done.returncode == 1 and "differs at byte 0: " in done.stderr and f"{path} has " in done.stderr, done
