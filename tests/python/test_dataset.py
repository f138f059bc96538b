"""Dataset: single samples."""

import operator
import time

import data
import harness
import pytest
import support
from support import SAMPLES

import feedd


@pytest.fixture
def numbers(daemon):
    dataset = feedd.Dataset("numbers", framework=support.FRAMEWORK, socket=daemon.socket)
    yield dataset
    dataset.close()


def check(sample, number):
    identity, body = sample
    assert int(identity) == number
    assert body.shape == (support.BODY,) and support.raw(body) == data.sample_bytes(number, support.RECORD)[8:]


def test_what_it_is(numbers):
    assert len(numbers) == SAMPLES
    assert numbers.fields == (("id", "uint64", ()), ("body", "uint8", (support.BODY,)))
    assert repr(numbers) == "feedd.Dataset('numbers')"


@pytest.mark.parametrize("order", [(0, 1, 2), (5,), (7, 3, 4, 4, 202, 0), (-1, -SAMPLES, 100)])
def test_samples_by_number(numbers, order):
    for index in order:
        check(numbers[index], index % SAMPLES)


@pytest.mark.parametrize("part", [slice(3), slice(2, 8, 3), slice(-2, None), slice(5, 2), slice(4, 1, -1), slice(200, 300)])
def test_slices(numbers, part):
    found = numbers[part]
    right = list(range(SAMPLES))[part]
    assert isinstance(found, list) and len(found) == len(right)
    for sample, number in zip(found, right):
        check(sample, number)


@pytest.mark.parametrize("index", [SAMPLES, -SAMPLES - 1, 10**30])
def test_out_of_range(numbers, index):
    with pytest.raises(IndexError, match=str(SAMPLES)):
        numbers[index]


@pytest.mark.parametrize("index", [1.0, "1", None, (1, 2)])
def test_what_is_no_number(numbers, index):
    with pytest.raises(TypeError):
        numbers[index]


def test_what_counts_as_a_number(numbers):
    class Number:
        def __index__(self):
            return 3

    check(numbers[Number()], operator.index(Number()))


def test_iterating(numbers):
    for turn in range(2):
        found = list(numbers)
        assert len(found) == SAMPLES
        for number, sample in enumerate(found):
            check(sample, number)


def test_memory_of_their_own(numbers):
    sample = numbers[3]
    sample[1][:] = 9
    others = [numbers[i] for i in range(50)]
    assert support.raw(sample[1]) == bytes([9]) * support.BODY
    check(others[3], 3)


def test_as_dict(daemon):
    dataset = feedd.Dataset("numbers", framework=support.FRAMEWORK, socket=daemon.socket, as_dict=True)
    sample = dataset[7]
    assert list(sample) == ["id", "body"]
    check(sample.values(), 7)
    dataset.close()


def test_closing_is_no_end(numbers, daemon):
    check(numbers[4], 4)
    numbers.close()
    support.check_sessions(daemon, 0)
    check(numbers[5], 5)
    numbers.close()
    check(numbers[0], 0)
    numbers.close()
    numbers.close()


def test_the_daemon_is_asked_late(tmp_path):
    dataset = feedd.Dataset("numbers", socket=tmp_path / "none.sock", framework="numpy")
    for use in (len, list, lambda it: it[0], lambda it: it.fields):
        with pytest.raises(feedd.Error):
            use(dataset)


def test_a_dataset_that_is_not_there(daemon):
    with pytest.raises(feedd.Error, match="nothing-like-it"):
        feedd.Dataset("nothing-like-it", socket=daemon.socket, framework="numpy")[0]


def test_wrong_arguments(daemon):
    for options in ({"framework": "tensorflow"}, {"framework": "dlpack"}):
        with pytest.raises(ValueError):
            feedd.Dataset("numbers", socket=daemon.socket, **options)[0]
    with pytest.raises(TypeError):
        feedd.Dataset(7)


def test_a_daemon_that_was_away():
    """The daemon restarts in between: the next sample still comes."""
    with support.instance() as daemon:
        dataset = feedd.Dataset("numbers", framework=support.FRAMEWORK, socket=daemon.socket)
        check(dataset[4], 4)
        daemon.stop()
        daemon.start()
        check(dataset[5], 5)
        check(dataset[0], 0)
        daemon.stop()
        with pytest.raises(feedd.Error):
            dataset[100]
        daemon.start()
        check(dataset[100], 100)
        check(dataset[101], 101)
        dataset.close()


@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_samples_that_cannot_be_read(on_error):
    """Half of the file is gone."""
    with harness.Instance() as daemon:
        path = data.add_records(daemon, samples=1000, size=64, on_error=on_error)
        daemon.start()
        with open(path, "r+b") as file:
            file.truncate(64 * 500)
        dataset = feedd.Dataset("numbers", framework=support.FRAMEWORK, socket=daemon.socket)
        assert support.raw(dataset[3][0]) == data.sample_bytes(3, 64)
        time.sleep(0.3)  # samples far ahead are not read during that time, so they do not fail
        assert [support.raw(x) for (x,) in dataset[4:8]] == [data.sample_bytes(number, 64) for number in range(4, 8)]
        with pytest.raises(feedd.Error):
            dataset[900]
        assert support.raw(dataset[4][0]) == data.sample_bytes(4, 64)
        dataset.close()


def test_loader_dataset(load_host):
    loader = load_host()
    assert len(loader.dataset) == SAMPLES
    check(loader.dataset[5], 5)
    loader.dataset.close()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_in_other_processes(daemon, tmp_path, method):
    """As the workers of torch's DataLoader use it, which ask for its length first."""
    code = """
import feedd, multiprocessing, sys
def work(dataset, first, pipe):
    pipe.send([int(dataset[i][0]) for i in range(first, first + 5)])
if __name__ == "__main__":
    dataset = feedd.Dataset("numbers", framework="numpy")
    assert len(dataset) == 203 and int(dataset[1][0]) == 1
    context = multiprocessing.get_context(sys.argv[2])
    for first in (2, 7):
        here, there = context.Pipe()
        process = context.Process(target=work, args=(dataset, first, there))
        process.start()
        print(*here.recv(), flush=True)
        process.join()
        assert process.exitcode == 0
    print(int(dataset[2][0]))
"""
    program = tmp_path / "program.py"
    program.write_text(code)
    output = support.run("import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')", program, method, daemon=daemon)
    assert support.numbers_of(output) == [list(range(2, 7)), list(range(7, 12)), [2]]
