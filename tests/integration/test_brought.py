"""Views that clients bring: splits, lists of sample numbers, and weights."""

import array
import itertools
import json
import random
import struct

import consumer
import data
import expected
import harness
import test_ragged
import test_tar

SAMPLES, SIZE = 1000, 24
INDICES = {"b": 3, "B": 2, "h": 5, "H": 4, "i": 7, "I": 6, "q": 9, "Q": 8}  # codes of array and struct: dtypes of feed.h
WEIGHTS = {**INDICES, "e": 10, "f": 12, "d": 13}


def serve(**settings):
    instance = harness.Instance(**settings)
    instance.path = data.add_records(instance, samples=SAMPLES, size=SIZE)
    return instance


def content(instance):
    return expected.read_records([instance.path], SIZE, {"x": (0, SIZE)})


def listed(instance, indices):
    whole = content(instance)["x"]
    return {"x": [whole[number] for number in indices]}


def some(count, seed=1):
    """Random sample numbers, some of them more than once."""
    dice = random.Random(seed)
    return [dice.randrange(SAMPLES) for _ in range(count)]


def some_weights(seed=1):
    """Random weights, every fourth of which is 0."""
    dice = random.Random(seed)
    return [dice.random() if number % 4 else 0.0 for number in range(SAMPLES)]


def split(begin, end, seed=None):
    bounds = f"{round(begin * 1e6)}:{round(end * 1e6)}"
    return f"range:{bounds}" if seed is None else f"split:{bounds}:{seed}"


def _file(instance, numbers, code):
    path = instance.directory / f"numbers-{random.randrange(1 << 60):x}"
    path.write_bytes(struct.pack(f"<{len(numbers)}{code}", *numbers))
    return path


def indices(instance, numbers, code="q"):
    return f"indices:{INDICES[code]}:{_file(instance, numbers, code)}"


def weights(instance, numbers, code="d", draws=0):
    return f"weights:{WEIGHTS[code]}:{draws}:{_file(instance, numbers, code)}"


def some_part(instance):
    """Weights with a list that names some samples several times, what feedd.conf says of the same, and what it chooses."""
    numbers = some(701, seed=8)
    data.write_npy(instance.directory / "list.npy", "<i8", (701,), struct.pack("<701q", *numbers))
    return indices(instance, numbers), {"indices": "list.npy"}, numbers


def parts(instance):
    """Of draws by weight: the views that they may be from."""
    yield split(0.25, 0.75), {"samples": "25%..75%"}, expected.chosen(SAMPLES, 250, 750)
    yield split(0.1, 0.6, 3), {"samples": "10%..60%", "split_seed": 3}, expected.chosen(SAMPLES, 100, 600, 3)
    yield split(0, 1, 3), {"split_seed": 3}, range(SAMPLES)
    yield some_part(instance)


def check_list(feedd, numbers, code="q", batch_size=7, **options):
    batches = consumer.read(feedd, "numbers", batch_size, view=indices(feedd, numbers, code), **options)
    expected.check_run(listed(feedd, numbers), batches, batch_size, **options)


# ---- The same samples as those of views in feedd.conf ------------------------------------------------------


def test_splits():
    with serve().start() as feedd:
        for begin, end, seed in ((0, 0.9, 3), (0.9, 1, 3), (0.25, 0.5, None), (0, 1, None), (0, 1, 8)):
            part = expected.view(content(feedd), round(begin * SAMPLES), round(end * SAMPLES), seed)
            for order in ({}, {"shuffle": True, "seed": 5, "epochs": 2}):
                batches = consumer.read(feedd, "numbers", 7, view=split(begin, end, seed), **order)
                expected.check_run(part, batches, 7, **order)


def test_samples_come_in_the_order_of_the_list():
    with serve().start() as feedd:
        check_list(feedd, some(333))
        check_list(feedd, some(333), epochs=3, shuffle=True, seed=9)


def test_every_type_of_integer():
    with serve().start() as feedd:
        for code in INDICES:
            most = min(SAMPLES, 1 << (8 * array.array(code).itemsize - code.islower())) - 1
            check_list(feedd, [most, 0, 5, most - 1, 5], code)


def test_lists_of_one_piece_and_more():
    """A piece holds 8000 numbers."""
    with serve().start() as feedd:
        for count in (1, 7999, 8000, 8001, 50000):
            check_list(feedd, some(count), batch_size=512, shuffle=True)


def test_samples_are_drawn_by_weight():
    numbers = some_weights()
    with serve().start() as feedd:
        for draws in (0, 123, 4000):
            batches = consumer.read(feedd, "numbers", 7, seed=9, epochs=2, view=weights(feedd, numbers, draws=draws))
            expected.check_places(draws or SAMPLES, batches, 7, epochs=2)
            expected.check_drawn(content(feedd), numbers, batches, 9)


def test_every_type_of_weight():
    with serve().start() as feedd:
        for code in WEIGHTS:
            most = 60000.0 if code in "efd" else (1 << (8 * array.array(code).itemsize - code.islower())) - 1
            numbers = [0, most, 1, 0] + [most // 3 + 1] * (SAMPLES - 4)
            batches = consumer.read(feedd, "numbers", 10, view=weights(feedd, numbers, code))
            expected.check_drawn(content(feedd), numbers, batches)


def test_a_configured_view_is_the_same():
    numbers, drawn = some(300), some_weights()
    with serve() as feedd:
        data.write_npy(feedd.directory / "list.npy", "<i8", (300,), struct.pack("<300q", *numbers))
        data.write_npy(feedd.directory / "weights.npy", "<f8", (SAMPLES,), struct.pack(f"<{SAMPLES}d", *drawn))
        feedd.add_view("listed", "numbers", indices="list.npy")
        feedd.add_view("drawn", "numbers", weights="weights.npy", epoch_samples=500)
        feedd.add_view("part", "numbers", samples="12.5%..", split_seed=4)
        feedd.start()
        order = {"shuffle": True, "seed": 3, "epochs": 2}
        for name, view in (
            ("listed", indices(feedd, numbers)), ("drawn", weights(feedd, drawn, draws=500)),
            ("part", split(0.125, 1, 4)),
        ):  # fmt: skip
            batches = [consumer.read(feedd, name, 10, **order), consumer.read(feedd, "numbers", 10, view=view, **order)]
            for batch in itertools.chain(*batches):
                del batch["slot"]  # whichever was free
            assert batches[0] == batches[1]


def test_draws_from_a_part_are_those_of_a_configured_view():
    drawn = some_weights()
    with serve() as feedd:
        data.write_npy(feedd.directory / "weights.npy", "<f8", (SAMPLES,), struct.pack(f"<{SAMPLES}d", *drawn))
        several = list(parts(feedd))
        for number, (_, options, _) in enumerate(several):
            feedd.add_view(f"view{number}", "numbers", weights="weights.npy", **options)
        feedd.start()
        order = {"seed": 3, "epochs": 2}
        for number, (part, _, chosen) in enumerate(several):
            view = f"{weights(feedd, drawn)}|{part}"
            configured = consumer.read(feedd, f"view{number}", 7, **order)
            batches = [configured, consumer.read(feedd, "numbers", 7, view=view, **order)]
            for batch in itertools.chain(*batches):
                del batch["slot"]
            assert batches[0] == batches[1]
            expected.check_places(len(chosen), batches[1], 7, epochs=2)
            expected.check_drawn(content(feedd), expected.weights_of_chosen(drawn, chosen), batches[1], 3)


def test_draws_from_a_part_in_one_piece_and_more():
    """Where the last piece begins with a weight, with how often samples count, and between them; and what odd numbers leave."""
    for samples in (1, 2, 5333, 5334, 6001, 8000, 16001):
        with harness.Instance() as feedd:
            path = data.add_records(feedd, samples=samples, size=8)
            feedd.start()
            numbers = [number % 5 + 1 for number in range(samples)]
            chosen = [number * 7 % samples for number in range(samples // 2 + 1)] + [samples - 1] * 3
            view = f"{weights(feedd, numbers, 'B', 500)}|{indices(feedd, chosen)}"
            batches = consumer.read(feedd, "numbers", 100, view=view)
            whole = expected.read_records([path], 8, {"x": (0, 8)})
            expected.check_drawn(whole, expected.weights_of_chosen(numbers, chosen), batches)


def test_samples_that_differ_in_length():
    with harness.Instance() as feedd:
        whole = test_ragged.add(feedd, test_tar.three_shards())
        feedd.start()
        count = len(whole["cls"])
        dice = random.Random(7)
        numbers = [dice.randrange(count) for _ in range(300)]
        part = {"jpg": expected.Ragged(whole["jpg"][i] for i in numbers), "cls": [whole["cls"][i] for i in numbers]}
        order = {"shuffle": True, "epochs": 2}
        batches = consumer.read(feedd, "wds", 7, view=indices(feedd, numbers), **order)
        expected.check_run(part, batches, 7, **order)
        batches = consumer.read(feedd, "wds", 7, view=split(0.25, 0.75, 3), **order)
        part = expected.view(whole, count * 25 // 100, count * 75 // 100, 3)
        expected.check_run(part, batches, 7, **order)
        drawn = [number % 5 for number in range(count)]
        batches = consumer.read(feedd, "wds", 7, view=weights(feedd, drawn, "B"))
        expected.check_drawn(whole, drawn, batches)


# ---- Places, and daemons that die --------------------------------------------------------------------------


def test_all_that_serves_a_view_dies():
    numbers, drawn = some(500), some_weights()
    with serve().start() as feedd:
        view = indices(feedd, numbers)
        batches = consumer.read_through_kills(feedd, "numbers", 10, 50, shuffle=True, epochs=1, view=view)
        expected.check_run(listed(feedd, numbers), batches, 10, shuffle=True)
        view = weights(feedd, drawn)
        batches = consumer.read_through_kills(feedd, "numbers", 10, 100, seed=4, epochs=1, view=view)
        expected.check_drawn(content(feedd), drawn, batches, 4)
        view, wanted = f"{view}|{indices(feedd, numbers)}", expected.weights_of_chosen(drawn, numbers)
        batches = consumer.read_through_kills(feedd, "numbers", 10, 50, seed=4, epochs=1, view=view)
        expected.check_drawn(content(feedd), wanted, batches, 4)
        part = expected.view(content(feedd), 0, 500, 3)
        batches = consumer.read_through_kills(feedd, "numbers", 10, 50, epochs=1, view=split(0, 0.5, 3))
        expected.check_run(part, batches, 10)


def take_token(feedd, view, count, **options):
    with consumer.Consumer(feedd, "numbers", 10, step=True, view=view, **options) as reader:
        reader.attached()
        return reader.take(count), reader.token()


def test_resume_with_another_world_size():
    numbers, order = some(600), {"epochs": 2, "shuffle": True, "seed": 11}
    with serve().start() as feedd:
        view = indices(feedd, numbers)
        together, token = take_token(feedd, view, 31, **order)
        for rank in range(3):
            ranks = {"rank": rank, "world_size": 3, "local_world_size": 1}
            together += consumer.read(feedd, "numbers", 10, view=view, resume=token, **ranks, **order)
        assert expected.check_exactly_once(600, together) == 2
        for other in (None, indices(feedd, numbers[::-1]), indices(feedd, numbers[:-1]), split(0, 0.6), split(0, 0.6, 1)):
            consumer.refused(feedd, "ESTALE", "other data", view=other, resume=token, **order)


def test_a_run_continues_with_other_weights():
    first, second, order = some_weights(), some_weights(2), {"epochs": 2, "seed": 6}
    with serve().start() as feedd:
        _, token = take_token(feedd, weights(feedd, first), 13, **order)
        rest = consumer.read(feedd, "numbers", 10, view=weights(feedd, second), resume=token, **order)
        assert rest[0]["first"] == 130 and len(rest) == 187
        expected.check_drawn(content(feedd), second, rest, 6)
        consumer.refused(
            feedd, "ESTALE", "other data", view=weights(feedd, second, draws=10), resume=token, **order
        )  # fmt: skip


def test_a_token_of_draws_from_a_part():
    """It belongs to that part, and as before to draws from the whole; the weights may change."""
    first, second, numbers = some_weights(), some_weights(2), some(701, seed=8)
    order = {"epochs": 2, "seed": 6}
    with serve().start() as feedd:
        whole, changed = weights(feedd, first, draws=500), weights(feedd, second, draws=500)
        listed = indices(feedd, numbers)
        together, token = take_token(feedd, f"{whole}|{listed}", 13, **order)
        expected.check_drawn(content(feedd), expected.weights_of_chosen(first, numbers), together, 6)
        same = indices(feedd, numbers[::-1], "H")  # which are chosen is what counts
        for rank in range(3):
            ranks = {"rank": rank, "world_size": 3, "local_world_size": 1}
            rest = consumer.read(feedd, "numbers", 10, view=f"{changed}|{same}", resume=token, **ranks, **order)
            expected.check_drawn(content(feedd), expected.weights_of_chosen(second, numbers), rest, 6)
            together += rest
        assert expected.check_exactly_once(500, together) == 2
        others = [f"|{indices(feedd, numbers[1:])}", f"|{indices(feedd, [*numbers, numbers[0]])}"]
        others += ["", f"|{split(0, 0.5)}", f"|{split(0, 0.5, 1)}"]
        for other in others:
            consumer.refused(feedd, "ESTALE", "other data", view=whole + other, resume=token, **order)
        _, token = take_token(feedd, whole, 13, **order)
        consumer.refused(feedd, "ESTALE", "other data", view=f"{whole}|{listed}", resume=token, **order)
        consumer.read(feedd, "numbers", 10, view=f"{whole}|{split(0, 1)}", resume=token, **order)


# ---- What is shared ----------------------------------------------------------------------------------------


def test_a_shared_feed_is_over_one_view():
    numbers = some(300)
    with serve().start() as feedd:
        view, order = indices(feedd, numbers), {"share": "one", "epochs": 1, "wait_for": 2}
        with consumer.Consumer(feedd, "numbers", 10, step=True, view=view, **order) as reader:
            reader.attached()
            same = indices(feedd, numbers, "H")  # the numbers are what counts
            with consumer.Consumer(feedd, "numbers", 10, step=True, view=same, **order) as other:
                other.attached()
                assert other.next()["crc"] == reader.next()["crc"]
            for wrong in (indices(feedd, numbers[::-1]), split(0, 0.5), weights(feedd, [1] * SAMPLES, "b")):
                consumer.refused(feedd, "EEXIST", "one", view=wrong, **order)
            consumer.refused(feedd, "EEXIST", "not numbers", **order)
            consumer.refused(feedd, "EEXIST", "must bring the same", view=indices(feedd, numbers[::-1]), **order)


def test_a_reload_changes_nothing_for_those_who_are_there():
    numbers = some(500)
    with serve().start() as feedd:
        view, order = indices(feedd, numbers), {"share": "one", "shuffle": True, "seed": 4}
        with consumer.Consumer(feedd, "numbers", 10, step=True, view=view, epochs=1, **order) as reader:
            reader.attached()
            batches = reader.take(10)
            feedd.ctl("reload")
            batches += reader.take(10)
            with consumer.Consumer(feedd, "numbers", 10, step=True, view=view, epochs=1, **order) as other:
                other.attached()  # the dataset has been opened again, and it is the same view
                consumer.refused(feedd, "EEXIST", "must bring the same", view=indices(feedd, numbers[::-1]), **order)
            batches += reader.take(30)
            reader.next_ends()
            expected.check_run(listed(feedd, numbers), batches, 10, shuffle=True, seed=4)
        check_list(feedd, numbers)


def test_consumers_share_it_without_sharing_a_feed():
    """With room for one list."""
    numbers = some(100_000)
    with serve(view_memory="1M").start() as feedd:
        view = indices(feedd, numbers, "I")
        readers = [consumer.Consumer(feedd, "numbers", 100, step=True, view=view, epochs=1) for _ in range(3)]
        for reader in readers:
            reader.attached()
        assert len({str(reader.next()["crc"]) for reader in readers}) == 1
        consumer.refused(feedd, "ENOSPC", "user_view_memory", view=indices(feedd, numbers[::-1], "I"))
        feeds = [feed["dataset"] for feed in json.loads(feedd.ctl("feeds", "--json").stdout)]
        assert feeds == ["numbers:indices"] * 3, feeds
        for reader in readers:
            reader.kill()


# ---- What is refused ---------------------------------------------------------------------------------------


def test_invalid_views():
    with serve() as feedd:
        feedd.add_view("half", "numbers", samples="0%..50%")
        feedd.start()

        def refuse(code, view, *parts, **options):
            consumer.refused(feedd, code, *parts, view=view, **options)

        wanted = "wanted numbers from 0 to 999"
        refuse("ERANGE", indices(feedd, [3, SAMPLES]), f"sample number {SAMPLES} at index 1, {wanted}")
        refuse("ERANGE", indices(feedd, [0] * 9000 + [-7], "h"), f"sample number -7 at index 9000, {wanted}")
        refuse("ERANGE", indices(feedd, [(1 << 64) - 1], "Q"), f"sample number {(1 << 64) - 1} at index 0")
        refuse("EINVAL", f"indices:12:{_file(feedd, [1.0], 'f')}", "found f32, wanted integers")
        refuse("EINVAL", f"indices:1:{_file(feedd, [1], 'b')}", "found a mask")
        ones = [1.0] * SAMPLES
        refuse("EINVAL", weights(feedd, ones[1:]), "found 999, wanted 1000, one for each sample of dataset numbers")
        for bad, text in ((-1.5, "-1.5"), (float("nan"), "nan"), (float("inf"), "inf")):
            refuse("ERANGE", weights(feedd, [*ones[1:], bad]), f"found weight {text} at index 999")
        refuse("EINVAL", weights(feedd, [0] * SAMPLES, "b"), "all of them are 0")
        refuse("EINVAL", weights(feedd, ones, draws=(1 << 40) + 1), "epoch_samples")
        first = weights(feedd, [1] * 500 + [0] * 500, "b")
        refuse("EINVAL", f"{first}|{split(0.5, 1)}", "all of them that the view chooses are 0")
        refuse("EINVAL", f"{weights(feedd, ones[1:])}|{split(0, 0.5)}", "found 999, wanted 1000, one for each sample")
        refuse("ERANGE", f"{first}|{indices(feedd, [3, SAMPLES])}", f"sample number {SAMPLES} at index 1, {wanted}")
        refuse("EINVAL", split(0.5, 0.25), "found 0.5 to 0.25")
        refuse("EINVAL", split(0.5, 1.5), "found 0.5 to 1.5")
        refuse("EINVAL", split(0.5, 0.5, 3), "contains none")
        refuse("EINVAL", split(0, 0.5), "half is a view of dataset numbers", dataset="half")
        refuse("ENOENT", split(0, 0.5), "number", dataset="numbres")
