"""A training job on the CPU that writes checkpoints, for training.py and image_training.py to kill and to start again."""

import os
from typing import NamedTuple

import feedd
import torch
from torch import nn

import fashion
from harness import child_main, say
from resnet import resnet

EVERY = 20  # steps between checkpoints


class Task(NamedTuple):
    """What is trained: the dataset's name at the daemon, the network, and what a batch becomes before it."""
    dataset: str
    batch: int
    network: object
    prepare: object


TASKS = {
    "fashion": Task("fashion", 512, fashion.small_network, lambda images: images.unsqueeze(1)),
    "photographs": Task("small", 32, lambda: resnet(8, 200), lambda images: images.permute(0, 3, 1, 2).float()),
}


def save(path, step, model, optimizer, loader):
    """Whole or not at all."""
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "loader": loader.state_dict()}, path + ".part")
    os.replace(path + ".part", path)


def train(_, task):
    """Continues from the checkpoint if there is one. Each loss is recorded exactly, with its step."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(task["seed"])
    what = TASKS[task["kind"]]
    model = what.network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = feedd.DataLoader(what.dataset, what.batch, shuffle=True, drop_last=True, seed=task["seed"], socket=task["socket"])
    step = 0
    if os.path.exists(task["checkpoint"]):
        state = torch.load(task["checkpoint"])
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        step = state["step"]
    with open(task["losses"], "a", encoding="ascii") as losses:
        while step < task["steps"]:
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(what.prepare(images)), labels.long())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.write(f"{step} {loss.item().hex()}\n")
                losses.flush()
                step += 1
                if step % EVERY == 0:
                    save(task["checkpoint"], step, model, optimizer, loader)
                if step == task["steps"]:
                    break
    say(steps=step)


if __name__ == "__main__":
    child_main(train)
