"""What all experiments need: how torch and feedd are run here, clocks, endless batches, helper processes."""

import argparse
import contextlib
import json
import os
import pathlib
import select
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))  # for the modules of bench/, after everything else

os.environ.setdefault("PYTHONWARNINGS", "ignore::DeprecationWarning,ignore::UserWarning")
warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads: workers touch none of them
warnings.simplefilter("ignore", UserWarning)  # pin_memory without a GPU, more workers than cores

MIB = 2**20
CHILD_SECONDS = 120


class BenchError(Exception):
    """A measurement that could not be made, in one sentence."""


def add_options(parser):
    parser.add_argument("--build", default="build", help="where feedd is (default: build)")
    parser.add_argument("--data", help="folder for 2 GiB of data, kept (default: $BENCH_DIR, else one in /dev/shm, or"
                                       " /tmp, that is removed at the end)")
    parser.add_argument("--output", help="folder for the JSON (default: bench/results/torch-cuda, without a GPU torch-cpu, with"
                                         " host:0 torch-simulated)")
    parser.add_argument("--device", help="cuda:0, cpu, or host:0, where feedd plays a GPU in host memory"
                                         " (default: cuda:0 where there is one, else cpu)")
    parser.add_argument("--quick", action="store_true", help="shorter, fewer rounds: a look, no result")


@contextlib.contextmanager
def data_folder(named):
    """The folder for data, for a block: the one that was named, else one of this run alone."""
    if named or os.environ.get("BENCH_DIR"):
        yield named or os.environ["BENCH_DIR"]
        return
    room = os.statvfs("/dev/shm")
    base = "/dev/shm" if room.f_bavail * room.f_frsize > 4 * 2**30 else None
    with tempfile.TemporaryDirectory(prefix="feedd-bench-torch-", dir=base) as folder:
        yield folder


class Setting:
    """How this run measures. `torch_device` is where torch's tensors go, `feedd_device` what feedd calls it."""

    def __init__(self, arguments):
        import torch
        self.device = arguments.device or ("cuda:0" if torch.cuda.is_available() else "cpu")
        self.gpu = self.device.startswith("cuda")
        if self.gpu and not torch.cuda.is_available():
            raise BenchError(f"torch sees no GPU, and --device {self.device} asks for one")
        self.torch_device = torch.device(self.device if self.gpu else "cpu")
        self.feedd_device = self.device
        self.build = os.path.abspath(arguments.build)
        self.data = os.path.abspath(arguments.data)
        self.quick = arguments.quick
        self.cores = len(os.sched_getaffinity(0))
        self.rounds = 1 if self.quick else 3
        self.seconds = 0.2 if self.quick else 0.5  # that one rate is measured for
        self.look_seconds = 0.1 if self.quick else 0.3  # while settings are searched for
        kind = "cuda" if self.gpu else "cpu" if self.device == "cpu" else "simulated"
        self.output = pathlib.Path(arguments.output or HERE.parent / "results" / f"torch-{kind}")
        os.makedirs(self.data, exist_ok=True)
        os.environ["FEEDD_PROGRAM"] = os.path.join(self.build, "feedd")

    def options(self):
        """The command line that gives another process the same setting."""
        return ["--build", self.build, "--data", self.data, "--output", str(self.output), "--device", self.device,
                *(["--quick"] if self.quick else [])]

    def counts(self, wanted):
        """Workers or loaders to try: those wanted, on few cores only up to four for each core."""
        return [count for count in wanted if count <= max(4, 4 * self.cores)]

    def feedd(self, datasets, **settings):
        """A private daemon for a `with` block."""
        import feedd
        if self.device.startswith("host"):
            settings["simulated_gpus"] = 1
        chosen = {"log_level": "warning", "ring_memory": "8G", "device_memory": "8G", **settings}
        return feedd.serve({"feedd": chosen, **datasets})

    def wait(self):
        """Until the GPU has done all that was asked of it."""
        if self.gpu:
            import torch
            torch.cuda.synchronize()


def read_to_cache(path):
    """So that both sides find the file in the page cache."""
    buffer = bytearray(8 * MIB)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def endless(loader):
    """Epoch after epoch."""
    while True:
        yield from loader


def first_of(batch):
    """The batch of a dataset of one field."""
    return batch[0] if isinstance(batch, (list, tuple)) else batch


def rate(setting, batches, step, seconds, warm=8, least=4):
    """Batches a second that `batches` gives and `step` works on, the GPU's work included, after `warm` of them."""
    for _ in range(warm):
        step(next(batches))
    setting.wait()
    count = 0
    began = time.perf_counter()
    while count < least or time.perf_counter() - began < seconds:
        step(next(batches))
        count += 1
    setting.wait()
    return count / (time.perf_counter() - began)


def in_turn(rounds, jobs):
    """Runs each job of the dict once a round, so that what disturbs the machine disturbs all of them.
    Returns lists of results."""
    results = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            results[name].append(job())
    return results


def median(values):
    return statistics.median(values)


def child_command(script, setting, task):
    return [sys.executable, str(HERE / script), *setting.options(), "--task", json.dumps(task)]


def run_child(script, setting, task, timeout=CHILD_SECONDS):
    """What a helper process of an experiment prints last, parsed."""
    done = subprocess.run(child_command(script, setting, task), stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=timeout, check=False)
    return parse_child(done.returncode, done.stdout, done.stderr)


def parse_child(status, output, errors):
    if status != 0 or not output.strip():
        raise BenchError(f"a helper process ended with status {status}: {errors.strip()[-600:]}")
    return json.loads(output.strip().splitlines()[-1])


class Talk:
    """A helper process that prints a line of JSON at each step and continues when told to."""

    def __init__(self, script, setting, task):
        self.process = subprocess.Popen(child_command(script, setting, task), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            raise self.ended()
        return json.loads(line)

    def tell(self, **what):
        try:
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.ended() from None

    def ended(self):
        return BenchError(f"a helper process ended with status {self.process.wait()}: "
                          f"{self.process.stderr.read().strip()[-600:]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def say(**what):
    """The helper's side: a step is reached."""
    print(json.dumps(what), flush=True)


def listen():
    """The helper's side: reads what it is told; ends the process when its input ends."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def told():
    """The helper's side: whether there is something to listen to."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def child_arguments():
    """What child_command() has given to a helper."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    parser.add_argument("--task", type=json.loads, required=True)
    return parser.parse_args()


def child_main(work):
    """The main program of an experiment's helper: work(setting, task)."""
    arguments = child_arguments()
    work(Setting(arguments), arguments.task)
