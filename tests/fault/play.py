"""Plays a scenario of make check-fault once."""

import time

from prepared import PreparedScene
from scenario import Scene

SCENES = {"prepared": PreparedScene}


def scene_of(kind):
    return SCENES.get(kind, Scene)


def run(kind, fault, calls, descriptors_most=None):
    """What happened, as a dictionary; `failure` if it was not right."""
    begin = time.monotonic()
    scene = scene_of(kind)(kind, fault, calls)
    result = {"failure": "", "log": ""}
    try:
        scene.play(descriptors_most)
        result["descriptors"] = scene.descriptors
    except Exception as failure:
        result["failure"] = f"{type(failure).__name__}: {failure}" if not isinstance(failure, AssertionError) else str(failure)
        result["log"] = scene.instance.read_log()
    finally:
        scene.close()
    return {
        **result, "outcome": scene.outcome(), "answers": scene.answers, "ends": scene.ends, "frames": scene.plan.frames(),
        "counts": scene.plan.counts(), "sites": scene.plan.sites(), "seconds": time.monotonic() - begin,
        "gap": scene.bystander.longest_s if scene.bystander else 0,
    }  # fmt: skip
