"""Mixes with ragged fields of which samples cannot be read: left out or replaced from the same source."""

import os

import consumer
import expected
import harness
import test_errors
import test_folder
import test_tar

EPOCH = 300
BAD = {"cats": {1, 5, 6, 59}, "dogs": set(range(40, 90))}
FIELDS = {"field_image": "bytes @ file", "field_label": "i64 @ class"}


def add_folder(instance, name, count, step):
    root = instance.directory / name
    test_folder.write(root, {f"{i % 2}/{i:04}": bytes([i]) * (i * step % 3000) for i in range(count)})
    instance.add_dataset(name, format="folder", path=root, **FIELDS)
    samples = test_folder.in_order(root)
    images = [test_folder.read(root, path) for _, _, path in samples]
    return {"image": expected.Ragged(images), "label": [number.to_bytes(8, "little") for number, _, _ in samples]}


def serve(on_error, **settings):
    """Of cats, of dogs and of some dogs, a mix in which BAD of each cannot be read."""
    instance = harness.Instance(**{"ring": "64K", "loader_timeout": 5, **settings})
    cats, dogs = add_folder(instance, "cats", 60, 89), add_folder(instance, "dogs", 100, 57)
    instance.add_view("some", "dogs", samples="10..70", split_seed=2)
    instance.add_mix("both", {"cats": 2, "dogs": 1, "some": 1}, EPOCH, on_error=on_error)
    chosen = expected.selected(100, 10, 60, 2)
    sources = [expected.Source(content) for content in (cats, dogs, expected.view(dogs, 10, 70, 2))]
    instance.mixed = expected.Mixed(sources, (2, 1, 1), EPOCH)
    instance.bad = [BAD["cats"], BAD["dogs"], {place for place, sample in enumerate(chosen) if sample in BAD["dogs"]}]
    instance.start().indexed()
    for name, numbers in BAD.items():
        root = instance.directory / name
        paths = [path for _, _, path in test_folder.in_order(root)]
        for number in numbers:
            os.unlink(os.path.join(os.fsencode(root), paths[number]))
    return instance


def check_skipped(feedd, batches, batch_size, shuffle, seed):
    """What is missing of each batch is what cannot be read."""
    mixed = feedd.mixed
    for batch in batches:
        due = range(batch["first"], min(batch["first"] + batch_size, EPOCH))
        drawn = {position: mixed.at(batch["epoch"], position) for position in due}
        left = [position for position, (at, number) in drawn.items()
                if mixed.sources[at].sample(number, shuffle, seed) not in feedd.bad[at]]  # fmt: skip
        assert batch["samples"] == left and batch["skipped"] == len(due) - len(left), (batch, left)
    mixed.check(batches, shuffle, seed)
    return sum(batch["skipped"] for batch in batches)


def test_samples_are_left_out():
    for reader in test_tar.READERS:
        with serve("skip", io=reader) as feedd:
            count = 0
            for batch_size, options in ((7, {"seed": 0}), (64, {"shuffle": True, "seed": 3, "epochs": 2})):
                batches = consumer.read(feedd, "both", batch_size, **options)
                count += check_skipped(feedd, batches, batch_size, options.get("shuffle", False), options["seed"])
            assert count > 100
            found = test_errors.counted(feedd, "skipped", count, "both")
            assert (found["replaced"], found["fatal"]) == (0, 0), found
            assert {sample["dataset"] for sample in found["samples"]} == {"cats", "dogs"}, found


def test_samples_are_replaced():
    for reader in test_tar.READERS:
        with serve("replace", io=reader) as feedd:
            for batch_size, options in ((7, {}), (64, {"shuffle": True, "seed": 3, "epochs": 2})):
                batches = consumer.read(feedd, "both", batch_size, **options)
                expected.check_places(EPOCH, batches, batch_size, epochs=options.get("epochs", 1))
                shuffle, seed = options.get("shuffle", False), options.get("seed", 0)
                assert feedd.mixed.check(batches, shuffle, seed, feedd.bad) > 50
                run = [f"--batch-size={batch_size}", f"--epochs={options.get('epochs', 1)}", f"--seed={seed}"]
                done = feedd.ctl("read", "both", "--verify", *run, *["--shuffle"] * shuffle)
                assert "samples were replaced by others" in done.stdout, done
            found = test_errors.counted(feedd, "replaced", 1, "both")
            assert (found["skipped"], found["fatal"]) == (0, 0), found


def test_on_a_gpu():
    for on_error in ("skip", "replace"):
        with serve(on_error) as feedd:
            batches = consumer.read(feedd, "both", 9, shuffle=True, seed=5, epochs=2, device="host:0")
            if on_error == "skip":
                check_skipped(feedd, batches, 9, True, 5)
            else:
                assert feedd.mixed.check(batches, True, 5, feedd.bad) > 50


def test_loaders_that_are_killed():
    for on_error in ("skip", "replace"):
        with serve(on_error, loaders=2) as feedd:
            with consumer.Consumer(feedd, "both", 9, step=True, shuffle=True, seed=4, epochs=8) as reader:
                reader.attached()
                batches = []
                for turn in range(20):
                    batches += reader.take(3)
                    for pid in feedd.children_called("loader")[turn % 2 :][:1]:
                        harness.kill(pid)
                batches += reader.take(8 * -(-EPOCH // 9) - len(batches))
                reader.next_ends()
            if on_error == "skip":
                check_skipped(feedd, batches, 9, True, 4)
            else:
                assert feedd.mixed.check(batches, True, 4, feedd.bad) > 200
