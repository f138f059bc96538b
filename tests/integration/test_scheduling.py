"""How feedd's processes share the processors with those that they feed."""

import ctypes
import os
import struct

import data
import harness

SYS_SCHED_GETATTR = 315  # x86-64


def serve(wrap=(), **settings):
    instance = harness.Instance(loaders=1, io="mapped", **settings)
    path = instance.directory / "large.bin"
    path.write_bytes(os.urandom(1 << 20) * 32)
    instance.add_dataset("large", format="records", path=path, record_bytes=4096, field_x="u8[4096] @ 0")
    data.add_records(instance)
    return instance.start(wrap=wrap)


def switches(pid):
    """How often a process went to sleep, so far."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))


def scheduling(pid):
    """Nice value and time slice in ns of a process; slice 0 where the kernel has none to be asked for."""
    attributes = ctypes.create_string_buffer(48)
    if ctypes.CDLL(None, use_errno=True).syscall(SYS_SCHED_GETATTR, pid, attributes, 48, 0) < 0:
        raise OSError(ctypes.get_errno(), "sched_getattr")
    _, _, _, nice, _, runtime, _, _ = struct.unpack("=IIQiIQQQ", attributes.raw)
    return nice, runtime


def test_several_batches_in_one_waking():
    if harness.sanitized():
        harness.skip("a loader is too slow under a sanitizer for batches to come often")
    batches = 20000
    # So few processors that the processes get in each other's way.
    processors = ",".join(str(number) for number in sorted(os.sched_getaffinity(0))[:2])
    with serve(wrap=("taskset", "-c", processors)) as feedd:
        before = switches(feedd.process.pid)
        feedd.ctl("read", "large", "--shuffle", "--batches", batches)
        woken = switches(feedd.process.pid) - before
    # One for each batch that is complete and one for each release, without naps.
    assert woken < 0.8 * batches, f"{woken} wakings for {batches} batches"


def test_loaders_keep_nice_value_and_time_slice():
    """Longer slices hold up other loaders: see bench/README.md."""
    with serve(wrap=("nice", "-n", "3")) as feedd, feedd.client() as client:
        client.attach("numbers", 10)
        nice, runtime = scheduling(feedd.only_loader())
        assert (nice, runtime) == scheduling(feedd.process.pid) and nice == 3, (nice, runtime)
