"""Peak host memory of bringing 512 MiB from a file to the GPU: pinned on allocation, pinned later, fed by feedd."""

import contextlib

import feedd
import torch

from data import FLOATS, floats, floats_dataset
from harness import BenchError, MIB, Talk, child_main, listen, median, say
from procs import Peak, memory_available, total

QUESTION = "how much host memory does a tensor of 512 MiB on its way to the GPU take, at most?"
COLUMNS = 1024
ROWS = FLOATS // COLUMNS
BYTES = FLOATS * 4
STAGE = 32 * MIB
RING = 32 * MIB
BATCH = 2048  # rows, 8 MiB
GOAL = 1.02

def fill(tensor, path):
    """Reads the file into the tensor's own memory."""
    view = memoryview(tensor.numpy()).cast("B")
    with open(path, "rb", buffering=0) as file:
        done = 0
        while done < len(view):
            done += file.readinto(view[done:done + 8 * MIB])
    return tensor


def pinned_at_once(_, path, target):
    tensor = fill(torch.empty(ROWS, COLUMNS, pin_memory=True), path)
    target.copy_(tensor, non_blocking=True)
    return tensor


def pinned_later(_, path, target):
    tensor = fill(torch.empty(ROWS, COLUMNS), path)
    tensor = tensor.pin_memory()
    target.copy_(tensor, non_blocking=True)
    return tensor


def registered(_, path, target):
    tensor = fill(torch.empty(ROWS, COLUMNS), path)
    runtime = torch.cuda.cudart()
    status = runtime.cudaHostRegister(tensor.data_ptr(), BYTES, 0)
    if int(status) != 0:
        raise BenchError(f"cudaHostRegister: {status}")
    target.copy_(tensor, non_blocking=True)
    torch.cuda.synchronize()
    runtime.cudaHostUnregister(tensor.data_ptr())
    return tensor


def staged(_, path, target):
    rows = STAGE // (4 * COLUMNS)
    stage = torch.empty(rows, COLUMNS, pin_memory=True)
    view = memoryview(stage.numpy()).cast("B")
    with open(path, "rb", buffering=0) as file:
        for first in range(0, ROWS, rows):
            file.readinto(view)
            target[first:first + rows].copy_(stage, non_blocking=True)
            torch.cuda.synchronize()
    return stage


def pageable(setting, path, target):
    tensor = fill(torch.empty(ROWS, COLUMNS), path)
    if setting.gpu:
        target.copy_(tensor)
    else:
        for rows in tensor.split(BATCH):
            target += rows.sum(0, dtype=torch.float64)
    return tensor


def fed(setting, path, target):
    """The daemon is started here, so that all of it counts."""
    dataset = floats_dataset(path, COLUMNS, io="uring")  # maps no file: every page it has is its own
    with setting.feedd({"rows": dataset}, ring=RING, loaders=4):
        with feedd.DataLoader("rows", BATCH, device=setting.feedd_device) as loader:
            first = 0
            for (rows,) in loader:
                if setting.gpu:
                    target[first:first + len(rows)].copy_(rows)
                else:
                    target += rows.sum(0, dtype=torch.float64)
                first += len(rows)
                del rows
        setting.wait()
        say(step="peak")  # while the daemon is there
        listen()
    return target


# Whether it needs a GPU, and what it is.
WAYS = {
    "torch: pinned on allocation": (True, pinned_at_once),
    "torch: pinned later, tensor.pin_memory()": (True, pinned_later),
    "torch: registered in place, cudaHostRegister": (True, registered),
    "torch: through one pinned buffer of 32 MiB": (True, staged),
    "torch: pageable": (False, pageable),
    "feedd": (False, None),
}


def child(setting, task):
    """Everything that would be there anyway comes before `ready`: CUDA, its first pinned page, the place on the GPU."""
    way, path = task["way"], task["path"]
    torch.set_num_threads(1)
    if setting.gpu:
        target = torch.zeros(ROWS, COLUMNS, device=setting.torch_device)
        torch.zeros(1024, pin_memory=True).to(setting.torch_device, non_blocking=True)
        target.sum(0, dtype=torch.float64).cpu()
        torch.cuda.synchronize()
    else:
        target = torch.zeros(COLUMNS, dtype=torch.float64)
    say(step="ready")
    listen()
    if way == "feedd":
        fed(setting, path, target)
    else:
        held = [WAYS[way][1](setting, path, target)]
        setting.wait()
        held.clear()
        say(step="peak")
        listen()
    sums = target.sum(0, dtype=torch.float64) if setting.gpu else target
    say(sums=sums.cpu().tolist())


def a_round(setting, ways, path):
    """Each way in a separate process. They start together, and then do their work one after the other."""
    with contextlib.ExitStack() as stack:
        helpers = {way: stack.enter_context(Talk("memory.py", setting, {"way": way, "path": path})) for way in ways}
        for helper in helpers.values():
            helper.hear()
        results = {}
        for way, helper in helpers.items():
            results[way] = once(helper)
            helper.__exit__()
    return results


def once(helper):
    before = total(Peak(helper.pid).stop())
    available = memory_available()
    peak = Peak(helper.pid)
    helper.tell()
    helper.hear()
    most = peak.stop()
    helper.tell()
    sums = helper.hear()["sums"]
    parts = {}
    for pid, (name, size) in most.items():
        part = "client" if pid == helper.pid else name
        parts[part] = parts.get(part, 0) + size - (before if part == "client" else 0)
    return {"processes": total(most) - before, "machine": available - peak.least_available, "parts": parts,
            "sums": sums, "looks": peak.looks}


def measure(setting, report):
    path = floats(setting)
    ways = [way for way, (needs_gpu, _) in WAYS.items() if setting.gpu or not needs_gpu]
    found = {way: [] for way in ways}
    for _ in range(setting.rounds):
        for way, result in a_round(setting, ways, path).items():
            found[way].append(result)
    if any(result["sums"] != found[ways[0]][0]["sums"] for results in found.values() for result in results):
        raise BenchError("not every way brought the same numbers")
    rows = []
    for way, results in found.items():
        processes, machine = (median(result[key] for result in results) for key in ("processes", "machine"))
        middle = min(results, key=lambda result: abs(result["processes"] - processes))
        parts = ", ".join(f"{name} {size / MIB:.0f}" for name, size in sorted(middle["parts"].items()) if size >= MIB)
        rows.append({"way": way, "processes": processes / MIB, "times": processes / BYTES, "machine": machine / MIB,
                     "machine_times": machine / BYTES, "parts": parts, "looks": middle["looks"],
                     "rounds": [result["processes"] for result in results]})
    report.table(f"growth at the peak, medians of {setting.rounds} rounds",
                 {"way": "way", "processes": "processes, MiB", "times": "x tensor", "machine": "machine, MiB",
                  "machine_times": "x tensor", "parts": "of that, MiB", "looks": "looks"},
                 rows, draw={"kind": "bars", "x": ["way"], "y": "times"})
    ours = next(row for row in rows if row["way"] == "feedd")
    worst = max(ours["times"], ours["machine_times"])
    report.goal(f"feedd's peak at most {GOAL} times the tensor", f"{worst:.2f} times, the larger of both counts",
                worst <= GOAL)
    report.note("processes: proportional set size (PSS) of the client and all that it started, looked at every few"
                " milliseconds, less what the client had before, with CUDA up and the tensor's place on the GPU taken;"
                " shared pages count once. machine: how much MemAvailable fell, which also sees memory that the"
                " driver has pinned; others' use of the machine disturbs it. With feedd the tensor is never whole in"
                " host memory: what counts is the daemon, its transfer process with its own CUDA context, and a ring of"
                " 32 MiB")


if __name__ == "__main__":
    child_main(child)
