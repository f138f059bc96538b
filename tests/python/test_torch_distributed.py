"""Ranks as torchrun starts them, with gloo: on one machine, and as two nodes with a feedd each."""

import contextlib
import json
import socket

import pytest
import support
from support import SAMPLES, SHUFFLED, wanted

JOB = """
import feedd, json, os, sys, torch, torch.distributed as distributed
if sys.argv[2] == "gloo":
    distributed.init_process_group("gloo")
loader = feedd.DataLoader("numbers", 8, shuffle=True, seed=11)
other = feedd.DataLoader("numbers", 4, shuffle=True, seed=12)
rank, found, steps = int(os.environ["RANK"]), [], 0
for epoch in range(2):
    for number, (id, body) in enumerate(loader):
        found.append([epoch, *id.tolist()])
        steps += 1
        if distributed.is_initialized():
            together = torch.tensor([float(steps)])
            distributed.all_reduce(together)
            assert together == steps * int(os.environ["WORLD_SIZE"]), "the ranks go in step"
for number, batch in zip(range(3), other): pass
other.load_state_dict(other.state_dict())
rest = [id.tolist() for id, body in other]
json.dump([found, rest], open(f"{sys.argv[1]}/{rank}", "w"))
if distributed.is_initialized():
    distributed.destroy_process_group()
"""


# A checkpoint is written when all ranks have done the step, by the first of them, and each notes what it has done; nobody
# begins the next step before that is so. The second one dies with a batch in hand. They meet at a place of this start's own:
# torchrun's store still has the addresses of those before, and gloo may take them for today's.
DYING = """
import feedd, json, os, signal, sys, torch.distributed as distributed
folder, dies_at = sys.argv[1], int(sys.argv[2])
rank, size, again = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["TORCHELASTIC_RESTART_COUNT"]
distributed.init_process_group("gloo", init_method=f"file://{folder}/meet-{again}", rank=rank, world_size=size)
loader = feedd.DataLoader("numbers", 8, shuffle=True, seed=11)
state, steps = f"{folder}/state", 0
if os.path.exists(state): loader.load_state_dict(json.load(open(state)))
with open(f"{folder}/{rank}-{again}", "w") as notes:
    while loader.epoch < 2:
        for id, body in loader:
            steps += 1
            if again == "0" and rank == 1 and steps == dies_at: os.kill(os.getpid(), signal.SIGKILL)
            distributed.barrier()
            print(*id.tolist(), file=notes, flush=True)
            if rank == 0:
                json.dump(loader.state_dict(), open(state + ".new", "w"))
                os.rename(state + ".new", state)
            distributed.barrier()
distributed.destroy_process_group()
"""


@pytest.fixture
def job(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    return tmp_path


def torchrun(daemon, folder, argument, *options):
    """Begins a node of a job of two ranks a node."""
    code = "import runpy, sys; sys.argv[0] = 'torchrun'; runpy.run_module('torch.distributed.run', run_name='__main__')"
    arguments = [*options, "--nproc-per-node", "2", folder / "job.py", folder, argument]
    return support.start(code, *arguments, daemon=daemon, variables={"OMP_NUM_THREADS": "1", "TMPDIR": str(folder)})


def check(folder, world_size):
    """Each rank has its part of each global batch, and all of them together every sample once."""
    union = [[], []]
    for rank in range(world_size):
        found, rest = json.loads((folder / str(rank)).read_text())
        for epoch in range(2):
            batches = [batch[1:] for batch in found if batch[0] == epoch]
            assert batches == wanted(8, world_size=world_size, rank=rank, epoch=epoch, **SHUFFLED)
            union[epoch] += sum(batches, [])
        assert rest == wanted(4, world_size=world_size, rank=rank, shuffle=True, seed=12)[3:]
    assert [sorted(samples) for samples in union] == [list(range(SAMPLES))] * 2


@pytest.mark.limit(90)
@pytest.mark.parametrize("group", ["gloo", "none"])
def test_torchrun(daemon, job, group):
    support.finish(torchrun(daemon, job, group, "--standalone"))
    check(job, 2)


@pytest.mark.limit(90)
@pytest.mark.parametrize("dies_at", [1, 7, 20])
def test_torchrun_starts_a_job_again(daemon, tmp_path, dies_at):
    """A rank is killed, torchrun ends the other one and starts both anew, and they go on where the checkpoint says: before the
    first one, in the first epoch, and in the second."""
    (tmp_path / "job.py").write_text(DYING)
    support.finish(torchrun(daemon, tmp_path, dies_at, "--standalone", "--max-restarts", "1", "--monitor-interval", "0.1"))
    union = []
    for rank in range(2):
        right = [batch for epoch in range(2) for batch in wanted(8, world_size=2, rank=rank, epoch=epoch, **SHUFFLED)]
        runs = [support.numbers_of((tmp_path / f"{rank}-{again}").read_text()) for again in range(2)]
        assert runs == [right[: dies_at - 1], right[dies_at - 1 :]]
        union += sum(right, [])
    assert sorted(union) == sorted(2 * list(range(SAMPLES)))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.limit(90)
def test_two_nodes_with_a_daemon_each(job):
    with contextlib.ExitStack() as stack:
        daemons = [stack.enter_context(support.instance()) for _ in range(2)]
        port = free_port()
        nodes = [
            torchrun(daemon, job, "gloo", "--nnodes", "2", "--node-rank", node, "--master-addr", "127.0.0.1",
                     "--master-port", port)
            for node, daemon in enumerate(daemons)
        ]  # fmt: skip
        for node in nodes:
            support.finish(node)
        for daemon in daemons:
            assert daemon.statistics()["feeds"], "each daemon fed its own node"
    check(job, 4)


@pytest.mark.limit(90)
def test_distributed_without_torchrun(daemon, tmp_path):
    """torch.distributed that a program has initialised itself: the ranks are its, the name is to be given."""
    code = """
import feedd, sys, torch.distributed as distributed
distributed.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/meet", rank=int(sys.argv[2]), world_size=2)
try: feedd.DataLoader("numbers", 8)
except ValueError as error: assert "share=" in str(error), error
for id, body in feedd.DataLoader("numbers", 8, share="mine", shuffle=True, seed=11): print(*id.tolist())
distributed.destroy_process_group()
"""
    processes = [support.start(code, tmp_path, rank, daemon=daemon) for rank in range(2)]
    for rank, process in enumerate(processes):
        lines = support.numbers_of(support.finish(process))
        assert lines == wanted(8, world_size=2, rank=rank, **SHUFFLED)


SPAWNED = """
import feedd, os, sys, torch.distributed as distributed, torch.multiprocessing as processes
folder, share = sys.argv[1], sys.argv[3] or None
def make(): return feedd.DataLoader("numbers", 8, shuffle=True, seed=11, share=share)
def work(rank, loader):
    loader = loader or make()
    total = feedd.DataLoader("numbers", 203, rank=0, world_size=1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    with open(f"{folder}/{rank}", "w") as notes:
        for epoch in range(2):
            for id, body in loader: print(epoch, *id.tolist(), file=notes)
            distributed.barrier()
    assert [len(id) for id, body in total] == [203]
    distributed.destroy_process_group()
if __name__ == "__main__":
    os.environ["MASTER_ADDR"] = folder
    processes.spawn(work, (make() if sys.argv[2] == "parent" else None,), nprocs=2)
"""


@pytest.mark.limit(90)
@pytest.mark.parametrize("share", ["", "mine"])
@pytest.mark.parametrize("maker", ["child", "parent"])
def test_loaders_made_before_the_process_group(daemon, tmp_path, maker, share):
    """In each process that mp.spawn starts, or once in the one that calls it."""
    (tmp_path / "job.py").write_text(SPAWNED)
    code = "import runpy, sys; sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')"
    support.run(code, tmp_path / "job.py", tmp_path, maker, share, daemon=daemon, variables={"OMP_NUM_THREADS": "1"})
    for rank in range(2):
        right = [[epoch, *batch] for epoch in range(2) for batch in wanted(8, world_size=2, rank=rank, epoch=epoch, **SHUFFLED)]
        assert support.numbers_of((tmp_path / str(rank)).read_text()) == right
