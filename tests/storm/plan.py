"""What happens when: a list made from the seed alone. What an event hits depends on what is there at that moment."""

import random

# Events per second; those of UPSETTING concern everybody and are not planned for the last third of a round, so that the
# last daemon of a round has lived through all others when it is looked at.
RATES = {
    "kill_loader": 3.5,
    "kill_transfer": 0.5,
    "kill_supervisor": 0.4,
    "kill_consumer": 1.5,
    "kill_attaching": 0.7,
    "pause_loader": 0.25,
    "pause_transfer": 0.06,
    "pause_supervisor": 0.1,
    "pause_consumer": 0.25,
    "visit": 1.0,
    "reload": 0.25,
    "few_descriptors": 0.06,
    "small_files": 0.04,
    "little_memory": 0.03,
    "flood": 0.04,
    "failing_reads": 0.12,
    "slow_reads": 0.08,
    "hanging_reads": 0.04,
    "cut_file": 0.15,
    "lose_files": 0.15,
    "grow_folder": 0.1,
}
UPSETTING = {"kill_supervisor", "pause_supervisor", "little_memory"}
PATIENT = {"cut_file", "lose_files"}  # seldom possible at once, so they are tried again
APART_S = 2.5  # so that the recovery from each of them can be seen


def make(seed, round_number, seconds, rate):
    """[(seconds since the beginning of the round, event, seed of the event)], sorted."""
    chance = random.Random(f"{seed} {round_number}")
    events = []
    for name, each in RATES.items():
        at = chance.expovariate(each * rate)
        while at < seconds:
            events.append((at, name, chance.getrandbits(32)))
            at += chance.expovariate(each * rate)
    last, kept = -APART_S, []
    for event in sorted(events):
        if event[1] in UPSETTING:
            if event[0] > seconds * 2 / 3 or event[0] - last < APART_S:
                continue
            last = event[0]
        kept.append(event)
    return kept
