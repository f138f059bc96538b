"""Fields whose samples differ in length, as pairs of values and offsets, and padded."""

import contextlib
import struct

import numpy
import pytest
import support
import test_tar

import feedd
import harness

TEXTS = [("word " * (number * 7 % 23)).encode() for number in range(60)]


@pytest.fixture(scope="module")
def texts():
    """Shards with a ragged field `text` of bytes and a number `cls`."""
    samples = [(f"{number:04}", {"txt": text, "cls": str(number).encode()}) for number, text in enumerate(TEXTS)]
    with harness.Instance() as instance:
        test_tar.write(instance.directory / "a.tar", samples)
        instance.add_dataset(
            "texts", format="tar", path=instance.directory / "a.tar", field_text="bytes @ txt", field_cls="i64"
        )  # fmt: skip
        instance.start()
        yield instance


def numbers_of(cls):
    return list(struct.unpack(f"<{len(cls)}q", support.raw(cls)))


def check_pair(values, offsets, numbers):
    wanted = [TEXTS[number] for number in numbers]
    ends = [0]
    for text in wanted:
        ends.append(ends[-1] + len(text))
    assert support.raw(values) == b"".join(wanted)
    assert list(struct.unpack(f"<{len(ends)}q", support.raw(offsets))) == ends


def test_a_field_says_that_it_is_ragged(texts):
    with feedd.DataLoader("texts", 16, socket=texts.socket, framework="numpy") as loader:
        assert loader.fields == (("text", "uint8", (16, None)), ("cls", "int64", (16,)))
        assert loader.dataset.fields == (("text", "uint8", (None,)), ("cls", "int64", ()))


@pytest.mark.parametrize("device", support.DEVICES)
@pytest.mark.parametrize("copy", (False, True))
def test_pairs(texts, device, copy):
    with support.loader(texts, "texts", 16, device=device, copy=copy, ragged="pair", **support.SHUFFLED) as loader:
        seen = []
        for (values, offsets), cls in loader:
            numbers = numbers_of(cls)
            check_pair(values, offsets, numbers)
            seen += numbers
        assert seen == [number for batch in support.wanted(16, len(TEXTS), **support.SHUFFLED) for number in batch]


@pytest.mark.parametrize("device", support.DEVICES)
def test_padded(texts, device):
    with support.loader(texts, "texts", 16, device=device, ragged="padded", **support.SHUFFLED) as loader:
        for text, cls in loader:
            wanted = [TEXTS[number] for number in numbers_of(cls)]
            longest = max(map(len, wanted))
            assert tuple(text.shape) == (len(wanted), longest)
            assert support.raw(text) == b"".join(one.ljust(longest, b"\0") for one in wanted)


def test_single_samples(texts):
    dataset = feedd.Dataset("texts", socket=texts.socket, framework="numpy")
    with contextlib.closing(dataset):
        for number in (0, 5, 59):
            text, cls = dataset[number]
            assert text.tobytes() == TEXTS[number] and cls == number


def test_plain_objects(texts):
    with feedd.DataLoader("texts", 16, socket=texts.socket, framework="dlpack") as loader:
        for (values, offsets), _cls in loader:
            assert offsets.dtype == "int64" and offsets.nbytes == 8 * offsets.shape[0] and offsets.offsets is None
            assert values.shape == (struct.unpack(f"<{offsets.shape[0]}q", offsets.tobytes())[-1],)


def test_what_has_no_ragged_fields_says_none(texts):
    with feedd.DataLoader("texts", 16, socket=texts.socket, framework="dlpack") as loader:
        _text, cls = next(iter(loader))
        assert cls.offsets is None


def test_a_batch_lives_as_long_as_its_offsets(texts):
    with feedd.DataLoader("texts", 16, socket=texts.socket, framework="numpy", prefetch_factor=1) as loader:
        iterator = iter(loader)
        (values, offsets), cls = next(iterator)
        numbers, ends = numbers_of(cls), offsets.tolist()
        del values, cls
        next(iterator)
        with pytest.raises(feedd.TooManyBatches):
            kept = [next(iterator) for _ in range(10)]
            del kept
        assert offsets.tolist() == ends and len(numbers) == len(ends) - 1


def test_refusals(texts):
    def make(**options):
        feedd.DataLoader("texts", 16, socket=texts.socket, **options).close()

    with pytest.raises(ValueError, match="is not one of nested, pair, padded"):
        make(framework="numpy", ragged="jagged")
    with pytest.raises(ValueError, match="needs framework=\"torch\""):
        make(framework="numpy", ragged="nested")
    with pytest.raises(ValueError, match="makes the copy"):
        make(framework="dlpack", ragged="padded")


def test_numpy_gets_views(texts):
    with feedd.DataLoader("texts", 16, socket=texts.socket, framework="numpy") as loader:
        (values, offsets), _cls = next(iter(loader))
        assert isinstance(values, numpy.ndarray) and not values.flags.writeable and not offsets.flags.writeable
        check_pair(values, offsets, range(16))
