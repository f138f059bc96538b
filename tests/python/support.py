"""Datasets whose every byte is known, loaders on them, and programs that are run beside a test."""

import contextlib
import os
import pathlib
import signal
import struct
import subprocess
import sys
import threading

import data
import expected
import harness

import feedd

FRAMEWORK = os.environ.get("FEEDD_TEST_FRAMEWORK", "numpy")
DEVICES = [harness.DEVICE] if harness.DEVICE else ["cpu", "host:0"]
# For programs that are run beside a test: PyTorch takes its second to begin.
SCRIPT_DEVICES = DEVICES[: 1 if FRAMEWORK == "torch" else None]
ON_GPU = harness.on_real_gpu()
SAMPLES = 203  # of the dataset numbers: no multiple of a batch
SHUFFLED = {"shuffle": True, "seed": 11}
BODY = 24
RECORD = 8 + BODY
# Of the dataset types: NumPy's name and bytes of every type that feedd knows by another name.
TYPES = {
    "bool": ("bool", 1), "u8": ("uint8", 1), "i8": ("int8", 1), "u16": ("uint16", 2), "i16": ("int16", 2),
    "u32": ("uint32", 4), "i32": ("int32", 4), "u64": ("uint64", 8), "i64": ("int64", 8), "f16": ("float16", 2),
    "bf16": ("bfloat16", 2), "f32": ("float32", 4), "f64": ("float64", 8), "c64": ("complex64", 8), "c128": ("complex128", 16),
}  # fmt: skip
TYPED_SAMPLES = 12
TYPED_RECORD = 2 * sum(size for _, size in TYPES.values())


def typed_offset(name):
    names = list(TYPES)
    return 2 * sum(TYPES[other][1] for other in names[: names.index(name)])


def typed_record(index):
    """Two of each type: bytes that are not a NaN in any of them, and are 0 or 1 for bool."""
    record = bytearray()
    for name, (_, size) in TYPES.items():
        record += bytes((index + place) % 2 if name == "bool" else (index * 7 + place) % 60 for place in range(2 * size))
    return bytes(record)


def add_numbers(instance, samples=SAMPLES, **options):
    """The dataset numbers: fields id and body. Returns its file."""
    path = instance.directory / "numbers.bin"
    data.write_records(path, samples, RECORD)
    fields = {"field_id": "u64 @ 0", "field_body": f"u8[{BODY}] @ 8"}
    instance.add_dataset("numbers", format="records", path=path, record_bytes=RECORD, **fields, **options)
    return path


def add_datasets(instance):
    """numbers. types: a pair of each type. tokens: windows of 17."""
    add_numbers(instance)
    types = instance.directory / "types.bin"
    types.write_bytes(b"".join(typed_record(index) for index in range(TYPED_SAMPLES)))
    fields = {f"field_{name}": f"{name}[2] @ {typed_offset(name)}" for name in TYPES}
    instance.add_dataset("types", format="records", path=types, record_bytes=TYPED_RECORD, **fields)
    tokens = instance.directory / "tokens.bin"
    tokens.write_bytes(struct.pack("<1000H", *range(1000)))
    instance.add_dataset("tokens", format="tokens", path=tokens, dtype="u16", length=16)


def loader(daemon, dataset="numbers", batch_size=16, **options):
    """A DataLoader of the framework under test."""
    return feedd.DataLoader(dataset, batch_size, **{"framework": FRAMEWORK, "socket": daemon.socket, **options})


@contextlib.contextmanager
def loaders(daemon, **defaults):
    """loader() on that daemon, with these options unless others are given; what it made is closed at the end."""
    made = []

    def make(*arguments, **options):
        made.append(loader(daemon, *arguments, **{**defaults, **options}))
        return made[-1]

    try:
        yield make
    finally:
        for one in made:
            one.close()


def ranks(load, world_size, name, batch_size=8, **options):
    """The loaders of all ranks of a job, in this process."""
    return [
        load(
            batch_size=batch_size, rank=rank, world_size=world_size, device_world_size=world_size,
            share=name if world_size > 1 else None, **SHUFFLED, **options,
        )
        for rank in range(world_size)
    ]  # fmt: skip


def raw(tensor):
    """The bytes of a tensor of any framework, in host memory."""
    if hasattr(tensor, "untyped_storage"):
        import torch

        return tensor.contiguous().cpu().flatten().view(torch.uint8).numpy().tobytes()
    return tensor.tobytes()


def samples_of(batch):
    """Which samples a batch of numbers holds, after checking every byte of it."""
    identity, body = batch.values() if isinstance(batch, dict) else batch
    numbers = list(struct.unpack(f"<{identity.shape[0]}Q", raw(identity)))
    assert tuple(body.shape) == (len(numbers), BODY)
    assert raw(body) == b"".join(data.sample_bytes(number, RECORD)[8:] for number in numbers)
    return numbers


def read(batches):
    """What samples_of() says of each."""
    return [samples_of(batch) for batch in batches]


def wanted(batch_size=16, samples=SAMPLES, **shape):
    """The samples of each batch of an epoch, worked out without feedd."""
    return [batch["samples"] for batch in expected.epoch_batches(samples, batch_size, **shape)]


def take(iterator, count):
    return [samples_of(next(iterator)) for _ in range(count)]


def children():
    """The pids of this process's children."""
    found = set()
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


def environment(daemon=None, **more):
    """Of a program that uses the package, as this one finds it."""
    path = os.pathsep.join([str(pathlib.Path(feedd.__file__).parents[1]), *(part for part in sys.path if part)])
    socket = {"FEEDD_SOCKET": str(daemon.socket)} if daemon else {}
    return {**os.environ, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1", "PYTHONWARNINGS": "ignore", **socket, **more}


def program(code, device):
    """`code` as it is run for the framework under test and a device, which it calls FRAMEWORK and DEVICE."""
    return f"FRAMEWORK, DEVICE = {FRAMEWORK!r}, {device!r}\n{code}"


def start(code, *arguments, daemon=None, variables=None, **options):
    """Begins a Python program; its text output is a pipe."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=harness.die_with_parent, env=environment(daemon, **(variables or {})),
        **{"stdin": subprocess.DEVNULL, **options},
    )  # fmt: skip


def finish(process, status=0):
    """Waits for its end and returns what it printed, but for the lines that were read before."""
    try:
        output = process.stdout.read()
        process.wait()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert status is None or process.returncode == status, f"ended with status {process.returncode}:\n{output}"
    return output


def run(code, *arguments, status=0, **options):
    """Runs a Python program to its end and returns what it printed."""
    return finish(start(code, *arguments, **options), status)


@contextlib.contextmanager
def instance(**settings):
    """A feedd of a test's own that serves these datasets."""
    with harness.Instance(**settings) as own:
        add_datasets(own)
        yield own.start()


def sessions(daemon):
    """How many are attached, but for the feedctl that asks."""
    return daemon.status()["sessions"] - 1


def check_sessions(daemon, count):
    harness.eventually(lambda: sessions(daemon) == count, 5, f"{count} sessions, but {sessions(daemon)}")


def kill(daemon):
    """Kills only the supervisor, without notice: its children end on their own, and clients find out."""
    daemon.process.kill()
    daemon.process.wait()


@contextlib.contextmanager
def stopped(daemon):
    """While it answers nobody."""
    os.kill(daemon.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)


class Thread(threading.Thread):
    """A thread whose exception is raised by join()."""

    def __init__(self, function, *arguments):
        super().__init__(daemon=True)
        self.work, self.raised, self.result = (function, arguments), None, None
        self.start()

    def run(self):
        function, arguments = self.work
        try:
            self.result = function(*arguments)
        except BaseException as error:
            self.raised = error

    def done(self):
        self.join(20 * harness.SLOWNESS)
        assert not self.is_alive(), "the thread does not end"
        if self.raised:
            raise self.raised
        return self.result


def numbers_of(output):
    """What a program printed: a line of numbers a batch."""
    return [list(map(int, line.split())) for line in output.splitlines()]
