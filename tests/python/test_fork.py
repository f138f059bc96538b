"""fork() with a loader open. Each case is a separate program."""

import os
import signal

import pytest
import support
from support import SHUFFLED, numbers_of, wanted

BEGIN = """
import feedd, os, sys, threading, signal
def open_one(): return feedd.DataLoader("numbers", 16, shuffle=True, seed=11, framework=FRAMEWORK, device=DEVICE)
def show(batches):
    for id, body in batches: print(*id.tolist(), flush=True)
def in_child(work):
    pid = os.fork()
    if pid == 0:
        try: work()
        except BaseException as error: print("raised", type(error).__name__, error, flush=True)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
loader = open_one()
iterator = iter(loader)
"""


@pytest.fixture(params=support.SCRIPT_DEVICES)
def device(request):
    return request.param


def run(daemon, device, code):
    return support.run(support.program(BEGIN + code, device), daemon=daemon)


USES = ["next(iterator)", "loader.state_dict()", "iter(loader), next(iter(loader))", "loader.set_epoch(3), iter(loader)"]


@pytest.mark.parametrize("use", USES)
def test_the_parents_loader_is_the_parents(daemon, device, use):
    output = run(daemon, device, f"next(iterator)\nin_child(lambda: ({use},))\nshow(iterator)")
    first, *others = output.splitlines()
    assert first.startswith("raised Error this loader belongs to the process that made it") and "make another" in first
    assert numbers_of("\n".join(others)) == wanted(**SHUFFLED)[1:], "the parent continues"


def test_a_loader_of_the_childs_own(daemon, device):
    output = run(daemon, device, "next(iterator)\nin_child(lambda: show(open_one()))\nshow(iterator)")
    assert numbers_of(output) == wanted(**SHUFFLED) + wanted(**SHUFFLED)[1:]


def test_import_before_the_fork(daemon, device):
    code = BEGIN[: BEGIN.index("loader = ")] + "in_child(lambda: show(open_one()))\nshow(open_one())"
    assert numbers_of(support.run(support.program(code, device), daemon=daemon)) == wanted(**SHUFFLED) * 2


def test_tensors_in_the_child(daemon, device):
    """It may read them; letting go of them there takes nothing from the parent."""
    code = """
held = [next(iterator) for _ in range(3)]
def work():
    show(held)
    held.clear()
    loader.close()
    globals().pop("iterator")
in_child(work)
for _ in range(3): loader.set_epoch(0); [None for _ in loader]
show(held)
"""
    assert numbers_of(run(daemon, device, code)) == wanted(**SHUFFLED)[:3] * 2


@pytest.mark.parametrize(("ending", "status"), [("sys.exit(0)", 0), ("pass", 0), ("raise KeyError('on purpose')", 256)])
def test_a_child_that_ends_as_a_program_does(daemon, device, ending, status):
    """With the interpreter's own end, which lets go of everything."""
    code = f"""
held = [next(iterator) for _ in range(2)]
if os.fork() == 0:
    sys.stderr = open(os.devnull, "w")
    {ending}
else:
    print(os.wait()[1])
    show(iterator)
"""
    assert numbers_of(run(daemon, device, code)) == [[status], *wanted(**SHUFFLED)[2:]]


def test_forks_while_a_thread_reads(daemon, device):
    code = """
import faulthandler; faulthandler.dump_traceback_later(15, exit=True)
found, forked = [], threading.Event()
def work():
    while not forked.is_set():
        loader.set_epoch(0)
        found.append([id.tolist() for id, body in loader])
thread = threading.Thread(target=work)
thread.start()
for _ in range(60): in_child(lambda: None)
forked.set()
thread.join()
assert all(epoch == found[0] for epoch in found)
for batch in found[0]: print(*batch)
"""
    assert numbers_of(run(daemon, device, code)) == wanted(**SHUFFLED)


def test_multiprocessing_by_fork(daemon, device):
    code = """
import multiprocessing
def work(pipe):
    pipe.send([id.tolist() for id, body in open_one()])
here, there = multiprocessing.get_context("fork").Pipe()
process = multiprocessing.get_context("fork").Process(target=work, args=(there,))
process.start()
for batch in here.recv(): print(*batch)
process.join()
show(iterator)
"""
    assert numbers_of(run(daemon, device, code)) == wanted(**SHUFFLED) * 2


def test_the_daemon_sees_that_the_parent_dies(daemon, device):
    """Also when children of it live on, which have nothing of its session."""
    code = """
held = next(iterator)
pid = os.fork()
if pid == 0:
    signal.pause()
print(pid, flush=True)
signal.pause()
"""
    process = support.start(support.program(BEGIN + code, device), daemon=daemon)
    child = int(process.stdout.readline())
    try:
        support.check_sessions(daemon, 1)
        process.kill()
        process.wait()
        support.check_sessions(daemon, 0)
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


def test_programs_inherit_nothing(daemon, device):
    """What is started keeps no session alive."""
    code = """
import subprocess
def start(**options): return subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
def inherited(process):
    process.stdin.write(b"x") # what it answers shows that it has opened, and closed, all that it loads itself
    process.stdin.flush()
    process.stdout.read(1)
    return [name for name in os.listdir(f"/proc/{process.pid}/fd") if int(name) > 2]
other = start()
held = next(iterator)
third = start(preexec_fn=lambda: None)
print(len(inherited(other)), len(inherited(third)))
for process in (other, third): process.kill(); process.wait()
"""
    assert run(daemon, device, code) == "0 0\n"


def test_a_child_closes_nothing_but_its_sockets(daemon, device):
    """While another thread connects again at the moment of a fork, the number of the socket may belong to something else."""
    code = """
def is_socket(name):
    path = f"/proc/self/fd/{name}"
    return os.path.islink(path) and "socket:" in os.readlink(path)
reader, writer = os.pipe()
(place,) = [int(name) for name in os.listdir("/proc/self/fd") if is_socket(name)]
os.dup2(writer, place)
in_child(lambda: print(os.write(place, b"x"), os.read(reader, 1)))
"""
    assert run(daemon, device, code) == "1 b'x'\n"
