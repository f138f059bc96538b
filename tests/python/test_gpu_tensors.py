"""Batches on a GPU in PyTorch's hands: streams, tensors that are dropped while kernels still read them, graphs."""

import harness
import pytest
import support
import torch
from support import BODY, SHUFFLED, read, samples_of, wanted

CYCLES = 200_000_000  # of torch.cuda._sleep: about a tenth of a second
BIG = 1 << 20  # bytes of a sample of the dataset big

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU here")


@pytest.fixture(scope="module")
def daemon():
    """With a dataset `big` of samples of 1 MiB, each of one byte repeated, and pools that hold four of its batches."""
    with harness.Instance(ring="32M") as instance:
        support.add_datasets(instance)
        file = instance.directory / "big.bin"
        file.write_bytes(b"".join(bytes([index]) * BIG for index in range(60)))
        instance.add_dataset("big", format="records", path=file, record_bytes=BIG, field_x=f"u8[{BIG}] @ 0")
        yield instance.start()


def test_tensors_are_on_the_gpu_and_equal_the_cpus(load, load_host, device):
    loader, host = load(**SHUFFLED), load_host(device="cpu", **SHUFFLED)
    assert loader.device.startswith("GPU-") and host.device == "cpu"
    for there, here in zip(loader, host, strict=True):
        for tensor, right in zip(there, here):
            assert tensor.device == torch.device(device) and tensor.is_contiguous()
            assert torch.equal(tensor.cpu(), right)


def test_every_type(load):
    loader = load("types", support.TYPED_SAMPLES, as_dict=True)
    for name, tensor in next(iter(loader)).items():
        size, at = 2 * support.TYPES[name][1], support.typed_offset(name)
        assert support.raw(tensor) == b"".join(
            support.typed_record(index)[at : at + size] for index in range(support.TYPED_SAMPLES)
        )


def test_names_of_the_device(daemon, device):
    number = torch.device(device).index or 0
    for name in ("cuda", torch.device("cuda", number), f"cuda:{number}"):
        with support.loader(daemon, device=name) as loader:
            assert samples_of(next(iter(loader))) == list(range(16))
            uuid = loader.device
    with support.loader(daemon, device=uuid) as loader:
        assert next(iter(loader))[0].device.index == number


def test_capsules_on_a_gpu(load, device):
    array = next(iter(load(framework="dlpack")))[1]
    number = torch.device(device).index or 0
    assert array.__dlpack_device__() == (2, number)
    assert array.__cuda_array_interface__["data"][1] is True
    for options, error in (
        ({"stream": 0}, ValueError), ({"copy": True}, BufferError), ({"stream": "x"}, TypeError),
        ({"dl_device": (1, 0), "copy": False}, BufferError),
    ):  # fmt: skip
        with pytest.raises(error):
            array.__dlpack__(**options)
    for options in ({}, {"copy": True}):
        host = torch.from_dlpack(array.__dlpack__(dl_device=(1, 0), max_version=(1, 0), **options))
        assert host.device.type == "cpu" and support.raw(host) == array.tobytes()
    with pytest.raises(AttributeError, match="GPU"):
        array.__array_interface__
    with pytest.raises(ValueError, match="no tensors on a GPU"):
        load(framework="numpy")


def test_on_a_side_stream(load):
    """What is current when a batch is taken waits for it."""
    loader = load(**SHUFFLED)
    stream = torch.cuda.Stream()
    found = []
    with torch.cuda.stream(stream):
        for identity, _ in loader:
            found.append(identity.to(torch.int64) + 0)
    stream.synchronize()
    assert [tensor.tolist() for tensor in found] == wanted(**SHUFFLED)


@pytest.mark.limit(120)
@pytest.mark.parametrize("on", ["a side stream", "the current stream", "two streams"])
def test_no_slot_is_used_again_before_a_late_kernel_has_read_it(daemon, device, on):
    """A tensor is dropped at once while a kernel that reads it is still to come, and many batches follow."""
    loader = support.loader(daemon, "big", 1, device=device, prefetch_factor=2)
    iterator = iter(loader)
    late = torch.cuda.current_stream() if on == "the current stream" else torch.cuda.Stream()
    other = torch.cuda.Stream()
    sums = []
    for round in range(4):
        with torch.cuda.stream(late):
            (tensor,) = next(iterator)
            number = int(tensor[0, 0]) if round == 0 else None
            torch.cuda._sleep(CYCLES)
            sums.append((number, tensor[0, 0].clone(), tensor.to(torch.int64).sum()))
        if on == "two streams":
            other.wait_stream(late)
            with torch.cuda.stream(other):
                torch.cuda._sleep(CYCLES)
                sums.append((number, tensor[0, 0].clone(), tensor.to(torch.int64).sum()))
        del tensor  # the kernels have not begun
        for _ in range(9):
            (tensor,) = next(iterator)
            del tensor
    torch.cuda.synchronize()
    for number, first, total in sums:
        assert number is None or number == int(first)
        assert int(total) == int(first) * BIG, "other bytes came while the kernel was late"
    assert [int(first) for _, first, _ in sums][:: len(sums) // 4] == [0, 10, 20, 30]
    loader.close()


def test_the_cpu_waits_for_no_kernel(daemon, device):
    """Batches come while the GPU is busy: handing out and giving back wait for nothing."""
    loader = support.loader(daemon, "big", 1, device=device, prefetch_factor=2)
    iterator = iter(loader)
    next(iterator)
    torch.cuda.synchronize()
    busy, end = torch.cuda.Stream(), torch.cuda.Event()
    with torch.cuda.stream(busy):
        torch.cuda._sleep(20 * CYCLES)
        end.record()
    (tensor,) = next(iterator)
    del tensor
    assert not end.query(), "the batch came when the GPU was done"
    torch.cuda.synchronize()
    loader.close()


def test_a_graph_is_captured_while_batches_live(load):
    """Tensors that are dropped within a capture go back after it, and the graph is whole."""
    loader = load(prefetch_factor=3, **SHUFFLED)
    iterator = iter(loader)
    held = [next(iterator) for _ in range(3)]
    static = torch.zeros(16, BODY, device=held[0][1].device)
    static.copy_(held[0][1])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        doubled = static * 2
        del held[2]
        held.pop()
    right = wanted(**SHUFFLED)
    for number in range(3, 10):
        _, body = next(iterator)
        if body.shape[0] == 16:
            static.copy_(body)
            graph.replay()
            assert torch.equal(doubled, body.float() * 2)
        del body, _
    assert samples_of(held[0]) == right[0]
    assert read(iterator) == right[10:]


def test_tensors_outlive_everything(daemon, device):
    code = f"""
import feedd, torch
loader = feedd.DataLoader("numbers", 16, device={device!r})
iterator = iter(loader)
held = [next(iterator) for _ in range(3)]
torch.cuda._sleep({CYCLES})
late = held[0][1].sum()
loader.close()
del loader, iterator
print([int(id[0]) for id, body in held])
"""
    assert support.run(code, daemon=daemon) == "[0, 16, 32]\n"
    support.check_sessions(daemon, 0)


def test_a_fork_with_batches_on_a_gpu(daemon, device):
    """CUDA does not survive a fork; the child gets a clear error and releases nothing, and the parent continues."""
    code = f"""
import feedd, os, sys
loader = feedd.DataLoader("numbers", 16, device={device!r})
iterator = iter(loader)
held = next(iterator)
if os.fork() == 0:
    try: next(iterator)
    except feedd.Error as error: print("make another" in str(error), flush=True)
    os._exit(0)
print(os.wait()[1], sum(id.shape[0] for id, body in iterator))
"""
    assert support.run(code, daemon=daemon) == f"True\n0 {support.SAMPLES - 16}\n"
