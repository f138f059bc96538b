"""Runs CUDA's MPS during a measurement: work of different processes then runs on a GPU at once instead of in turn."""

import contextlib
import os
import shutil
import subprocess
import tempfile

from instance import BenchError

CONTROL = "nvidia-cuda-mps-control"
LIMIT_S = 30


def _control(*options, command=None):
    return subprocess.run([CONTROL, *options], input=command, text=True, capture_output=True, timeout=LIMIT_S, check=False)


@contextlib.contextmanager
def mps():
    """Serves every CUDA program that is started within the context. The processes of MPS end with it."""
    if not shutil.which(CONTROL):
        raise BenchError(f"{CONTROL} was not found; it comes with NVIDIA's driver")
    with tempfile.TemporaryDirectory(prefix="feedd-mps.") as folder:
        names = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        before = {name: os.environ.get(name) for name in names}
        os.environ.update(names)
        try:
            started = _control("-d")
            if started.returncode:
                raise BenchError(f"{CONTROL} -d ended with status {started.returncode}: {started.stderr.strip()}")
            yield
        finally:
            _control(command="quit\n")
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
