"""Transforms, as a training loop sees them."""

import harness
import numpy
import pytest
import support
from support import raw, wanted

import feedd

SAMPLES, SHAPE = 50, (3, 4, 5)
MEAN, STD = (0.507, 0.487, 0.441), (0.268, 0.257, 0.276)
TRANSFORMS = {
    "scaled": "cast f32, scale 1/255",
    "normal": f"scale 1/255, mean {' '.join(map(str, MEAN))}, std {' '.join(map(str, STD))}",
    "half": "scale 1/255, cast f16",
    "brain": "scale 2, shift -255, cast bf16",
}
PIXELS = numpy.random.default_rng(3).integers(0, 256, (SAMPLES, *SHAPE), dtype=numpy.uint8)


def channels(values):
    return numpy.array(values, dtype=numpy.float32).reshape(3, 1, 1)


def transformed(name):
    """What NumPy makes of it."""
    scaled = PIXELS.astype(numpy.float32) * numpy.float32(1 / 255)
    if name == "scaled":
        return scaled
    if name == "normal":
        return (scaled - channels(MEAN)) / channels(STD)
    if name == "half":
        return scaled.astype(numpy.float16)
    bits = (PIXELS.astype(numpy.float32) * numpy.float32(2) + numpy.float32(-255)).view(numpy.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


@pytest.fixture(scope="module")
def images():
    with harness.Instance() as daemon:
        file = daemon.directory / "images.npy"
        labels = daemon.directory / "labels.npy"
        numpy.save(file, PIXELS)
        numpy.save(labels, numpy.arange(SAMPLES, dtype=numpy.int64))
        for name, steps in TRANSFORMS.items():
            daemon.add_dataset(name, format="npy", field_image=file, field_label=labels, transform_image=steps)
        yield daemon.start()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_bit_for_bit_what_numpy_makes(images, device, name):
    if name == "brain" and support.FRAMEWORK == "numpy":
        framework = {"framework": "dlpack"}  # NumPy has no such type
    else:
        framework = {}
    right = transformed(name)
    with support.loader(images, name, 8, shuffle=True, seed=11, device=device, **framework) as loader:
        dtype = {"half": "float16", "brain": "bfloat16"}.get(name, "float32")
        assert loader.fields == (("image", dtype, (8, *SHAPE)), ("label", "int64", (8,)))
        for (image, label), samples in zip(loader, wanted(8, SAMPLES, shuffle=True, seed=11), strict=True):
            assert tuple(image.shape) == (len(samples), *SHAPE)
            assert raw(label) == numpy.array(samples, dtype=numpy.int64).tobytes()
            assert raw(image) == right[samples].tobytes()


def test_single_samples_are_transformed(images):
    dataset = feedd.Dataset("normal", framework=support.FRAMEWORK, socket=images.socket)
    assert dataset.fields == (("image", "float32", SHAPE), ("label", "int64", ()))
    image, label = dataset[17]
    assert int(label) == 17 and raw(image) == transformed("normal")[17].tobytes()
    dataset.close()


def test_states_are_of_a_transform(images):
    """Another transform is another dataset: continuing with it would be training on something else."""
    with support.loader(images, "scaled") as one, support.loader(images, "normal") as other:
        with pytest.raises(feedd.OptionError):
            other.load_state_dict(one.state_dict())


def test_by_serve(images):
    config = {
        "images": {
            "format": "npy", "field.image": images.directory / "images.npy", "transform.image": "cast f32, scale 1/255",
        }
    }  # fmt: skip
    with feedd.serve(config, program=harness.PROGRAMS / "feedd"):
        with feedd.DataLoader("images", SAMPLES, framework="numpy") as loader:
            ((image,),) = loader
            assert image.dtype == numpy.float32 and (image == transformed("scaled")).all()
