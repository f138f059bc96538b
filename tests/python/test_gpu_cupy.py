"""Batches on a GPU in CuPy's hands, where it is installed."""

import harness
import pytest
from support import SHUFFLED, raw, samples_of, wanted

import feedd

try:
    import cupy
except ImportError:
    cupy = None


def missing():
    """Why nothing of this can run here, or an empty text."""
    if cupy is None:
        return "CuPy is not installed"
    try:
        return "" if cupy.cuda.runtime.getDeviceCount() else "CuPy sees no GPU here"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy sees no GPU here: {error}"


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
NUMBER = int(harness.DEVICE.partition(":")[2] or 0)


@pytest.mark.parametrize("copy", [False, True])
def test_arrays_are_on_the_gpu_and_equal_the_cpus(load, load_host, copy):
    host = load_host(framework="numpy", device="cpu", **SHUFFLED)
    for there, here in zip(load(framework="cupy", copy=copy, **SHUFFLED), host, strict=True):
        for array, right in zip(there, here, strict=True):
            assert isinstance(array, cupy.ndarray) and array.device.id == NUMBER
            assert array.dtype == right.dtype and array.shape == right.shape
            assert raw(array) == right.tobytes()


@pytest.mark.parametrize("copy", [False, True])
def test_arrays_hold_their_batches_and_copies_none(load, copy):
    loader = load(framework="cupy", copy=copy, prefetch_factor=2, **SHUFFLED)
    if copy:
        assert [samples_of(batch) for batch in list(loader)] == wanted(**SHUFFLED)
    else:
        assert [samples_of(batch) for batch in loader] == wanted(**SHUFFLED)
        with pytest.raises(feedd.TooManyBatches):
            list(loader)
