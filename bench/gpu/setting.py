"""What all GPU figures need: the programs, the data, private instances of feedd, watched consumers."""

import contextlib
import glob
import json
import os
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from figures import records_dataset
from instance import BenchError, Instance, process_times
from measure import parse_output, run_json

MIB = 2**20
LOADERS_MOST = 14
RING_CHOICES = (16 * MIB, 32 * MIB, 64 * MIB)
RECORDS = (4096, 784)
WHOLE = 200704 # bytes: a multiple of both, which a file of records has to be
ROLES = {"feedd": "supervisor", "feedd-loader": "loader", "feedd-transfer": "transfer"}
RUN_SECONDS = 150


def mib(size):
    """For the table; records have bytes."""
    return f"{size // MIB}M"


def gpu_name():
    for path in glob.glob("/proc/driver/nvidia/gpus/*/information"):
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("Model:"):
                    return line.split(":", 1)[1].strip()
    if shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout.splitlines()[0].strip()
    return "unknown GPU"


def role_of(pid):
    """Of one of feedd's processes; one that is gone has nothing that it would count for."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return ROLES.get(file.read().strip(), "supervisor")
    except OSError:
        return "supervisor"


def cpu_by_role(instance):
    """CPU seconds so far of each kind of feedd's processes that lives."""
    seconds = dict.fromkeys(ROLES.values(), 0.0)
    for pid in instance.pids():
        seconds[role_of(pid)] += process_times(pid)[0]
    return seconds


class Watcher(threading.Thread):
    """Reads what a consumer prints, and takes a snapshot when its clock starts and when it stops. The consumer waits
    for the second one, so that what it is taken of is still there."""

    def __init__(self, command, snapshot):
        super().__init__(daemon=True)
        self.process = subprocess.Popen([*command, "--ask"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.snapshot = snapshot
        self.snapshots = {}
        self.report = None
        self.error = None
        self.timer = threading.Timer(RUN_SECONDS, self.process.kill)
        self.timer.start()
        self.start()

    def run(self):
        last = ""
        try:
            for line in self.process.stdout:
                event = json.loads(line).get("event")
                if event:
                    self.snapshots[event] = self.snapshot()
                if event == "end":
                    self.process.stdin.close()
                last = line
            errors = self.process.stderr.read()
            status = self.process.wait()
            if status == 0 and (set(self.snapshots) != {"begin", "end"} or "event" in last):
                raise BenchError(f"{self.process.args[0]} printed no result")
            self.report = parse_output(self.process.args, status, last, errors)
        except Exception as error: # any error: result() raises it in the waiting thread
            self.error = error
        finally:
            self.process.kill()
            self.process.wait()
            self.timer.cancel()

    def result(self):
        self.join(RUN_SECONDS + 10)
        if self.is_alive():
            raise BenchError(f"{self.process.args[0]} does not end")
        if self.error:
            raise self.error
        return self.report

    def stop(self):
        """Ends a consumer whose report is not needed."""
        self.process.terminate()
        self.join(10)


class GpuBench:
    def __init__(self, build, folder, records, device, quick, settings):
        self.build = os.path.abspath(build)
        self.folder = os.path.abspath(folder)
        self.records = records
        self.device = device
        self.quick = quick
        self.simulated = device.startswith("host")
        self.cores = len(os.sched_getaffinity(0))
        self.loaders = max(1, min(LOADERS_MOST, self.cores - 2))
        self.seconds = 1.0 if quick else 3.0
        self.look_seconds = 0.4 if quick else 0.8
        self.warm_up = 0.2 if quick else 0.5
        self.rounds = 1 if quick else 3
        self.repeats = 3 if quick else 10
        self.data_bytes = WHOLE * (300 if self.simulated else 5349) # 60 MB, 1 GiB
        self.settings = settings
        self.complaints = 0 # of feedd, in its log
        self.best = {} # (io, bytes of a sample, bytes of a batch): (loaders, ring)

    # ---- What is there -------------------------------------------------------------------------------------

    def program(self, name):
        return os.path.join(self.build, "bench", f"bench_{name}")

    def data(self, size=None):
        """The file of numbered words, in the page cache."""
        size = size or self.data_bytes
        path = os.path.join(self.folder, f"numbered-{size}.bin")
        if not os.path.exists(path):
            os.makedirs(self.folder, exist_ok=True)
            began = time.monotonic()
            subprocess.run([self.program("gen"), "--numbered", path, str(size)], check=True, timeout=400)
            print(f"{size / MIB:.0f} MiB of data written in {time.monotonic() - began:.1f} s", flush=True)
        buffer = bytearray(8 * MIB)
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
        return path

    def warm(self, path):
        """Reads a file once, so that the page cache holds it."""
        with open(path, "rb") as file:
            file.read()

    def datasets(self):
        path = self.data()
        return {f"{io}-{record}": records_dataset(path, record, io=io)
                for io in ("uring", "mapped") for record in RECORDS}

    @contextlib.contextmanager
    def instance(self, loaders=None, datasets=None, **settings):
        if self.simulated:
            settings["simulated_gpus"] = 2
        chosen = {"loaders": loaders or self.loaders, **settings, **self.settings}
        try:
            with Instance(self.build, datasets or self.datasets(), **chosen) as instance:
                yield instance
        except BenchError as error:
            if not str(error).startswith("feedd ended with status 0 "):
                raise
            self.complaints += 1 # what was measured remains valid
            print(f"  {error}", flush=True)

    def stats(self, instance):
        """What `feedctl stats --json` says."""
        environment = {**os.environ, "FEEDD_SOCKET": instance.socket}
        done = subprocess.run([os.path.join(self.build, "feedctl"), "stats", "--once", "--json"], text=True,
                              capture_output=True, env=environment, check=True, timeout=10)
        return json.loads(done.stdout)

    def setting_of(self, io, record, batch_bytes):
        """Loaders and ring that gpu.delivered found best for this, or what is likely good."""
        ring = max(32 * MIB, 4 * batch_bytes)
        return self.best.get((io, record, batch_bytes), (self.loaders, ring))

    # ---- Running -------------------------------------------------------------------------------------------

    def feed_options(self, instance, io, record, batch_bytes, ring=None):
        return ["--socket", instance.socket, "--dataset", f"{io}-{record}", "--device", self.device, "--shuffle",
                "--batch-size", str(batch_bytes // record), *(["--ring-bytes", str(ring)] if ring else [])]

    def watch(self, instance, io, record, batch_bytes, *options, ring=None, seconds=None, snapshot=None):
        """Starts a consumer."""
        command = [self.program("gpu_consumer"), *self.feed_options(instance, io, record, batch_bytes, ring),
                   "--seconds", str(seconds or self.seconds), "--warm-up", str(self.warm_up),
                   *(str(option) for option in options)]
        return Watcher(command, snapshot or (lambda: cpu_by_role(instance)))

    def consume(self, instance, io, record, batch_bytes, *options, ring=None, seconds=None):
        """One consumer's report, with the CPU seconds of feedd's processes by role."""
        watcher = self.watch(instance, io, record, batch_bytes, *options, ring=ring, seconds=seconds)
        report = watcher.result()
        before, after = watcher.snapshots["begin"], watcher.snapshots["end"]
        report["feedd_cpu"] = {role: after[role] - before[role] for role in after}
        return report

    def copy_limit(self, batch_bytes, ring, streams, seconds=None, device=None):
        """Bytes per second that copies alone move over the bus."""
        return run_json([self.program("gpu_copy"), "--device", device or self.device, "--bytes", str(batch_bytes),
                         "--ring", str(ring), "--streams", str(streams), "--seconds",
                         str(seconds or (0.3 if self.quick else 1.0))])["bytes_per_second"]

    def beside_limit(self, batch_bytes, ring, job):
        """What `job` returns, and the copy limit: the mean of what it was right before and right after, on one
        stream or two, whichever is faster."""
        before = [self.copy_limit(batch_bytes, ring, streams) for streams in (1, 2)]
        result = job()
        after = [self.copy_limit(batch_bytes, ring, streams) for streams in (1, 2)]
        means = [(first + second) / 2 for first, second in zip(before, after)]
        return result, max(means), {"limit_before": before, "limit_after": after}
