"""Operations on images, against torchvision's, with each of the instruction sets that torch can be told to use."""

import json
import os
import pathlib
import subprocess
import sys

import harness
import colour_vectors
import pytest
import torch

LIMIT_S = 110 * harness.SLOWNESS
HERE = pathlib.Path(__file__).resolve().parent
# torch rounds x + y * z once with AVX2 and AVX-512, and twice without.
ONCE = {"AVX512": ["avx512", "avx2"], "AVX2": ["avx2"]}.get(torch.backends.cpu.get_cpu_capability(), [])
# Half-way between two pixels, the library that torch multiplies matrices with decides.
GEOMETRIC = {"ShearX", "ShearY", "Rotate"}

pytestmark = pytest.mark.limit(120)


def compare(group, capability):
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability, "PYTHONPATH": str(HERE)}
    command = [sys.executable, str(HERE / "image_compare.py"), group]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found and all(one["values"] for one in found.values())
    return found


@pytest.mark.parametrize("capability", ONCE)
@pytest.mark.parametrize("group", ["compare_colours", "every_colour", "erased"])
def test_colours_have_the_same_bits(group, capability):
    for name, found in compare(group, capability).items():
        if name == "contrast":  # torch rounds the last values twice
            assert found["early"] == 0 and found["worst"] <= 1, found
        else:
            assert found["different"] == 0, (name, found)


@pytest.mark.parametrize("capability", ONCE)
def test_a_sum_that_torch_does_not_have_exactly_changes_values_by_one(capability):
    assert compare("large_contrast", capability)["contrast"]["worst"] <= 1


@pytest.mark.parametrize("capability", ONCE)
def test_augmentations_have_the_same_bits(capability):
    for name, found in compare("augmentations", capability).items():
        if name in GEOMETRIC:
            assert found["different"] <= found["values"] / 1000, (name, found)
        elif name == "Contrast":
            assert found["early"] == 0 and found["worst"] <= 1, found
        else:
            assert found["different"] == 0, (name, found)


@pytest.mark.parametrize("capability", ONCE)
def test_magnitudes_have_the_same_bits(capability):
    assert not {name: found for name, found in compare("every_magnitude", capability).items() if found["different"]}


def test_without_avx2_few_values_of_torch_differ_by_one():
    for name, found in compare("augmentations", "default").items():
        assert found["different"] <= found["values"] / 100, (name, found)
        assert found["worst"] <= 1 or name in GEOMETRIC, (name, found)


def test_the_vectors_of_the_unit_tests_are_torchvisions():
    if ONCE:
        assert colour_vectors.header() == (HERE.parent / "unit/colour_vectors.h").read_text()
    else:
        pytest.skip("torch rounds twice on this processor")
