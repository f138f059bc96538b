"""JAX, where it is installed: its arrays hold batches, and copies do not."""

import os

import pytest
import support
from support import SAMPLES, samples_of, wanted

import feedd

os.environ.setdefault("JAX_ENABLE_X64", "1")  # as a field has 64 bits
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others use the GPU too
try:
    import jax  # here, as it changes the environment
except ImportError:
    jax = None
pytestmark = pytest.mark.skipif(jax is None, reason="JAX is not installed")
PLATFORM = "gpu" if support.ON_GPU else "cpu"


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
