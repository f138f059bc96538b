"""The arguments of DataLoader: torch's, and feedd's own."""

import inspect
import pathlib
import re

import pytest
import support
from support import read, wanted

import feedd

# torch.utils.data.DataLoader of PyTorch 2.13; test_torch_tensors.py looks whether it still is.
POSITIONAL = [
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory", "drop_last",
    "timeout", "worker_init_fn", "multiprocessing_context", "generator",
]  # fmt: skip
BY_NAME = ["prefetch_factor", "persistent_workers", "pin_memory_device", "in_order"]


class Generator:
    """What feedd takes of a torch.Generator."""

    def __init__(self, seed):
        self.seed = seed

    def initial_seed(self):
        return self.seed


def test_the_signature_is_torchs():
    parameters = list(inspect.signature(feedd.DataLoader).parameters.values())
    names = [parameter.name for parameter in parameters]
    assert names[: len(POSITIONAL)] == POSITIONAL
    assert names[len(POSITIONAL) : len(POSITIONAL) + len(BY_NAME)] == BY_NAME
    kinds = {parameter.name: parameter.kind for parameter in parameters}
    assert all(kinds[name] is inspect.Parameter.POSITIONAL_OR_KEYWORD for name in POSITIONAL)
    assert all(kinds[name] is inspect.Parameter.KEYWORD_ONLY for name in names[len(POSITIONAL) :])


def test_positions(daemon, monkeypatch):
    monkeypatch.setenv("FEEDD_SOCKET", str(daemon.socket))
    generator = Generator(5)
    with feedd.DataLoader(
        "numbers", 16, True, None, None, 0, None, False, True, 3.0, None, None, generator, framework=support.FRAMEWORK
    ) as loader:
        assert read(loader) == wanted(shuffle=True, seed=5, drop_last=True)
        assert loader.timeout == 3.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sampler", None), ("batch_sampler", None), ("num_workers", 0), ("collate_fn", None), ("pin_memory", False),
        ("timeout", 0), ("timeout", 0.5), ("timeout", 10**12), ("worker_init_fn", None), ("multiprocessing_context", None),
        ("generator", None), ("prefetch_factor", None), ("prefetch_factor", 2), ("persistent_workers", False),
        ("pin_memory_device", ""), ("in_order", True), ("shuffle", None), ("shuffle", False),
        ("drop_last", False), ("device", "cpu"), ("seed", None), ("share", None), ("copy", False), ("local_world_size", None),
    ],
)  # fmt: skip
def test_values_that_ask_for_nothing(load_host, name, value):
    assert read(load_host(**{name: value})) == wanted()


@pytest.mark.parametrize("names", [["pin_memory"], ["persistent_workers"], ["pin_memory", "persistent_workers"]])
def test_values_without_effect_are_taken_with_one_warning(load_host, names):
    with pytest.warns(RuntimeWarning) as said:
        loader = load_host(**{name: True for name in names})
    assert read(loader) == wanted()
    (warning,) = said
    assert all(f"{name}=True has no effect" in str(warning.message) for name in names)
    assert warning.filename == support.__file__, "it points to the caller"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("transform", r"transform\.FIELD= .* feedd\.conf"), ("root", "path="), ("download", "there already"),
        ("train", "split="), ("subset", "indices="), ("num_samples", "epoch_samples="), ("replacement", "weights="),
        ("batchsize", "did you mean 'batch_size'"),
        ("num_worker", "'num_workers'"), ("nonsense", "has no argument 'nonsense'$"),
    ],
)  # fmt: skip
def test_an_argument_of_something_else_is_explained(load_host, name, says):
    with pytest.raises(TypeError, match=rf"DataLoader\(\) has no argument '{name}'.*") as found:
        load_host(**{name: 1})
    assert re.search(says, str(found.value))
    if name != "batchsize" and name != "num_worker":
        with pytest.raises(TypeError, match=rf"Dataset\(\) has no argument '{name}'") as found:
            feedd.Dataset("numbers", **{name: 1})
        assert re.search(says, str(found.value))


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("sampler", [1, 2], "shuffle= and seed=.*indices="), ("sampler", iter(()), "weights= draws"),
        ("batch_sampler", [[1]], "batch_size=.*indices="),
        ("num_workers", 4, r"feedd\. The daemon.*loaders="),
        ("num_workers", False, "num_workers"), ("collate_fn", list, "transform"), ("pin_memory", 1, "pin_memory=1"),
        ("worker_init_fn", print, "no worker processes"), ("multiprocessing_context", "spawn", "no worker processes"),
        ("pin_memory_device", "cuda", 'device="cuda'), ("in_order", False, "in order"), ("persistent_workers", 1, "persistent"),
        ("batch_size", None, "Dataset"), ("batch_size", 0, "batch_size=0: must be between 1 and 16777215"),
        ("batch_size", -1, "batch_size"), ("batch_size", 2**24, "batch_size"), ("timeout", -1, "negative"),
        ("timeout", float("nan"), "timeout"), ("seed", -1, "seed"), ("seed", 2**64, "seed"),
        ("prefetch_factor", 0, "prefetch_factor"), ("prefetch_factor", 4095, "prefetch_factor"),
        ("framework", "tensorflow", "not one of torch, numpy"), ("framework", "cupy", "no tensors in host memory"),
        ("world_size", 2, "together"), ("rank", 0, "together"), ("device", "xpu", "not a GPU"),
    ],
)  # fmt: skip
def test_values_that_cannot_be(load_host, name, value, says):
    with pytest.raises(ValueError, match=says) as found:
        load_host(**{name: value})
    assert len(str(found.value)) > 20


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", 1.5), ("batch_size", "16"), ("batch_size", True), ("timeout", "1"), ("timeout", True), ("seed", 1.0),
        ("generator", 7), ("share", 7), ("prefetch_factor", 2.0), ("local_world_size", "2"), ("nonsense", 1),
    ],
)  # fmt: skip
def test_values_of_another_kind(load_host, name, value):
    with pytest.raises(TypeError, match=name):
        load_host(**{name: value})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rank": 2, "world_size": 2, "share": "x"}, "rank=2: must be between 0 and 1"),
        ({"rank": -1, "world_size": 2, "share": "x"}, "rank=-1"),
        ({"rank": 0, "world_size": 0}, "world_size=0"),
        ({"rank": 0, "world_size": 2, "local_world_size": 3, "share": "x"}, "local_world_size=3"),
        ({"rank": 0, "world_size": 2, "local_world_size": 0, "share": "x"}, "local_world_size=0"),
        ({"rank": 0, "world_size": 2}, "share="),
        ({"seed": 1, "generator": Generator(1)}, "not both"),
        ({"framework": "dlpack", "copy": True}, "copy"),
    ],
)
def test_values_that_do_not_fit_together(load_host, options, says):
    with pytest.raises(ValueError, match=says):
        load_host(**options)


@pytest.mark.parametrize("dataset", [None, 7, b"numbers", ["numbers"], object()])
def test_a_dataset_is_a_name(load_host, dataset):
    with pytest.raises(TypeError, match="not a dataset's name"):
        load_host(dataset)


def test_a_dataset_object_brings_its_socket(daemon):
    dataset = feedd.Dataset("numbers", socket=daemon.socket, framework="numpy")
    with feedd.DataLoader(dataset, 16, framework=support.FRAMEWORK) as loader:
        assert loader.dataset is dataset
        assert read(loader) == wanted()


@pytest.mark.parametrize("kind", [str, pathlib.Path])
def test_socket_as_text_or_path(load_host, daemon, kind):
    assert read(load_host(socket=kind(daemon.socket))) == wanted()


def test_wrong_arguments_are_found_before_a_daemon_is(tmp_path):
    for options in ({"framework": "tensorflow"}, {"num_workers": 2}, {"seed": -1}, {"rank": 1}, {"timeout": -1}):
        with pytest.raises(ValueError) as found:
            feedd.DataLoader("numbers", socket=tmp_path / "none.sock", **options)
        assert not isinstance(found.value, feedd.Error)


def test_a_generators_initial_seed(load_host):
    assert read(load_host(shuffle=True, generator=Generator(2**64 - 3))) == wanted(shuffle=True, seed=2**64 - 3)


def test_a_failed_construction_leaves_nothing(daemon):
    for options in ({"framework": "cupy"}, {"framework": "dlpack", "copy": True}):
        with pytest.raises(ValueError):
            support.loader(daemon, **options)
    support.check_sessions(daemon, 0)


def test_the_default_framework():
    """PyTorch where it is, else NumPy, else none is needed."""
    code = """
import importlib.abc, sys
class Hide(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in hidden: raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hide())
hidden = sys.argv[1:]
import feedd
from feedd import frameworks
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in hidden else find(name)
print(frameworks.choose(None, "cpu"), feedd.DataLoader("numbers", 16).framework)
"""
    with support.instance() as instance:
        assert support.run(code, "torch", daemon=instance).split() == ["numpy"] * 2
        assert support.run(code, "torch", "numpy", daemon=instance).split() == ["dlpack"] * 2


@pytest.mark.parametrize("options", [{"dataset": "numbers\0"}, {"share": "a\0b"}, {"socket": "/tmp\0"}])
def test_a_text_with_a_zero_in_it(load_host, options):
    with pytest.raises(ValueError, match="character 0"):
        load_host(**options)
