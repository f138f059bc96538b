"""feedctl trace by the clock of a GPU: of a simulated one, which runs away, and of a real one in make check-gpu."""

import data
import devices
import harness
from test_trace import record
from test_verdict import reading

BATCH, SAMPLE = 64, 16384
SIMULATED_US = 3000  # per copy
FASTEST_BUS = 128e9  # bytes per second, of PCIe 6


def record_copies(seconds):
    """The copies as the transfer process sees them, and as the GPU does."""
    with harness.Instance(ring="8M", device_pool="8M", device_linger=1, loaders=1) as feedd:
        data.add_records(feedd, samples=1000, size=SAMPLE)
        feedd.start(environment={devices.FAULTS: f"copy_us={SIMULATED_US}"})
        # A real GPU would copy more batches than feedctl could record.
        pace = ("--work", "2") if harness.on_real_gpu() else ()
        with reading(feedd, "numbers", "--device", devices.GPU, *pace, batch=BATCH):
            harness.eventually(lambda: any(gpu["gpu_counters"]["copies"] for gpu in feedd.statistics()["gpus"]), 20, "copies")
            spans, names = record(feedd, seconds)
    (transfer,) = [pid for pid, name in names.items() if name.startswith("feedd transfer to ")]
    return [[row[1:] for row in spans[transfer] if row[0] == name] for name in ("copy", "bus")]


@harness.limit(90)
def test_what_the_bus_carries_by_the_clock_of_the_gpu():
    """A simulated GPU's clock gains 0.4 ms per second. Each of its copies takes 3 ms; up to four are queued together."""
    copies, bus = record_copies(3)
    assert len(bus) > 50 and len(copies) >= len(bus), (len(bus), len(copies))
    # The transfer process sees a copy's end later, and another process's turn may delay that or the alignment.
    late = [end - theirs for begin, theirs, args in bus for ours, end, where in copies
            if where == args and abs(ours - begin) < 30_000 and ours < theirs and -1000 < end - theirs < 1000]  # fmt: skip
    assert len(late) > 0.8 * len(bus) and -150 < sorted(late)[len(late) // 10] and sorted(late)[len(late) // 2] < 500, late
    least_us = 1e6 * BATCH * SAMPLE / FASTEST_BUS if harness.on_real_gpu() else 0.8 * SIMULATED_US
    assert sum(end - begin > least_us for begin, end, _ in bus) > 0.8 * len(bus), bus
