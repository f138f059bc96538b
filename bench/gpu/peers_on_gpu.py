"""Peers of image.gpu, each in its own process, between feedd's rounds. A peer that fails is reported and left out."""

import os
import re
import subprocess

from images import HERE, the_python
from measure import median, run_json
from setting import BenchError

PEERS = ("nvimagecodec", "torchvision", "dali", "spdl") # of ../image_peers_on_gpu.py
# The part that a goal refers to: images that feedd finishes, against images that the peer only decodes.
GOALS = {("nvimagecodec", "decode"): 0.9}
PARTS = {"decode": "", "train": "_train"} # only decoded; RandomResizedCrop 224, flip, normalise, float16
BATCH = 512 # as when the rate that the goal comes from was measured
RUN_SECONDS = 100


def reason_of(error):
    """The last line of the program's message, without its command line."""
    text = re.sub(r"^.* ended with status -?\d+: ", "", str(error).strip(), count=1)
    return (text.splitlines() or [f"no reason given: {str(error)[-100:]}"])[-1][:300]


class Peers:
    def __init__(self, bench, folder):
        self.bench = bench
        self.rounds = {peer: [] for peer in PEERS}
        device = "cpu" if bench.simulated else bench.device
        self.batch = 16 if bench.simulated else BATCH
        script = os.path.join(HERE, "image_peers_on_gpu.py")
        self.command = lambda peer: [the_python(bench), script, peer, folder, str(bench.seconds), str(self.batch), device]

    def measure(self):
        """Runs one round of each peer."""
        for peer in list(self.rounds):
            try:
                self.rounds[peer].append(run_json(self.command(peer), timeout=RUN_SECONDS, last_line=True))
            except (BenchError, OSError, ValueError, subprocess.TimeoutExpired) as error:
                print(f"image.gpu: left out: {peer}: {reason_of(error)}", flush=True)
                del self.rounds[peer]

    def record(self, value, params):
        """Records feedd's rate relative to each peer."""
        for peer, rounds in self.rounds.items():
            for part, suffix in PARTS.items():
                results = [result[part] for result in rounds]
                limit, wanted = median(results, "images_per_second"), GOALS.get((peer, part))
                self.bench.records.add(
                    "image.gpu", value, "images/s", {**params, "limit": peer + suffix}, limit, wanted and f"{wanted} of {peer}",
                    wanted and value / limit >= wanted, limit_batch=self.batch, limit_cores=round(median(results, "cores"), 3),
                    limit_rounds=results)
                print(f"{'':18} {peer} used {median(results, 'cores'):.2f} cores", flush=True)
