"""Fields whose samples differ in length, as PyTorch's jagged nested tensors."""

import pytest
import support
import test_ragged
import torch
from test_ragged import TEXTS, check_pair, numbers_of

import feedd

texts = test_ragged.texts  # a fixture

# The first one imports parts of PyTorch that set environment variables.
torch.nested.nested_tensor_from_jagged(torch.zeros(1), torch.tensor([0, 1]), min_seqlen=1, max_seqlen=1)


@pytest.mark.parametrize("device", support.DEVICES)
@pytest.mark.parametrize("copy", (False, True))
def test_nested_tensors_are_the_default(texts, device, copy):
    seen = []
    with feedd.DataLoader("texts", 16, socket=texts.socket, device=device, copy=copy, **support.SHUFFLED) as loader:
        for text, cls in loader:
            numbers = numbers_of(cls)
            assert text.is_nested and text.layout is torch.jagged and text.dtype is torch.uint8
            assert text.size(0) == len(numbers)
            check_pair(text.values(), text.offsets(), numbers)
            assert [bytes(one.tolist()) for one in text.unbind()] == [TEXTS[number] for number in numbers]
            seen += numbers
    assert sorted(seen) == list(range(len(TEXTS)))


def test_a_nested_tensor_is_what_torch_can_work_with(texts):
    with feedd.DataLoader("texts", 16, socket=texts.socket) as loader:
        text, cls = next(iter(loader))
        wanted = [TEXTS[number] for number in numbers_of(cls)]
        padded = text.to(torch.int32).to_padded_tensor(0)
        assert padded.shape == (16, max(map(len, wanted)))
        assert [sum(one) for one in wanted] == padded.sum(1).tolist()


def test_it_lies_where_the_batch_lies(texts):
    with feedd.DataLoader("texts", 16, socket=texts.socket, ragged="pair") as loader:
        (values, offsets), _cls = next(iter(loader))
        array = torch.nested.nested_tensor_from_jagged(values, offsets)
        assert array.values().data_ptr() == values.data_ptr()
