"""A write to a batch in host memory ends the process as it would without feedd, after a line that says what to do."""

import platform
import signal

import pytest
import support

BEGIN = """
import ctypes, faulthandler, os, signal, sys, threading
import feedd
faulthandler.disable()  # as the environment of the tests has it enabled
loader = None
def open_one():
    global loader
    loader = feedd.DataLoader("numbers", 16, framework="dlpack", device=DEVICE)
    return next(iter(loader))
def address_of(batch): return batch[1].__array_interface__["data"][0]
def write_to(address): ctypes.memset(address, 0, 1)

class Action(ctypes.Structure):
    _fields_ = [("handler", ctypes.c_void_p), ("mask", ctypes.c_byte * 128), ("flags", ctypes.c_int), ("rest", ctypes.c_void_p)]
Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
before, sigaction, SA_SIGINFO, kept = Action(), ctypes.CDLL(None).sigaction, 4, []
def install(function, flags=SA_SIGINFO):
    kept.append(Handler(function))
    assert sigaction(signal.SIGSEGV, ctypes.byref(Action(ctypes.cast(kept[-1], ctypes.c_void_p), flags=flags)),
                     ctypes.byref(before)) == 0
def say_and_exit(number, info, context):
    os.write(2, b"a handler of the program's own\\n")
    os._exit(7)
"""
SAYS = "feedd: this process wrote to a batch, which is read-only memory: use copy=True in the DataLoader, or tensor.clone()"
OWN = "a handler of the program's own\n"
shows_re_raised = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="here a signal that is sent on does not show its address"
)


@pytest.fixture(params=["cpu", "host:0"])
def device(request):
    return request.param


def run(daemon, code, status=-signal.SIGSEGV, device="cpu", **variables):
    return support.run(f"DEVICE = {device!r}\n{BEGIN}{code}", daemon=daemon, status=status, variables=variables)


def test_a_write_to_a_batch_is_explained(daemon, device):
    output = run(daemon, "batch = open_one(); write_to(address_of(batch))", device=device)
    assert output.startswith(SAYS) and output.count("\n") == 1


@pytest.mark.parametrize("end", ["loader.close()", "del loader; import gc; gc.collect()", "[None for _ in loader]"])
def test_a_batch_that_is_still_held(daemon, end):
    output = run(daemon, f"batch = open_one()\n{end}\nwrite_to(address_of(batch) + 16 * 24 - 1)")
    assert output.startswith(SAYS)


@pytest.mark.parametrize("place", ["0", "0x10000", "ctypes.cast(ctypes.CDLL(None).memset, ctypes.c_void_p).value"])
def test_another_fault_is_not(daemon, place):
    """An address that is not mapped, and one that is mapped and not writable."""
    assert run(daemon, f"batch = open_one()\nwrite_to({place})") == ""


def test_memory_of_a_batch_that_was_given_back_is_not(daemon):
    """Its place in the table is free again."""
    assert run(daemon, "batch = open_one()\nplace = address_of(batch)\ndel batch\nloader.close()\nwrite_to(place)") == ""


@pytest.mark.parametrize("send", ["os.kill(os.getpid(), signal.SIGSEGV)", "signal.raise_signal(signal.SIGSEGV)"])
def test_a_signal_that_was_sent_ends_the_process(daemon, send):
    assert run(daemon, f"batch = open_one()\n{send}\nprint('alive')") == ""


def test_an_ignored_signal_is_ignored(daemon):
    code = "signal.signal(signal.SIGSEGV, signal.SIG_IGN)\nbatch = open_one()\n"
    code += "os.kill(os.getpid(), signal.SIGSEGV)\nprint('alive')"
    assert run(daemon, code, 0) == "alive\n"
    assert run(daemon, code + "\nwrite_to(address_of(batch))").endswith("in place\n"), "but not a fault"


@pytest.mark.parametrize("code", [
    "faulthandler.enable()\nbatch = open_one()\n",
    pytest.param("batch = open_one()\nfaulthandler.enable()\n", marks=shows_re_raised),
])  # fmt: skip
def test_faulthandler_prints_its_traceback_too(daemon, code):
    output = run(daemon, code + "write_to(address_of(batch))")
    assert output.count(SAYS) == 1 and output.count("Fatal Python error: Segmentation fault") == 1
    assert "in write_to" in output
    output = run(daemon, code + "write_to(16)")
    assert SAYS not in output and "in write_to" in output


@pytest.mark.parametrize("flags", [0, 4, 4 | 0x80000000, 4 | 0x40000000])
def test_a_handler_from_before_is_called(daemon, flags):
    """With and without SA_SIGINFO, with SA_RESETHAND, with SA_NODEFER."""
    code = f"install(say_and_exit, {flags})\nbatch = open_one()\n"
    output = run(daemon, code + "write_to(address_of(batch))", 7)
    assert output.startswith(SAYS) and output.endswith("in place\n" + OWN)
    assert run(daemon, code + "write_to(16)", 7) == OWN
    assert run(daemon, code + "os.kill(os.getpid(), signal.SIGSEGV); signal.pause()", 7) == OWN


CHAINS = """
batch = open_one()
def pass_on(number, info, context):
    os.write(2, b"a handler of the program's own\\n")
    Handler(before.handler)(number, info, context)
install(pass_on)
"""


def test_a_later_handler_that_passes_the_signal_on(daemon):
    assert run(daemon, CHAINS + "write_to(address_of(batch))").startswith(OWN + SAYS)
    assert run(daemon, CHAINS + "write_to(16)") == OWN


def test_a_handler_that_mends_the_fault(daemon):
    """It makes the page of an address writable: the program lives on, and the next fault is explained again."""
    code = """
import mmap
spare = mmap.mmap(-1, 4096)
def mend(number, info, context):
    base = address & -4096
    made = ctypes.CDLL(None, use_errno=True).mmap
    made.restype, made.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    assert made(base, 4096, 3, 0x32, -1, 0) == base
install(mend)
batch = open_one()
address = address_of(batch)
write_to(address)
print("lives on", flush=True)
"""
    output = run(daemon, code, 0)
    assert output.startswith(SAYS) and output.endswith("lives on\n")


def test_a_thread_with_a_stack_for_signals(daemon):
    code = """
batch = open_one()
def work():
    class Stack(ctypes.Structure):
        _fields_ = [("place", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
    memory = ctypes.create_string_buffer(1 << 16)
    assert ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(memory), 0, 1 << 16)), None) == 0
    write_to(address_of(batch))
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    assert run(daemon, code).startswith(SAYS)


def test_the_child_of_a_fork(daemon):
    code = """
batch = open_one()
pid = os.fork()
if pid == 0: write_to(address_of(batch))
assert os.waitpid(pid, 0)[1] & 127 == signal.SIGSEGV
"""
    assert run(daemon, code, 0).startswith(SAYS)


@pytest.mark.parametrize(("value", "explained"), [("1", False), ("0", True), ("", True)])
def test_it_can_be_left_out(daemon, value, explained):
    output = run(daemon, "batch = open_one(); write_to(address_of(batch))", FEEDD_NO_FAULT_HANDLER=value)
    assert output.startswith(SAYS) if explained else output == ""


def test_more_batches_than_the_table_has_places(daemon):
    """Places are used again and again, and those of held batches are left alone."""
    code = """
batch = open_one()
for _ in range(400): [None for _ in loader]
write_to(address_of(batch))
"""
    assert run(daemon, code).startswith(SAYS)
