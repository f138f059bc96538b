"""python -m feedd.doctor as a command: scripts without a DataLoader, wrong files, and the width of a terminal."""

import subprocess
import sys

import pytest
import support
from test_doctor import STEPS, doctor, loader_of, part


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "found no DataLoader of PyTorch"), ("def (:\n", "invalid syntax"), ("x = '\0'\n", "null bytes"),
        ("from ffcv.loader import Loader\nx = Loader('a.beton')\n", "line 2 makes a loader of FFCV: declare the files"),
        ("import numpy as np\nx = np.memmap('train.bin')\n", "line 2 maps a file: if it holds tokens, a dataset with format ="),
    ],
)
def test_nothing_to_say(tmp_path, text, said):
    status, output = doctor(tmp_path, text)
    assert status == 2 and said in output and str(tmp_path / "script.py") in output


def test_a_script_that_is_not_there(tmp_path):
    done = subprocess.run([sys.executable, "-m", "feedd.doctor", str(tmp_path / "none.py")], capture_output=True, text=True,
                          check=False, env=support.environment())  # fmt: skip
    assert done.returncode == 2 and done.stderr == f"{tmp_path}/none.py: No such file or directory\n"


def test_remarks_fit_the_terminal(tmp_path):
    """The lines that are copied are not folded."""
    (tmp_path / "script.py").write_text(loader_of(f"datasets.ImageFolder('{'d' * 90}', {STEPS})"))
    done = subprocess.run([sys.executable, "-m", "feedd.doctor", str(tmp_path / "script.py")], capture_output=True, text=True,
                          check=False, env=support.environment() | {"COLUMNS": "60"})  # fmt: skip
    known = part(done.stdout, "to know:").splitlines()
    assert len(known) > 3 and all(len(line) <= 56 or "d" * 90 in line for line in known), done.stdout
    assert f"    path = {'d' * 90}\n" in done.stdout


def test_help_has_the_word_of_the_report(tmp_path):
    (tmp_path / "script.py").write_text(loader_of(f"datasets.ImageFolder('d', {STEPS})").replace(")\n", ", collate_fn=f)\n"))
    command = [sys.executable, "-m", "feedd.doctor"]
    done = [subprocess.run([*command, argument], capture_output=True, text=True, check=False, env=support.environment())
            for argument in ("--help", str(tmp_path / "script.py"))]  # fmt: skip
    assert "0 if everything can be converted, 1 if" in " ".join(done[0].stdout.split()), done[0]
    assert done[1].returncode == 1 and "cannot be converted:" in done[1].stdout, done[1]
