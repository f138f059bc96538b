"""Array: DLPack and the array interfaces, without a framework but NumPy."""

import copy
import ctypes
import pickle

import numpy
import pytest
import support
from dlpack import CPU, Capsule
from support import TYPED_SAMPLES, TYPES

import feedd
from feedd import _feed

KINDS = {"bool": 6, "bf16": 4, "c64": 5, "c128": 5}  # DLPack's codes, but for those that the first letter tells
LETTERS = {"u": 1, "i": 0, "f": 2}


@pytest.fixture
def arrays(load):
    """Of the first batch of numbers, 16 samples, on each device."""
    return next(iter(load(framework="dlpack")))


@pytest.fixture
def typed(load):
    loader = load("types", TYPED_SAMPLES, framework="dlpack", as_dict=True)
    return next(iter(loader))


def content(name):
    """The bytes of a field of the dataset types, all samples."""
    size, at = 2 * TYPES[name][1], support.typed_offset(name)
    return b"".join(support.typed_record(index)[at : at + size] for index in range(TYPED_SAMPLES))


def test_what_an_array_is(arrays):
    identity, body = arrays
    assert isinstance(body, feedd.Array)
    assert (identity.name, identity.dtype, identity.shape, identity.nbytes) == ("id", "uint64", (16,), 128)
    assert (body.name, body.dtype, body.shape, body.nbytes) == ("body", "uint8", (16, support.BODY), 16 * support.BODY)
    assert support.samples_of(arrays) == list(range(16))


@pytest.mark.parametrize("name", TYPES)
def test_types(typed, name):
    array = typed[name]
    numpy_name, size = TYPES[name]
    assert (array.dtype, array.shape, array.nbytes) == (numpy_name, (TYPED_SAMPLES, 2), TYPED_SAMPLES * 2 * size)
    assert array.tobytes() == content(name)
    capsule = Capsule(array.__dlpack__(max_version=(1, 0)))
    tensor = capsule.tensor
    assert (tensor.code, tensor.bits, tensor.lanes) == (KINDS.get(name, LETTERS.get(name[0])), 8 * size, 1)
    assert capsule.bytes() == content(name)
    if name != "bf16":
        assert numpy.asarray(array).dtype == numpy.dtype(numpy_name)
        assert numpy.asarray(array).tobytes() == content(name)
        assert numpy.from_dlpack(array).tobytes() == content(name)


def test_bfloat16_is_none_of_numpys(typed, load_host):
    with pytest.raises(AttributeError, match="DLPack"):
        typed["bf16"].__array_interface__
    with pytest.raises(TypeError, match='framework="torch"'):
        next(iter(load_host("types", 4, framework="numpy")))


@pytest.mark.parametrize(
    ("asked", "versioned"), [(None, False), ((0, 8), False), ((1, 0), True), ((1, 3), True), ((2, 0), True)]
)
def test_versions(arrays, asked, versioned):
    capsule = Capsule(arrays[1].__dlpack__(max_version=asked))
    assert capsule.versioned is versioned
    tensor = capsule.tensor
    assert (tensor.device_type, tensor.device_number, tensor.byte_offset) == (CPU, 0, 0)
    assert (tensor.sizes(), tensor.steps()) == ([16, support.BODY], [support.BODY, 1])
    assert tensor.data % 256 == 0
    if versioned:
        assert capsule.version == (1, 0)
        assert (capsule.read_only, capsule.copied) == (True, False)
    capsule.drop()


@pytest.mark.parametrize("version", [1, "1.0", (1,), (1, 0, 0), ("1", "0")])
def test_versions_that_are_none(arrays, version):
    with pytest.raises(TypeError):
        arrays[0].__dlpack__(max_version=version)


@pytest.mark.parametrize("versioned", [False, True])
def test_copies(load, versioned):
    loader = load(framework="dlpack", prefetch_factor=1)
    iterator = iter(loader)
    _, body = next(iterator)
    capsule = Capsule(body.__dlpack__(copy=True, max_version=(1, 0) if versioned else None))
    plain = Capsule(body.__dlpack__(copy=False))
    assert capsule.tensor.data != plain.tensor.data and capsule.bytes() == plain.bytes()
    assert (capsule.tensor.device_type, capsule.tensor.sizes()) == (CPU, [16, support.BODY])
    if versioned:
        assert (capsule.read_only, capsule.copied) == (False, True)
    right = capsule.bytes()
    plain.drop()
    del body, _, plain
    for batch in iterator:
        del batch
    assert capsule.bytes() == right, "a copy holds no batch and belongs to none"
    capsule.drop()


def test_devices(arrays):
    body = arrays[1]
    assert body.__dlpack_device__() == (CPU, 0)
    assert Capsule(body.__dlpack__(dl_device=(CPU, 0))).bytes() == body.tobytes()
    for options in ({}, {"copy": True}, {"copy": False}):
        with pytest.raises(BufferError, match="only be copied"):
            body.__dlpack__(dl_device=(2, 0), **options)
    for wrong in (1, (1,), ("cpu", 0), [1, 0]):
        with pytest.raises(TypeError):
            body.__dlpack__(dl_device=wrong)
    with pytest.raises(ValueError, match="truth value"):
        body.__dlpack__(copy=numpy.array([1, 2]))


@pytest.mark.parametrize("stream", [None, -1, 1, 2])
def test_streams_mean_nothing_in_host_memory(arrays, stream):
    assert Capsule(arrays[1].__dlpack__(stream=stream)).bytes() == arrays[1].tobytes()


def test_wrong_calls(arrays):
    for wrong in (lambda: arrays[0].__dlpack__(1), lambda: arrays[0].__dlpack__(nonsense=1), lambda: arrays[0].tobytes(1)):
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_capsules_hold_the_batch_until_they_are_dropped(load, version):
    """Never consumed, consumed and deleted, and both ways with the capsule gone first."""
    loader = load(framework="dlpack", prefetch_factor=1)
    held = []
    iterator = iter(loader)
    for _ in range(2):
        held.append([Capsule(array.__dlpack__(max_version=version)) for array in next(iterator)])
    for batch in list(held):
        with pytest.raises(feedd.TooManyBatches):
            next(iterator)
        held.remove(batch)
        kept = [capsule.bytes() for capsule in batch]
        managed = batch[0].consume()
        batch[0].drop()  # its tensor is the consumer's now
        batch[1].drop()  # nobody took it
        with pytest.raises(feedd.TooManyBatches):
            next(iterator)
        assert managed.bytes() == kept[0]
        managed.delete()
        held.append([Capsule(array.__dlpack__(max_version=version)) for array in next(iterator)])
    for batch in held:
        for capsule in batch:
            capsule.drop()


def test_a_capsule_is_consumed_once(arrays):
    capsule = Capsule(arrays[1].__dlpack__())
    managed = capsule.consume()
    with pytest.raises(ValueError, match="name"):
        capsule.consume()
    assert managed.bytes() == arrays[1].tobytes()
    managed.delete()


def test_array_interface(arrays):
    for array in arrays:
        about = array.__array_interface__
        capsule = Capsule(array.__dlpack__())
        assert about["data"] == (capsule.tensor.data, True)
        assert (about["shape"], about["version"]) == (array.shape, 3)
        assert about["typestr"] == numpy.dtype(array.dtype).newbyteorder("<").str
    with pytest.raises(AttributeError, match="host memory"):
        arrays[0].__cuda_array_interface__


def test_numpy_knows_that_they_are_read_only(arrays):
    for view in (numpy.asarray(arrays[1]), numpy.from_dlpack(arrays[1])):
        assert not view.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            view[0, 0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.flags.writeable = True
    mine = numpy.array(arrays[1])
    mine[:] = 7


def test_nothing_is_made_or_copied_by_hand(arrays, load_host):
    batch = load_host()._take()
    for kind in (_feed.Array, _feed.Batch):
        with pytest.raises(TypeError):
            kind()
        with pytest.raises(TypeError):
            kind.__new__(kind)
    for thing in (arrays[0], batch):
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError):
                way(thing)
        with pytest.raises(AttributeError):
            thing.count = 1


def test_batches(load_host):
    loader = load_host(framework="dlpack", shuffle=True, seed=11)
    right = support.wanted(shuffle=True, seed=11)
    for number, samples in enumerate(right):
        batch = loader._take()
        assert (batch.epoch, batch.index, batch.count, batch.skipped) == (0, number, len(samples), 0)
        assert (batch.first_position, batch.last_of_epoch) == (16 * number, number + 1 == len(right))
        assert batch.samples() == samples == support.samples_of(batch.arrays())


def test_feeds(daemon):
    """What libfeed takes, as it takes it."""
    feed = _feed.Feed("numbers", 16, socket=str(daemon.socket), prefetch=3)
    assert feed.describe()["prefetch"] == 3
    with pytest.raises(feedd.Error, match="no such place in the order"):
        feed.token_at(0, 203)
    for wrong in ((), ("numbers",), ("numbers", "16"), (7, 16), ("numbers", 16, "positional")):
        with pytest.raises(TypeError):
            _feed.Feed(*wrong)
    assert feed.next(20000) is not None
    with pytest.raises(feedd.Error):
        _feed.Feed(None, 16, socket=str(daemon.socket))
    feed.close()
    feed.close()
    for use in (feed.next, feed.settle, feed.token, lambda: feed.token_at(0, 0), feed.describe):
        with pytest.raises(feedd.Error, match="closed"):
            use()
    assert ctypes.sizeof(ctypes.c_void_p) == 8
