"""Views that take a part of a list, and draw by weight from a part of their dataset, from a list, or from a part of it."""

import collections
import json
import os

import consumer
import data
import expected
import harness
import test_indices
import test_weights

SAMPLES, SIZE = 1000, 24
WEIGHTS = test_weights.some()
LIST = test_indices.some(700, seed=8)  # some samples are there three times and more
PARTS = {"train": ("0%..90%", 0, 630), "val": ("90%..", 630, 700)}
SPLIT = {"samples": "10%..60%", "split_seed": 3}
# What is combined with weights, and the samples that it chooses.
COMBINED = {
    "range": ({"samples": "250..750"}, expected.chosen(SAMPLES, 250, 750)),
    "split": (SPLIT, expected.chosen(SAMPLES, 100, 600, 3)),
    "permuted": ({"split_seed": 3}, range(SAMPLES)),
    "listed": ({"indices": "list.npy"}, LIST),
    "cut": ({"samples": "..100", "indices": "list.npy"}, LIST[:100]),
    "all": ({"indices": "list.npy", **SPLIT}, expected.chosen(SAMPLES, 70, 420, 3, LIST)),
}


def serve(**settings):
    instance = harness.Instance(**settings)
    instance.path = data.add_records(instance, samples=SAMPLES, size=SIZE)
    instance.list, instance.weights = instance.directory / "list.npy", instance.directory / "weights.npy"
    test_indices.write_indices(instance.list, LIST)
    test_weights.write_weights(instance.weights, WEIGHTS)
    return instance


def add_parts(instance, **options):
    for name, (part, _, _) in PARTS.items():
        instance.add_view(name, "numbers", indices="list.npy", samples=part, **options)


def add_drawn(instance, **more):
    for name, (options, _) in COMBINED.items():
        instance.add_view(name, "numbers", weights="weights.npy", **options, **more)


def content(instance, chosen=None):
    whole = expected.read_records([instance.path], SIZE, {"x": (0, SIZE)})["x"]
    return {"x": whole if chosen is None else [whole[number] for number in chosen]}


def samples_in(instance, batches):
    """Which samples of the dataset batches of one sample hold."""
    numbers = {expected.crc({"x": [sample]}, [0])["x"]: number for number, sample in enumerate(content(instance)["x"])}
    return [numbers[batch["crc"]["x"]] for batch in batches]


def fingerprints(instance):
    return {row["name"]: row["fingerprint"] for row in json.loads(instance.ctl("datasets", "--json").stdout)}


def check_drawn(feedd, name, chosen, weights=WEIGHTS, count=None, seed=0, batch_size=7, **options):
    batches = consumer.read(feedd, name, batch_size, seed=seed, **options)
    expected.check_places(count or len(chosen), batches, batch_size, **options)
    expected.check_drawn(content(feedd), expected.weights_of_chosen(weights, chosen), batches, seed)


# ---- Parts of a list ---------------------------------------------------------------------------------------


def test_parts_of_a_list():
    for seed in (None, 3):
        with serve() as feedd:
            add_parts(feedd, **({} if seed is None else {"split_seed": seed}))
            feedd.start()
            for name, (_, begin, end) in PARTS.items():
                right = content(feedd, expected.chosen(SAMPLES, begin, end, seed, LIST))
                for order in ({}, {"shuffle": True, "seed": 9, "epochs": 2}):
                    expected.check_run(right, consumer.read(feedd, name, 7, **order), 7, **order)
                said = feedd.ctl("read", name, "--epochs=1", "--shuffle", "--batch-size=99", "--verify").stdout
                assert "verified" in said, said
            assert "train: view of numbers, format records, 630 samples" in feedd.check().stdout


def test_parts_of_one_seed_divide_the_list():
    with serve() as feedd:
        add_parts(feedd, split_seed=3)
        feedd.start()
        found = [sample for name in PARTS for sample in samples_in(feedd, consumer.read(feedd, name, 1))]
        assert found != LIST and sorted(found) == sorted(LIST)


def test_a_whole_list_is_as_without_a_part():
    """Another order of it is another view, and one with the same samples in the same order has the same tokens."""
    with serve() as feedd:
        options = {"plain": {}, "whole": {"samples": "0%..100%"}, "other": {"samples": "..", "split_seed": 4}}
        for name, more in options.items():
            feedd.add_view(name, "numbers", indices="list.npy", **more)
        feedd.start()
        found = fingerprints(feedd)
        assert found["plain"] == found["whole"] != found["other"], found
        expected.check_run(content(feedd, expected.chosen(SAMPLES, 0, 700, 4, LIST)), consumer.read(feedd, "other", 7), 7)


def test_a_part_of_a_list_longer_than_the_dataset():
    """More numbers than are looked up at once."""
    longer = test_indices.some(30000)
    with serve() as feedd:
        test_indices.write_indices(feedd.list, longer, "<u2")
        feedd.add_view("some", "numbers", indices="list.npy", samples="33.3333%..100%", split_seed=7)
        feedd.start()
        chosen = expected.chosen(SAMPLES, 9999, 30000, 7, longer)
        expected.check_run(content(feedd, chosen), consumer.read(feedd, "some", 512), 512)


def test_a_part_of_a_list_whose_processes_die():
    with serve() as feedd:
        add_parts(feedd, split_seed=3)
        feedd.start()
        batches = consumer.read_through_kills(feedd, "train", 10, 63, shuffle=True, epochs=1)
        expected.check_run(content(feedd, expected.chosen(SAMPLES, 0, 630, 3, LIST)), batches, 10, shuffle=True)


def test_a_part_of_a_list_resumes_with_another_world_size():
    order = {"epochs": 2, "shuffle": True, "seed": 5}
    with serve() as feedd:
        add_parts(feedd, split_seed=3)
        feedd.start()
        together = resumed(feedd, "train", 31, order)
        expected.check_bytes(content(feedd, expected.chosen(SAMPLES, 0, 630, 3, LIST)), together)
        assert expected.check_exactly_once(630, together) == 2


def resumed(feedd, name, count, order):
    """Some batches of one consumer, and the rest of its run by three ranks."""
    with consumer.Consumer(feedd, name, 10, step=True, **order) as reader:
        reader.attached()
        together = reader.take(count)
        token = reader.token()
    for rank in range(3):
        together += consumer.read(feedd, name, 10, resume=token, rank=rank, world_size=3, local_world_size=1, **order)
    return together


def test_show_numbers_a_part_of_a_list_from_0():
    with serve() as feedd:
        add_parts(feedd, split_seed=3)
        feedd.start()
        chosen = expected.chosen(SAMPLES, 630, 700, 3, LIST)
        shown = json.loads(feedd.ctl("show", "val", "69", "--json").stdout)
        original = json.loads(feedd.ctl("show", "numbers", str(chosen[69]), "--json").stdout)
        values = [sample["samples"][0]["fields"] if "samples" in sample else sample["fields"] for sample in (shown, original)]
        assert values[0] == values[1], (shown, original)


# ---- Draws -------------------------------------------------------------------------------------------------


def test_draws_of_what_is_chosen():
    with serve() as feedd:
        add_drawn(feedd)
        feedd.start()
        for name, (_, chosen) in COMBINED.items():
            check_drawn(feedd, name, chosen, epochs=3, seed=9)
            said = feedd.ctl("read", name, "--epochs=2", "--batch-size=99", "--verify", "--seed=7").stdout
            assert "verified" in said and "equal to the files'" in said, said
        said = feedd.check().stdout
        assert "cut: view of numbers, drawn by weight, format records, 100 samples of 24 bytes" in said, said


def test_an_epoch_of_another_length():
    with serve() as feedd:
        add_drawn(feedd, epoch_samples=4321)
        feedd.start()
        for name, (_, chosen) in COMBINED.items():
            check_drawn(feedd, name, chosen, count=4321, batch_size=100)


def test_draws_have_the_distribution_of_what_is_chosen():
    """Nothing else is ever drawn. The seed is fixed, so the figure is the same at each run."""
    draws = 40_000
    with serve() as feedd:
        add_drawn(feedd, epoch_samples=draws)
        feedd.start()
        for name in ("split", "all"):
            chosen = COMBINED[name][1]
            found = collections.Counter(samples_in(feedd, consumer.read(feedd, name, 1, seed=2)))
            due = {sample: WEIGHTS[sample] * times for sample, times in collections.Counter(chosen).items() if WEIGHTS[sample]}
            assert set(found) <= set(due), set(found) - set(due)
            total = sum(due.values())
            often = {sample: draws * weight / total for sample, weight in due.items() if draws * weight / total >= 5}
            excess = sum((found[sample] - wanted) ** 2 / wanted for sample, wanted in often.items()) - len(often)
            assert len(often) > 200 and abs(excess) < 4 * (2 * len(often)) ** 0.5, (name, excess, len(often))


def test_weights_of_any_size_times_how_often():
    """Their products are exact, however many digits the weights have."""
    cases = [("<u8", [(1 << 64) - 1, 3, (1 << 63) + 1, 0, 1]), ("|u1", [255, 1, 254, 0, 3]),
             ("<f8", [1e308, 5e-324, 1.7976931348623157e308, 0, 1]), ("<f2", [65504.0, 2.0**-24, 0.5, 0, 1])]  # fmt: skip
    indices = [0] * 3 + [1] * 200 + [2] * 7 + [3] * 5
    for descr, weights in cases:
        with harness.Instance() as feedd:
            feedd.path = data.add_records(feedd, samples=5, size=SIZE)
            test_weights.write_weights(feedd.directory / "weights.npy", weights, descr)
            test_indices.write_indices(feedd.directory / "list.npy", indices)
            feedd.add_view("drawn", "numbers", weights="weights.npy", indices="list.npy", epoch_samples=3000)
            feedd.start()
            check_drawn(feedd, "drawn", indices, weights, count=3000, batch_size=100)


def test_draws_whose_processes_die():
    with serve() as feedd:
        add_drawn(feedd)
        feedd.start()
        batches = consumer.read_through_kills(feedd, "all", 10, 35, epochs=1, seed=4)
        expected.check_places(350, batches, 10)
        expected.check_drawn(content(feedd), expected.weights_of_chosen(WEIGHTS, COMBINED["all"][1]), batches, 4)


def test_draws_resume_with_another_world_size():
    with serve() as feedd:
        add_drawn(feedd)
        feedd.start()
        together = resumed(feedd, "all", 20, {"epochs": 2, "seed": 11})
        expected.check_drawn(content(feedd), expected.weights_of_chosen(WEIGHTS, COMBINED["all"][1]), together, 11)
        assert expected.check_exactly_once(350, together) == 2


def test_a_mix_of_a_part_of_a_list_and_draws():
    with serve() as feedd:
        add_parts(feedd, split_seed=3)
        add_drawn(feedd)
        feedd.add_mix("both", {"train": 2, "all": 1}, 900)
        feedd.start()
        sources = [
            expected.Source(content(feedd, expected.chosen(SAMPLES, 0, 630, 3, LIST))),
            expected.Source(content(feedd), expected.weights_of_chosen(WEIGHTS, COMBINED["all"][1]), 350),
        ]
        batches = consumer.read(feedd, "both", 10, shuffle=True, seed=3, epochs=2)
        expected.Mixed(sources, [2, 1], 900).check(batches, shuffle=True, seed=3)


# ---- Changes -----------------------------------------------------------------------------------------------


def test_views_that_choose_differently_are_told_apart():
    with serve() as feedd:
        add_parts(feedd, split_seed=3)
        add_drawn(feedd, epoch_samples=100)
        feedd.add_view("drawn", "numbers", weights="weights.npy", epoch_samples=100)
        feedd.start()
        found = fingerprints(feedd)
        assert len(set(found.values())) == len(found), found
        with consumer.Consumer(feedd, "split", 10, step=True) as reader:
            reader.attached()
            reader.take(2)
            token = reader.token()
        for name in ("drawn", "range", "listed"):
            consumer.refused(feedd, "ESTALE", dataset=name, resume=token)


def test_a_list_that_has_changed():
    """A feed in use keeps its samples; its tokens are of another view now. Weights may change."""
    second, other = list(reversed(LIST[1:])) + [0], test_weights.some(seed=2)
    with serve() as feedd:
        add_parts(feedd, split_seed=3)
        add_drawn(feedd)
        feedd.start()
        order = {"epochs": 2, "seed": 6}
        with consumer.Consumer(feedd, "train", 10, step=True, **order) as listed:
            with consumer.Consumer(feedd, "all", 10, step=True, **order) as drawn:
                listed.attached()
                drawn.attached()
                batches, draws = listed.take(3), drawn.take(3)
                tokens = {"train": listed.token(), "all": drawn.token()}
                test_weights.write_weights(feedd.weights, other)
                feedd.ctl("reload")
                rest = consumer.read(feedd, "all", 10, resume=tokens["all"], **order)
                assert rest[0]["first"] == 30
                weights = expected.weights_of_chosen(other, COMBINED["all"][1])
                expected.check_drawn(content(feedd), weights, rest, 6)
                test_indices.write_indices(feedd.list, second)
                feedd.ctl("reload")
                batches += listed.take(123)
                draws += drawn.take(67)
                expected.check_run(content(feedd, expected.chosen(SAMPLES, 0, 630, 3, LIST)), batches, 10, epochs=2)
                weights = expected.weights_of_chosen(WEIGHTS, COMBINED["all"][1])
                expected.check_drawn(content(feedd), weights, draws, 6)
        for name, token in tokens.items():
            consumer.refused(feedd, "ESTALE", dataset=name, resume=token, **order)
        right = content(feedd, expected.chosen(SAMPLES, 0, 630, 3, second))
        expected.check_run(right, consumer.read(feedd, "train", 7), 7)
        check_drawn(feedd, "all", expected.chosen(SAMPLES, 70, 420, 3, second), other)


def test_a_part_that_has_changed():
    with serve() as feedd:
        add_drawn(feedd)
        feedd.start()
        feedd.add_view("all", "numbers", weights="weights.npy", indices="list.npy", samples="10%..60%", split_seed=4)
        feedd.write_config()
        said = feedd.ctl("reload").stdout
        assert "view all: changed (split_seed); feeds in use keep the old version" in said, said
        check_drawn(feedd, "all", expected.chosen(SAMPLES, 70, 420, 4, LIST))


# ---- What is refused ---------------------------------------------------------------------------------------


def refuse(key, *parts, weights=None, status=1, **options):
    with serve() as instance:
        if weights:
            test_weights.write_weights(instance.weights, weights)
            options["weights"] = "weights.npy"
        instance.add_view("some", "numbers", **options)
        done = instance.check()
        assert done.returncode == status and len(done.stderr.splitlines()) == 1, done
        for part in (f"[view some] {key}: ", *parts):
            assert part in done.stderr, f"no {part!r} in {done.stderr!r}"


def test_parts_that_a_list_does_not_have():
    listed = {"indices": "list.npy"}
    refuse("samples", 'found "..701", wanted a part of the 700 sample numbers in ', "list.npy", samples="..701", **listed)
    refuse("samples", 'found "5..5", which is empty, wanted a part of the 700', samples="5..5", split_seed=1, **listed)
    refuse("samples", 'found "..701"', weights=WEIGHTS, samples="..701", **listed)
    refuse("samples", 'found "..1001", wanted a part of the 1000 samples of dataset numbers', weights=WEIGHTS, samples="..1001")


def test_a_part_without_weight():
    first = [1.0] * 500 + [0.0] * 500
    wanted = "wanted at least one above 0"
    said = f"found weights of 0 for all of the 500 samples that the view chooses, {wanted}"
    refuse("weights", "weights.npy: ", said, weights=first, samples="500..")
    chosen = expected.chosen(SAMPLES, 0, 300, 5)
    others = [float(sample not in chosen) for sample in range(SAMPLES)]
    refuse("weights", "for all of the 300 samples", wanted, weights=others, samples="..300", split_seed=5)
    unlisted = [float(sample not in LIST) for sample in range(SAMPLES)]
    refuse("weights", "for all of the 700 samples", wanted, weights=unlisted, indices="list.npy")


def test_numbers_that_are_wrong_outside_of_the_part():
    with serve() as feedd:
        test_indices.write_indices(feedd.list, [*LIST, SAMPLES])
        feedd.add_view("some", "numbers", indices="list.npy", samples="..10")
        feedd.add_view("more", "numbers", weights="weights.npy", samples="..10")
        assert f"[view some] indices: {feedd.list}: found sample number 1000 at index 700" in feedd.check().stderr
    refuse("weights", "found weight nan at index 999", weights=[*WEIGHTS[:-1], float("nan")], samples="..10")
    refuse("weights", "found 999 weights, wanted 1000", weights=WEIGHTS[:-1], samples="..999")


def test_windows_are_refused():
    for more in ({"weights": WEIGHTS}, {"indices": "list.npy"}):
        refuse("shuffle_window", "wanted one of them", status=os.EX_CONFIG, shuffle_window=2, samples="..10", **more)
