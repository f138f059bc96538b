"""mixed(): MixUp and CutMix, compared with their formulas and their distributions."""

import data
import harness
import pytest
import support
import torch
from scipy import stats

import feedd
from feedd import mixing

SAMPLES, CLASSES, SHAPE = 40, 7, (3, 6, 10)
PIXELS = torch.rand((SAMPLES, *SHAPE), generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(SAMPLES) * 3 % CLASSES
RUN = {"shuffle": True, "seed": 4}


@pytest.fixture(scope="module")
def pictures():
    with harness.Instance() as instance:
        folder = instance.directory
        data.write_npy(folder / "image.npy", "<f4", (SAMPLES, *SHAPE), PIXELS.numpy().tobytes())
        data.write_npy(folder / "label.npy", "<i8", (SAMPLES,), LABELS.numpy().tobytes())
        instance.add_dataset("pictures", format="npy", field_image=folder / "image.npy", field_label=folder / "label.npy")
        yield instance.start()


def loader(daemon, **options):
    return feedd.DataLoader("pictures", 8, socket=daemon.socket, **{**RUN, **options})


def one_hot(labels):
    return torch.nn.functional.one_hot(labels, CLASSES).float()


def pairs(daemon, *kinds, **options):
    """Each batch as it is, and mixed."""
    with loader(daemon, copy=True, **options) as plain, loader(daemon, **options) as other:
        yield from zip(plain, feedd.mixed(other, *kinds, classes=CLASSES), strict=True)


def share_of(labels, targets):
    """The share of a sample that is its own, from one whose other has another class."""
    for row, (own, other) in enumerate(zip(labels, labels.roll(1))):
        if own != other:
            return targets[row, own].item()
    raise AssertionError("all samples of the batch are of one class")


@pytest.mark.parametrize("device", support.DEVICES)
def test_mix_up(pictures, device):
    for (images, labels), (mixed, targets) in pairs(pictures, feedd.MixUp(0.4), device=device):
        share = share_of(labels, targets)
        assert 0 <= share <= 1 and mixed.dtype is torch.float32 and targets.dtype is torch.float32
        assert mixed.device == images.device == targets.device
        torch.testing.assert_close(targets, share * one_hot(labels) + (1 - share) * one_hot(labels).roll(1, 0))
        torch.testing.assert_close(mixed, share * images + (1 - share) * images.roll(1, 0))


def test_cut_mix(pictures):
    boxes = set()
    for epoch in range(4):
        with loader(pictures, copy=True) as plain, loader(pictures) as other:
            plain.set_epoch(epoch)
            other.set_epoch(epoch)
            for (images, labels), (mixed, targets) in zip(plain, feedd.mixed(other, feedd.CutMix(), classes=CLASSES)):
                taken = (mixed != images).any(1)  # [batch, height, width]
                assert (mixed == torch.where(taken[:, None], images.roll(1, 0), images)).all()
                box = taken[0].nonzero()
                height, width = (box.max(0).values - box.min(0).values + 1).tolist() if len(box) else (0, 0)
                assert (taken == taken[0]).all() and taken[0].sum() == height * width
                assert share_of(labels, targets) == pytest.approx(1 - height * width / 60)
                boxes.add((height, width))
    assert len(boxes) > 8


def test_cut_mix_of_channels_last():
    images = torch.rand((4, 6, 10, 3))
    mixed, share = feedd.CutMix().mix(images, mixing.dice_of(1, 2, 3))
    other, same = feedd.CutMix().mix(images.permute(0, 3, 1, 2), mixing.dice_of(1, 2, 3))
    assert share == same < 1 and torch.equal(mixed.permute(0, 3, 1, 2), other)


def test_a_resumed_run_mixes_the_same_way(pictures):
    kinds = feedd.MixUp(0.4), feedd.CutMix()
    with loader(pictures) as first:
        whole = [(images.clone(), targets) for images, targets in feedd.mixed(first, *kinds, classes=CLASSES)]
    with loader(pictures) as first:
        batches = iter(feedd.mixed(first, *kinds, classes=CLASSES))
        next(batches), next(batches)
        state = first.state_dict()
    with loader(pictures) as second:
        second.load_state_dict(state)
        rest = list(feedd.mixed(second, *kinds, classes=CLASSES))
        assert len(rest) == len(whole) - 2
        for (images, targets), (right, wanted) in zip(rest, whole[2:]):
            assert torch.equal(images, right) and torch.equal(targets, wanted)


def test_what_is_drawn():
    places = [(seed, epoch, position) for seed in (0, 1) for epoch in (0, 1) for position in range(500)]
    drawn = [mixing.dice_of(*place).betavariate(0.4, 0.4) for place in places]
    assert len(set(drawn)) == len(places)
    assert drawn == [mixing.dice_of(*place).betavariate(0.4, 0.4) for place in places]
    assert stats.kstest(drawn, stats.beta(0.4, 0.4).cdf).pvalue > 0.001
    kinds = [mixing.dice_of(3, 0, position).choice("ab") for position in range(1000)]
    assert 430 < kinds.count("a") < 570


def test_the_generator_is_philox():
    """The vectors that its authors publish."""
    ones, digits = 2**128 - 1, 0x03707344_13198A2E_85A308D3_243F6A88
    for counter, key, wanted in (
        (0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (ones, 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (digits, 0x299F31D0_A4093822, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ):
        found = mixing._philox(key, counter)
        assert " ".join(f"{found >> 32 * place & 0xFFFFFFFF:08x}" for place in range(4)) == wanted


def test_dicts_and_other_fields(pictures):
    with loader(pictures, as_dict=True) as given:
        batch = next(iter(feedd.mixed(given, feedd.MixUp(), classes=CLASSES)))
        assert list(batch) == ["image", "label"] and batch["label"].shape == (8, CLASSES)
        assert len(feedd.mixed(given, feedd.MixUp(), classes=CLASSES)) == len(given) == 5


def test_wrong_use(pictures):
    with loader(pictures, framework="numpy") as arrays, loader(pictures) as given:
        with pytest.raises(TypeError, match="tensors of PyTorch, and this loader gives those of numpy"):
            feedd.mixed(arrays, feedd.MixUp(), classes=CLASSES)
        with pytest.raises(TypeError, match=r"feedd.MixUp\(\) and feedd.CutMix\(\)"):
            feedd.mixed(given, classes=CLASSES)
        with pytest.raises(TypeError, match="labels are class numbers"):
            next(iter(feedd.mixed(given, feedd.MixUp(), classes=CLASSES, label=0)))
    with pytest.raises(ValueError, match="alpha is 0, wanted a number above 0"):
        feedd.MixUp(0)
    dice = mixing.dice_of(0, 0, 0)
    with pytest.raises(TypeError, match="floating-point type, and these are torch.uint8"):
        feedd.MixUp().mix(torch.zeros((2, 3, 4, 4), dtype=torch.uint8), dice)
    with pytest.raises(ValueError, match="with 1 or 3 channels, and these are"):
        feedd.CutMix().mix(torch.zeros((2, 5)), dice)
