"""Runs CUDA's MPS during a measurement: work of different processes then runs on a GPU at once instead of in turn."""

import contextlib
import os
import shutil
import subprocess
import tempfile

from instance import BenchError

CONTROL = "nvidia-cuda-mps-control"
LIMIT_S = 30


def _control(environment, *options, command=None):
    """The daemon numbers the GPUs that it sees, and its clients see theirs by these numbers; so it sees all of them."""
    environment = {name: value for name, value in environment.items() if name != "CUDA_VISIBLE_DEVICES"}
    try:
        done = subprocess.run([CONTROL, *options], env=environment, input=command, text=True, capture_output=True,
                              timeout=LIMIT_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise BenchError(f"{CONTROL} failed: {error}") from error
    if done.returncode:
        raise BenchError(f"{CONTROL} ended with status {done.returncode}: {done.stderr.strip()}")


@contextlib.contextmanager
def mps():
    """Serves every CUDA program that is started within the context. The processes of MPS end with it."""
    if not shutil.which(CONTROL):
        raise BenchError(f"{CONTROL} was not found; it comes with NVIDIA's driver")
    with tempfile.TemporaryDirectory(prefix="feedd-mps.", ignore_cleanup_errors=True) as folder:
        names = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        before = {name: os.environ.get(name) for name in names}
        inside = {**os.environ, **names}
        _control(inside, "-d")
        os.environ.update(names)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
            _control(inside, command="quit\n")
