"""The documents' examples, the package's types, and an installation as README describes it."""

import contextlib
import itertools
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import venv

import harness
import numpy as np
import pictures
import pytest
import support
import test_folder
import test_megatron
import test_ragged_tokens
import test_tar

import feedd

# Those of docs/frameworks.md are run by test_framework_documents.py; that of docs/profiling.md is a part of a program:
# test_torch_profiling.py has the rest.
ELSEWHERE = ("frameworks", "profiling")
DOCUMENTS = [harness.ROOT / "README.md", *sorted(path for path in harness.ROOT.glob("docs/*.md") if path.stem not in ELSEWHERE)]


def examples():
    """The Python of each document, as one program: a block may use what those before it have made."""
    for path in DOCUMENTS:
        blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
        if blocks:
            yield "\n".join(blocks)


@pytest.mark.limit(90)
def test_examples_run():
    """All of them, with datasets and views as the documents declare them, of made data."""
    programs = list(examples())
    assert len(programs) == 4 and "mixed(" in programs[2] and "serve(" in programs[3]
    with harness.Instance(ring_memory="1G") as daemon:
        (daemon.directory / "data/chats").mkdir(parents=True)
        programs[1] = programs[1].replace('"/data/', f'"{daemon.directory}/data/')
        file = daemon.directory / "train.bin"
        file.write_bytes(b"".join(bytes([1, index % 100]) + bytes([index % 251]) * 3072 for index in range(1000)))
        daemon.add_dataset(
            "cifar100", format="records", path=file, record_bytes=3074, field_label="u8 @ 1", field_image="u8[3,32,32] @ 2"
        )
        daemon.add_view("cifar100-train", "cifar100", samples="0%..90%", split_seed=3)
        daemon.add_view("cifar100-val", "cifar100", samples="90%..", split_seed=3)
        texts = [(f"{n:04}", {"txt": b"a line of text" * (n % 7), "cls": str(n).encode()}) for n in range(100)]
        test_tar.write(daemon.directory / "texts.tar", texts)
        fields = {"field_text": "bytes @ txt", "field_label": "i64 @ cls"}
        daemon.add_dataset("texts", format="tar", path=daemon.directory / "texts.tar", **fields)
        test_megatron.pair(daemon.directory / "packed", test_megatron.some(100, most=300), kind=4)
        test_ragged_tokens.write(daemon.directory / "chats", test_megatron.some(1000, most=90))
        chats = {"path": daemon.directory / "chats.bin", "offsets": daemon.directory / "chats.npy", "dtype": "u16"}
        daemon.add_dataset("chats", format="tokens", **chats)
        windows = {"pack": 64, "cu_seqlens": "yes"}
        daemon.add_dataset("packed", format="megatron", path=daemon.directory / "packed.idx", **windows)
        test_folder.write(daemon.directory / "photos", pictures.files(pictures.some(20)))
        photos = {"field_image": "bytes @ file", "field_label": "i64 @ class"}
        steps = f"random_resized_crop 224, flip 0.5, {pictures.NORMALISE}"
        daemon.add_dataset("photos", format="folder", path=daemon.directory / "photos", transform_image=steps, **photos)
        daemon.start()
        code = "import sys\nfor text in sys.argv[1:]:\n    exec(compile(text, text, 'exec'), {'__name__': '__main__'})"
        made = pathlib.Path("/tmp/feedd-example.npy")
        try:
            variables = {"FEEDD_PROGRAM": str(harness.PROGRAMS / "feedd"), "TORCHINDUCTOR_CACHE_DIR": str(daemon.directory)}
            output = support.run(code, *programs, daemon=daemon, variables=variables)
        finally:
            with contextlib.suppress(OSError):
                made.unlink()
        documents = [range(1 + n % 90) for n in range(1000)]
        tokens = b"".join(struct.pack(f"<{len(document)}H", *document) for document in documents)
        assert (daemon.directory / "data/chats/a.bin").read_bytes() == tokens
        (_, *ends) = np.load(daemon.directory / "data/chats/a.npy")
        assert ends == list(itertools.accumulate(map(len, documents)))
    assert "('image', 'uint8', (256, 3, 32, 32))" in output and "64 documents, " in output


@pytest.mark.parametrize("write", ["image.mul_(2)", "x = image.to(torch.uint8); x[0] = 0"])
def test_writes_that_the_document_names(daemon, write):
    """They end the process after the line that it quotes."""
    text = (harness.ROOT / "docs/pytorch.md").read_text()
    assert f"`{write}`" in text
    code = f"""
import feedd, torch
for id, image in feedd.DataLoader("numbers", 16):
    image = image.view(torch.uint8)
    {write}
"""
    output = support.run(code, daemon=daemon, status=-signal.SIGSEGV)
    (line,) = re.findall(r"^feedd: this process wrote to a batch.*\n", text, re.MULTILINE)
    assert output.startswith(line)


TYPED = '''
import feedd

loader = feedd.DataLoader("numbers", batch_size=16, shuffle=True, device="cpu")
for batch in loader:
    print(batch[0])
state: dict[str, object] = loader.state_dict()
loader.load_state_dict(state)
length: int = len(loader)
fields: tuple[tuple[str, str, tuple[int | None, ...]], ...] = loader.fields
dataset: feedd.Dataset = loader.dataset
part: list[object] = dataset[1:3]
with feedd.serve({"a": {"format": "npy"}}) as service:
    text: str = service.socket
'''


def mypy(*arguments):
    pytest.importorskip("mypy", reason="this Python has no mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir=/dev/null", *map(str, arguments)], capture_output=True,
        text=True, check=False, env=support.environment(),
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.limit(120)
def test_types(tmp_path):
    """Of the package, of a program that uses it, and that a wrong one is found."""
    assert mypy(pathlib.Path(feedd.__file__).parent) == (0, "Success: no issues found in 40 source files\n")
    program = tmp_path / "program.py"
    program.write_text(TYPED)
    status, output = mypy(program)
    assert status == 0, output
    program.write_text('import feedd\nfeedd.DataLoader("a", batch_size="b")\nfeedd.serve(7)\n')
    assert mypy(program)[1].count("error:") == 2


@pytest.mark.limit(180)
def test_pip_install_in_a_fresh_environment(tmp_path, daemon):
    """As README says, with the build tools that pip fetches; the package then works with nothing else there."""
    source = harness.ROOT / "client/python"
    if not (harness.ROOT / "Makefile").exists():
        pytest.skip("a bundle is not a source tree")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    command = [python, "-m", "pip", "install", "--quiet", "--config-settings", f"build-dir={tmp_path / 'built'}", source]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    code = """
import feedd
loader = feedd.DataLoader("numbers", 16)
print(loader.framework, sum(id.shape[0] for id, body in loader), feedd.__file__)
"""
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=False,
        env={**environment, "FEEDD_SOCKET": str(daemon.socket)}, cwd=tmp_path,
    )  # fmt: skip
    framework, samples, file = done.stdout.split() if done.returncode == 0 else (done.stderr, "", "")
    assert (framework, samples) == ("dlpack", str(support.SAMPLES))
    assert file.startswith(str(tmp_path))
