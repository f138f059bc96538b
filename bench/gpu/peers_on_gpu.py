"""Peers of image.gpu, each in a process of its own, between feedd's rounds; one that fails is named and left out."""

import os
import re
import subprocess

from images import HERE, the_python
from measure import median, run_json
from setting import BenchError

PEERS = ("nvimagecodec", "torchvision", "dali", "spdl") # of ../image_peers_on_gpu.py
# The part that a goal is relative to: what feedd finishes, against what the peer only decodes.
GOALS = {("nvimagecodec", "decode"): 0.9}
PARTS = {"decode": "", "train": "_train"} # only decoded; RandomResizedCrop 224, flip, normalise, float16
BATCH = 512 # at which the rate was measured that the goal comes from
RUN_SECONDS = 100


def reason_of(error):
    """The last line of what the program said, without its command line."""
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
        """A round of each."""
        for peer in list(self.rounds):
            try:
                self.rounds[peer].append(run_json(self.command(peer), timeout=RUN_SECONDS, last_line=True))
            except (BenchError, OSError, ValueError, subprocess.TimeoutExpired) as error:
                print(f"image.gpu: left out: {peer}: {reason_of(error)}", flush=True)
                del self.rounds[peer]

    def record(self, value, params):
        """What feedd made, relative to each of them."""
        for peer, rounds in self.rounds.items():
            for part, suffix in PARTS.items():
                results = [result[part] for result in rounds]
                limit, wanted = median(results, "images_per_second"), GOALS.get((peer, part))
                self.bench.records.add(
                    "image.gpu", value, "images/s", {**params, "limit": peer + suffix}, limit, wanted and f"{wanted} of {peer}",
                    wanted and value / limit >= wanted, limit_batch=self.batch, limit_cores=round(median(results, "cores"), 3),
                    limit_rounds=results)
                print(f"{'':18} {peer} took {median(results, 'cores'):.2f} cores", flush=True)
