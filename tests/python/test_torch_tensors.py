"""PyTorch's tensors over the daemon's memory, and its arguments."""

import inspect
import io
import signal

import pytest
import support
import test_arguments
import torch
import torch.utils.data
from support import TYPED_SAMPLES, TYPES, raw, read, samples_of, wanted

import feedd

DTYPES = {
    "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "u16": torch.uint16, "i16": torch.int16, "u32": torch.uint32,
    "i32": torch.int32, "u64": torch.uint64, "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16,
    "f32": torch.float32, "f64": torch.float64, "c64": torch.complex64, "c128": torch.complex128,
}  # fmt: skip


def test_torchs_signature():
    """Every argument of torch's is one of ours, at the same place and with the same default."""
    theirs = list(inspect.signature(torch.utils.data.DataLoader).parameters.values())
    ours = list(inspect.signature(feedd.DataLoader).parameters.values())
    assert [(p.name, p.kind, p.default) for p in ours[: len(theirs)]] == [(p.name, p.kind, p.default) for p in theirs]
    assert [p.name for p in theirs] == test_arguments.POSITIONAL + test_arguments.BY_NAME


def test_torch_is_the_default(daemon):
    with feedd.DataLoader("numbers", 16, socket=daemon.socket) as loader:
        assert loader.framework == "torch"
        assert all(isinstance(tensor, torch.Tensor) for tensor in next(iter(loader)))


@pytest.mark.skipif(torch.cuda.is_available(), reason="PyTorch sees a GPU here")
def test_a_gpu_that_is_not_there(daemon):
    with pytest.raises(feedd.Error, match="NVIDIA|CUDA|GPU"):
        feedd.DataLoader("numbers", 16, socket=daemon.socket, device="cuda")


@pytest.mark.parametrize("name", TYPES)
def test_types(load, name):
    tensor = next(iter(load("types", TYPED_SAMPLES, as_dict=True)))[name]
    right = b"".join(
        support.typed_record(index)[support.typed_offset(name) :][: 2 * TYPES[name][1]] for index in range(TYPED_SAMPLES)
    )
    assert tensor.dtype is DTYPES[name] and tuple(tensor.shape) == (TYPED_SAMPLES, 2) and tensor.is_contiguous()
    assert raw(tensor) == right
    assert torch.equal(tensor, torch.frombuffer(bytearray(right), dtype=DTYPES[name]).reshape(TYPED_SAMPLES, 2))


def test_no_copy_is_made(load):
    """The tensor lies where the array says that the batch lies."""
    for array in next(iter(load(framework="dlpack"))):
        tensor = torch.from_dlpack(array)
        assert tensor.data_ptr() == array.__array_interface__["data"][0]
        assert tensor.device == torch.device("cpu")
        assert torch.from_dlpack(array, copy=True).data_ptr() != tensor.data_ptr()


def test_from_dlpack_of_a_capsule(load):
    array = next(iter(load(framework="dlpack")))[1]
    capsule = array.__dlpack__()
    assert raw(torch.utils.dlpack.from_dlpack(capsule)) == array.tobytes()
    with pytest.raises((RuntimeError, ValueError)):
        torch.utils.dlpack.from_dlpack(capsule)


def test_numpy_of_a_tensor(load):
    """NumPy's view of torch's view: the batch stays until it is gone too."""
    iterator = iter(load(prefetch_factor=1))
    views = [next(iterator)[0].numpy() for _ in range(2)]
    with pytest.raises(feedd.TooManyBatches):
        next(iterator)
    assert [view.tolist() for view in views] == wanted()[:2]


@pytest.mark.parametrize("seed", [0, 7, 2**63 + 5])
def test_generators(load_host, seed):
    generator = torch.Generator().manual_seed(seed)
    torch.rand(3, generator=generator)  # what was drawn from it means nothing
    assert read(load_host(shuffle=True, generator=generator)) == wanted(shuffle=True, seed=seed)


def test_a_torch_device(load_host):
    assert read(load_host(device=torch.device("cpu"))) == wanted()


def test_ranks_without_a_sample_in_the_tail(load):
    loaders = support.ranks(load, 3, "tail", batch_size=67)
    last = [[*loader][-1] for loader in loaders]
    assert [tuple(body.shape) for _, body in last] == [(1, support.BODY), (1, support.BODY), (0, support.BODY)]
    assert last[2][1].float().sum() == 0


def test_arithmetic_and_gradients(load_host):
    weight = torch.ones(support.BODY, requires_grad=True)
    total = torch.zeros(support.BODY)
    for _, body in load_host():
        (body.float() @ weight).sum().backward()
        total += body.sum(0)
    assert torch.equal(weight.grad, total)


def test_saved_tensors_are_copies(load_host):
    batch = next(iter(load_host()))
    file = io.BytesIO()
    torch.save(batch, file)
    file.seek(0)
    assert samples_of(torch.load(file)) == list(range(16))


def test_a_state_in_a_checkpoint(load_host):
    loader = load_host()
    next(iter(loader))
    file = io.BytesIO()
    torch.save({"loader": loader.state_dict()}, file)
    file.seek(0)
    loader.load_state_dict(torch.load(file, weights_only=True)["loader"])
    assert read(loader) == wanted()[1:]


def test_writing_to_one_ends_the_process(daemon):
    """As the documents say: the memory is read-only, which PyTorch does not know. Other consumers never see it."""
    code = """
import feedd
for id, body in feedd.DataLoader("numbers", 16): body[0, 0] = 1
"""
    support.run(code, daemon=daemon, status=-signal.SIGSEGV)


@pytest.mark.parametrize("write", ["id.mul_(2)", "x = body.to(torch.uint8); x[0] = 0", "body.permute(1, 0)[3:].zero_()"])
def test_a_write_in_place_is_explained(daemon, write):
    code = f"""
import feedd, torch
(id, body), *_ = feedd.DataLoader("numbers", 16, copy=True)
{write}
print("a copy may be written to", flush=True)
id, body = next(iter(feedd.DataLoader("numbers", 16)))
{write}
"""
    output = support.run(code, daemon=daemon, status=-signal.SIGSEGV)
    assert output.startswith("a copy may be written to\n")
    assert "feedd: this process wrote to a batch" in output and "tensor.clone()" in output


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_in_torchs_own_loader(daemon, workers):
    dataset = feedd.Dataset("numbers", socket=daemon.socket)
    loader = torch.utils.data.DataLoader(dataset, 16, num_workers=workers)
    assert read(loader) == wanted()
    assert len(loader.dataset) == support.SAMPLES
    dataset.close()


def test_a_feedd_dataset_goes_both_ways(daemon):
    dataset = feedd.Dataset("numbers", socket=daemon.socket)
    with feedd.DataLoader(dataset, batch_size=16) as loader:
        assert read(loader) == wanted()
    assert torch.equal(dataset[3][1], next(iter(torch.utils.data.DataLoader(dataset, 4)))[1][3])
    dataset.close()
