"""GPUs as tests see them: the one named by harness.DEVICE or a simulated one, and always a second one."""

import json

import consumer
import data
import expected
import harness

GPU = harness.DEVICE or "host:0"
OTHER = "host:1"
CPU = "cpu"
SIMULATED = "host:0"  # for faults that a real GPU cannot be made to have
SIMULATED_UUID = "HOST-0"
FAULTS = "FEEDD_SIMULATED_GPU"  # gpu/gpu_host.h
SAMPLES = 2000
SIZE = 64


def serve(dataset=None, environment=None, **settings):
    """A running feedd with a dataset of records and rings and pools of a few batches."""
    instance = harness.Instance(**{"ring": "64K", "device_pool": "32K", "device_linger": 1, **settings})
    instance.path = data.add_records(instance, samples=SAMPLES, size=SIZE, **(dataset or {}))
    return instance.start(environment=environment)


def content(instance):
    return expected.read_records([instance.path], SIZE, {"x": (0, SIZE)})


def transfers(instance):
    return instance.children_called("transfer")


class Kills:
    """Kills transfer processes, and counts them.

    If five in a row died before they opened a pool, feedd would give up on the GPU. A busy machine takes long to start one, so
    after three, the next is left alone until it has a pool. A real GPU takes a second to open, so there every process is left
    alone until then."""

    def __init__(self, instance):
        self.instance = instance
        self.count = 0
        self.early = {}  # how many in a row, by GPU

    def kill(self, choose=lambda pids: pids):
        """Kills the processes that `choose` selects from those that may be killed."""
        by_pid = {gpu["pid"]: gpu for gpu in self.instance.statistics()["gpus"]}
        most = 0 if harness.on_real_gpu() else 3
        may = [
            pid for pid in transfers(self.instance)
            if pid in by_pid and (by_pid[pid]["pinned_bytes"] > 0 or self.early.get(by_pid[pid]["uuid"], 0) < most)
        ]  # fmt: skip
        for pid in choose(may) if may else []:
            self.count += harness.kill(pid)
            uuid = by_pid[pid]["uuid"]
            self.early[uuid] = 0 if by_pid[pid]["pinned_bytes"] > 0 else self.early.get(uuid, 0) + 1


def gpu(instance, uuid):
    """What the statistics say of that GPU."""
    (found,) = [gpu for gpu in instance.statistics()["gpus"] if gpu["uuid"] == uuid]
    return found


def feed(instance):
    """The only one. A client that has just been started may not have attached yet."""
    (found,) = harness.eventually(lambda: instance.statistics()["feeds"], what="a feed")
    return found


def clients(instance):
    """Of those that are consumers."""
    return [row for row in json.loads(instance.ctl("clients", "--json").stdout) if row["feed"]]


def start(instance, device, batch_size=20, **options):
    """A consumer there that has attached; .uuid is its device's name."""
    reader = consumer.Consumer(instance, "numbers", batch_size, device=device, **options)
    reader.uuid = reader.attached()["device"]
    return reader


def start_all(instance, devices, share="job", **options):
    """Consumers of one shared feed, which begins when all have attached."""
    readers = [
        consumer.Consumer(instance, "numbers", 20, device=device, share=share, wait_for=len(devices), **options)
        for device in devices
    ]
    for reader in readers:
        reader.uuid = reader.attached()["device"]
    return readers
