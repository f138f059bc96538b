"""JAX, where it is installed: its arrays hold batches, and copies do not."""

import itertools
import os
import struct

import data
import harness
import pytest
import support
import test_tar
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
TEXTS = [b"x" * (number % 7) for number in range(20)]


@pytest.fixture(scope="module", autouse=True)  # before JAX has threads, as it warns of forks
def texts(tmp_path_factory):
    """Samples of 0 to 6 bytes, as they are and padded, and of as many numbers."""
    path = tmp_path_factory.mktemp("texts") / "a.tar"
    test_tar.write(path, [(f"{number:02}", {"txt": text}) for number, text in enumerate(TEXTS)])
    lengths = [number % 7 for number in range(20)]
    numbers = struct.pack(f"<{sum(lengths)}q", *range(-3, sum(lengths) - 3))
    with harness.Instance() as daemon:
        (daemon.directory / "numbers.bin").write_bytes(numbers)
        data.write_npy(daemon.directory / "ends.npy", "<i8", (21,), struct.pack("<21q", *itertools.accumulate([0, *lengths])))
        daemon.add_dataset("many", format="tokens", path="numbers.bin", offsets="ends.npy", dtype="i64")
        (daemon.directory / "halves.bin").write_bytes(b"".join(struct.pack("<f", n)[2:] for n in range(sum(lengths))))
        daemon.add_dataset("halves", format="records", path="halves.bin", offsets="ends.npy", field_x="bf16")
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


def test_padded_without_64_bits(texts):
    """As JAX is without JAX_ENABLE_X64: numbers become 32 bits, and nothing is compiled again for each length.
    It comes first, as JAX has no threads here yet."""
    code = f"""
import feedd, jax, logging
compiled = []
class Handler(logging.Handler):
    def emit(self, record):
        compiled.append(record.getMessage())
jax.config.update("jax_log_compiles", True)
logging.getLogger("jax").addHandler(Handler())
logging.getLogger("jax").propagate = False
with feedd.DataLoader("many", 3, framework="jax", ragged="padded", socket={str(texts.socket)!r}) as loader:
    batches = [batch for (batch,) in loader]
print(len(compiled), {{str(batch.dtype) for batch in batches}}, len({{batch.shape for batch in batches}}))
jax.numpy.arange(3) + 1
assert compiled
"""
    output = support.run(code, variables={"JAX_ENABLE_X64": "0", "JAX_PLATFORMS": "cpu"})
    assert output.splitlines()[0] == "0 {'int32'} 6", output


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
    for ragged in (None, "pair"):
        with pytest.raises(ValueError, match=r"samples of field txt differ in length.* pad\.txt = LENGTH .* ragged=\"padded\""):
            support.loader(texts, "ragged", 5, framework="jax", ragged=ragged)
    with pytest.raises(ValueError, match="needs framework=\"torch\", not 'jax': use \"padded\"$"):
        support.loader(texts, "ragged", 5, framework="jax", ragged="nested")
    with support.loader(texts, "padded", 5, framework="jax") as loader:
        assert [bytes(row.tolist()) for (batch,) in loader for row in batch] == [text.ljust(6, b"\0") for text in TEXTS]


@pytest.mark.parametrize("batch_size", [5, 8, 1])
def test_padded_to_the_longest_of_a_batch(texts, device, batch_size):
    """Samples of no values included, and batches of nothing else. They hold no batch."""
    options = {"framework": "jax", "ragged": "padded", "device": device, "prefetch_factor": 1}
    with support.loader(texts, "ragged", batch_size, **options) as loader:
        batches = list(loader)
    for number, (batch,) in enumerate(batches):
        part = TEXTS[number * batch_size : (number + 1) * batch_size]
        assert isinstance(batch, jax.Array) and {place.platform for place in batch.devices()} == {PLATFORM}
        assert batch.shape == (len(part), max(map(len, part))) and batch.dtype == "uint8"
        assert [bytes(row.tolist()) for row in batch] == [text.ljust(batch.shape[1], b"\0") for text in part]
    assert len(batches) == -(-len(TEXTS) // batch_size)


def test_padded_bfloat16(texts):
    with support.loader(texts, "halves", 20, framework="jax", ragged="padded") as loader:
        ((batch,),) = loader
        assert batch.dtype == jax.numpy.bfloat16 and batch.shape == (20, 6)
        values = [value for number, row in enumerate(batch.astype("float32")) for value in row.tolist()[: number % 7]]
        assert values == list(range(57))


def test_padded_where_arrays_are_jaxs(texts):
    """As on a GPU, whose memory NumPy cannot read."""
    convert = feedd.frameworks.batch_converter("jax", 0, False, "padded")
    with support.loader(texts, "ragged", 5, framework="dlpack") as loader:
        for number in range(4):
            part, (array,) = TEXTS[5 * number : 5 * number + 5], loader._take().arrays()
            assert [bytes(row.tolist()) for row in convert(array)] == [text.ljust(max(map(len, part)), b"\0") for text in part]


def test_padded_numbers(texts):
    with support.loader(texts, "many", 20, framework="jax", ragged="padded") as loader:
        ((batch,),) = loader
        assert batch.dtype == "int64" and batch.shape == (20, 6)
        assert [value for number, row in enumerate(batch) for value in row.tolist()[: number % 7]] == list(range(-3, 54))
