"""A daemon that serves a mix, and what it must deliver according to an independent implementation."""

import struct

import consumer
import data
import expected
import harness

SIZE = 24
EPOCH = 500


def add_source(instance, name, samples, salt, header=0):
    """A dataset of records whose samples no other source has. Returns what it delivers."""
    content = [data.sample_bytes(salt * 100000 + number, SIZE, salt) for number in range(samples)]
    path = instance.directory / f"{name}.bin"
    path.write_bytes(bytes(header) + b"".join(content))
    instance.add_dataset(name, format="records", path=path, record_bytes=SIZE, field_x=f"u8[{SIZE}] @ 0",
                         header_bytes=header)  # fmt: skip
    return {"x": content}


def serve(weights=(3, 2, 1), epoch_samples=EPOCH, **settings):
    """A mix "both" of a dataset, a split and a list of samples. instance.mixed is what must be delivered."""
    instance = harness.Instance(**settings)
    first = add_source(instance, "first", 210, 1)
    second = add_source(instance, "second", 400, 2, header=5)
    instance.add_view("part", "second", samples="10%..90%", split_seed=8)
    chosen = [7, 3, 3, 399, 0, 111, 250]
    data.write_npy(instance.directory / "chosen.npy", "<i8", (len(chosen),), struct.pack(f"<{len(chosen)}q", *chosen))
    instance.add_view("few", "second", indices="chosen.npy")
    few = {"x": [second["x"][number] for number in chosen]}
    contents = first, expected.view(second, 40, 360, 8), few
    instance.names = ("first", "part", "few")
    instance.add_mix("both", dict(zip(instance.names, weights)), epoch_samples)
    instance.mixed = expected.Mixed([expected.Source(content) for content in contents], weights, epoch_samples)
    return instance


def check(feedd, batch_size=7, name="both", mixed=None, shuffle=True, seed=0, **options):
    mixed = mixed or feedd.mixed
    batches = consumer.read(feedd, name, batch_size, shuffle=shuffle, seed=seed, **options)
    expected.check_places(mixed.epoch_samples, batches, batch_size, **options)
    mixed.check(batches, shuffle, seed)
    return batches


def weigh_again(feedd, weights, **options):
    feedd.add_mix("both", dict(zip(feedd.names, weights)), feedd.mixed.epoch_samples, **options)
    feedd.write_config()
    return feedd.ctl("reload").stdout


def resume_after(feedd, batches, batch_size=10, **options):
    with consumer.Consumer(feedd, "both", batch_size, step=True, **options) as reader:
        reader.attached()
        reader.take(batches)
        return reader.token()
