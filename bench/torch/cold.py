"""A process that starts cold: cold.py JSON. Says how long importing took, and then how long it is to the first batch. Once:
in a copy made by fork each first touch of a page, of which there are hundreds, would cost a fault more."""

import json
import os
import sys
import time


def first_batch(task):
    """Milliseconds from nothing to the first batch, and that batch's images."""
    began = time.perf_counter()
    if task["side"] == "feedd":
        import feedd
        share = task.get("share")
        # Another seed is another feed.
        seed = 0 if share or task.get("again") else os.getpid()
        loader = feedd.DataLoader("cifar", 64, shuffle=True, drop_last=True, seed=seed, share=share,
                                  framework=task["framework"])
        _, images = next(iter(loader))
    else:
        import cifar
        loader = cifar.loader(task["path"], task["workers"], context=task.get("context"))
        images, _ = next(iter(loader))
    milliseconds = (time.perf_counter() - began) * 1e3
    assert tuple(images.shape) == (64, 3, 32, 32), images.shape
    return milliseconds


def main():
    task = json.loads(sys.argv[1])
    for name in ("feedd", task["framework"]) if task["side"] == "feedd" else ("cifar",):
        __import__(name)
    imported = (time.clock_gettime(time.CLOCK_MONOTONIC) - task["began"]) * 1e3
    first = first_batch(task)
    print(json.dumps({"imported": imported, "first": first}), flush=True)
    os._exit(0)  # whose workers end with it


if __name__ == "__main__":
    main()
