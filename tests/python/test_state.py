"""state_dict and load_state_dict: continuing exactly there."""

import json
import pickle

import pytest
import support
from support import SAMPLES, SHUFFLED, read, take, wanted

import feedd


@pytest.mark.parametrize("taken", [0, 1, 5, 12, 13])
def test_going_on_in_mid_epoch(load, taken):
    loader = load(**SHUFFLED)
    take(iter(loader), taken)
    state = loader.state_dict()
    again = load(**SHUFFLED)
    again.load_state_dict(state)
    whole = taken == len(loader)
    assert again.epoch == state["epoch"] == int(whole)
    assert read(again) == wanted(epoch=int(whole), **SHUFFLED)[0 if whole else taken :]
    assert read(again) == wanted(epoch=int(whole) + 1, **SHUFFLED)


def test_a_state_is_small_and_plain(load_host):
    loader = load_host(**SHUFFLED)
    take(iter(loader), 3)
    state = loader.state_dict()
    assert json.loads(json.dumps(state)) == pickle.loads(pickle.dumps(state)) == state
    assert len(json.dumps(state)) < 300


def test_a_state_does_not_move_the_loader(load_host):
    loader = load_host(**SHUFFLED)
    iterator = iter(loader)
    found = []
    for _ in range(len(loader)):
        loader.state_dict()
        found += take(iterator, 1)
    assert found == wanted(**SHUFFLED)


def test_a_state_of_the_second_epoch(load):
    loader = load(**SHUFFLED)
    read(loader)
    take(iter(loader), 4)
    again = load(**SHUFFLED)
    again.load_state_dict(loader.state_dict())
    assert (again.epoch, read(again)) == (1, wanted(epoch=1, **SHUFFLED)[4:])


def test_a_state_says_what_is_wanted_next(load_host):
    loader = load_host(**SHUFFLED)
    take(iter(loader), 4)
    loader.set_epoch(6)
    again = load_host(**SHUFFLED)
    again.load_state_dict(loader.state_dict())
    assert read(again) == wanted(epoch=6, **SHUFFLED)


def test_the_usual_loop_after_loading(load_host):
    """`for epoch in range(first, ...): loader.set_epoch(epoch); for batch in loader` continues where the state was taken."""
    loader = load_host(**SHUFFLED)
    read(loader)
    take(iter(loader), 4)
    again = load_host(**SHUFFLED)
    again.load_state_dict(loader.state_dict())
    again.set_epoch(again.epoch)
    assert again.state_dict() == loader.state_dict()
    assert read(again) == wanted(epoch=1, **SHUFFLED)[4:]
    again.set_epoch(again.epoch)
    assert read(again) == wanted(epoch=2, **SHUFFLED)


def test_loading_ends_an_iteration_and_may_be_repeated(load_host):
    loader = load_host(**SHUFFLED)
    iterator = iter(loader)
    take(iterator, 4)
    state = loader.state_dict()
    for _ in range(2):
        take(iterator, 2)
        loader.load_state_dict(state)
        with pytest.raises(feedd.Error, match="another iteration"):
            next(iterator)
        iterator = iter(loader)
    assert read(iterator) == wanted(**SHUFFLED)[4:]


def test_loading_takes_back_a_wanted_epoch(load_host):
    loader = load_host(**SHUFFLED)
    state = loader.state_dict()
    loader.set_epoch(9)
    loader.load_state_dict(state)
    assert (loader.epoch, read(loader)) == (0, wanted(**SHUFFLED))


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3), (3, 2)])
def test_going_on_with_another_world_size(load, before, after):
    loaders = support.ranks(load, before, f"before{before}-{after}")
    iterators = [iter(loader) for loader in loaders]
    for iterator in iterators:
        take(iterator, 4)
    states = [loader.state_dict() for loader in loaders]
    assert all(state == states[0] for state in states), "every rank says the same"
    consumed = 4 * 8 * before
    found = []
    others = support.ranks(load, after, f"after{before}-{after}")
    for loader in others:
        loader.load_state_dict(states[0])
    for rank, loader in enumerate(others):
        batches = read(loader)
        assert batches == wanted(8, world_size=after, rank=rank, consumed=consumed, **SHUFFLED)
        found += sum(batches, [])
    done = sum((sum(wanted(8, world_size=before, rank=rank, **SHUFFLED)[:4], []) for rank in range(before)), [])
    assert sorted(done + found) == list(range(SAMPLES))


def test_a_state_goes_to_another_process(daemon, load_host):
    code = """
import feedd, json
loader = feedd.DataLoader("numbers", 16, shuffle=True, seed=11, framework="numpy")
for _, batch in zip(range(5), loader): pass
print(json.dumps(loader.state_dict()))
"""
    loader = load_host(**SHUFFLED)
    loader.load_state_dict(json.loads(support.run(code, daemon=daemon)))
    assert read(loader) == wanted(**SHUFFLED)[5:]


def damaged_token(state):
    token = state["token"]
    middle = len(token) // 2
    return {**state, "token": token[:middle] + ("0" if token[middle] != "0" else "1") + token[middle + 1 :]}


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: None, lambda state: {}, lambda state: [state], lambda state: {**state, "feedd": 2},
        lambda state: {**state, "token": 7}, lambda state: {"feedd": 1}, lambda state: {**state, "token": ""},
        lambda state: {**state, "token": "x" * 5000}, lambda state: {**state, "token": state["token"][:-1]}, damaged_token,
        lambda state: {**state, "token": "x\ud800"},
    ],
)  # fmt: skip
def test_a_damaged_state_changes_nothing(load_host, damage):
    loader = load_host(**SHUFFLED)
    take(iter(loader), 3)
    with pytest.raises(ValueError) as found:
        loader.load_state_dict(damage(loader.state_dict()))
    assert len(str(found.value)) > 20
    loader.load_state_dict(loader.state_dict())
    assert read(loader) == wanted(**SHUFFLED)[3:]


@pytest.mark.parametrize("change", [{"seed": 12}, {"dataset": "tokens"}, {"shuffle": False}])
def test_a_state_of_something_else(load_host, change):
    other = load_host(**{**SHUFFLED, **change})
    loader = load_host(**SHUFFLED)
    take(iter(loader), 3)
    with pytest.raises(feedd.OptionError, match="token"):
        loader.load_state_dict(other.state_dict())
    loader.load_state_dict(loader.state_dict())
    assert read(loader) == wanted(**SHUFFLED)[3:]


def test_a_state_whose_epoch_is_a_lie(load_host):
    """The token says where; the number beside it is for people."""
    loader = load_host(**SHUFFLED)
    take(iter(loader), 3)
    again = load_host(**SHUFFLED)
    again.load_state_dict({**loader.state_dict(), "epoch": 77})
    assert (again.epoch, read(again)) == (0, wanted(**SHUFFLED)[3:])
