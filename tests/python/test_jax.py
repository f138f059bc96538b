"""JAX, where it is installed: its arrays hold batches, and copies do not."""

import os

import pytest
import support
import test_tar
from support import SAMPLES, samples_of, wanted

import feedd
import harness

os.environ.setdefault("JAX_ENABLE_X64", "1")  # as a field has 64 bits
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others use the GPU too
try:
    import jax  # here, as it changes the environment
except ImportError:
    jax = None
pytestmark = pytest.mark.skipif(jax is None, reason="JAX is not installed")
PLATFORM = "gpu" if support.ON_GPU else "cpu"
TEXTS = [b"x" * (number % 7) for number in range(20)]


@pytest.fixture(scope="module", autouse=True)  # before JAX has threads, as it warns of forks
def texts(tmp_path_factory):
    """Samples of 0 to 6 bytes, as they are and padded."""
    path = tmp_path_factory.mktemp("texts") / "a.tar"
    test_tar.write(path, [(f"{number:02}", {"txt": text}) for number, text in enumerate(TEXTS)])
    with harness.Instance() as daemon:
        for name, more in (("ragged", {}), ("padded", {"pad_txt": 6})):
            daemon.add_dataset(name, format="tar", path=path, field_txt="bytes", **more)
        yield daemon.start()


@pytest.fixture
def device(device):
    try:
        jax.devices(PLATFORM)
    except RuntimeError as error:
        pytest.skip(f"this JAX has no {PLATFORM}: {error}")
    return device


def test_arrays_are_where_they_are_wanted(daemon, device):
    with support.loader(daemon, framework="jax", device=device) as loader:
        for array in next(iter(loader)):
            assert isinstance(array, jax.Array) and {place.platform for place in array.devices()} == {PLATFORM}


def test_arrays_hold_their_batches(daemon, device):
    with support.loader(daemon, framework="jax", device=device, prefetch_factor=2) as loader:
        assert [samples_of(batch) for batch in loader] == wanted()
        with pytest.raises(feedd.TooManyBatches):
            list(loader)


def test_copies_hold_none(daemon, device):
    with support.loader(daemon, framework="jax", device=device, prefetch_factor=2, copy=True) as loader:
        assert [samples_of(batch) for batch in list(loader)] == wanted()


def test_samples(daemon):
    dataset = feedd.Dataset("numbers", framework="jax", socket=daemon.socket)
    assert [int(dataset[number][0]) for number in range(SAMPLES)] == list(range(SAMPLES))


def test_ragged_fields_are_refused_unless_padded(texts):
    for ragged in (None, "pair", "padded"):
        with pytest.raises(ValueError, match=r"samples of field txt differ in length.* pad\.txt = LENGTH in feedd\.conf"):
            support.loader(texts, "ragged", 5, framework="jax", ragged=ragged)
    with support.loader(texts, "padded", 5, framework="jax") as loader:
        assert [bytes(row.tolist()) for (batch,) in loader for row in batch] == [text.ljust(6, b"\0") for text in TEXTS]
