"""The commands of README and docs/ do what they say, and the paths that the documents name exist."""

import os
import re

import data
import harness
import parquet_writer
import test_arrow
import test_folder
import test_megatron
import test_ragged_tokens
import test_tar

DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
DOCUMENTS += [f"docs/{path.name}" for path in sorted(harness.ROOT.glob("docs/*.md"))]
SANITIZERS = "-fsanitize=address,undefined" if harness.BUILD.name == "asan" else ""
# What a person adds, or a program makes; and what is named without the folder that it is in.
NOT_IN_THE_TREE = re.compile(r"^(build|/)|NAME|PATH|\*")


def blocks(document, language, title=""):
    """The blocks of code in that language, from a section with that title on to the next one."""
    text = (harness.ROOT / document).read_text()
    assert title in text, f"{document} has no section {title}"
    section = text[text.index(title) + len(title) :].split("\n## ")[0] if title else text
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def in_a_source_tree():
    if not (harness.ROOT / "Makefile").exists():
        harness.skip("a bundle is not a source tree")


def run_as_a_reader(feedd, commands):
    """In a shell that stops at the first error, on the programs that are tested."""
    script = "\n".join(line for line in commands if line and not line.startswith("export FEEDD_SOCKET"))
    script = script.replace("-o build/", f"-o {feedd.directory}/").replace("\nbuild/example", f"\n{feedd.directory}/example")
    script = script.replace("build/", f"{harness.BUILD}/").replace("cc ", f"cc {SANITIZERS} ")
    script = script.replace("client/", f"{harness.ROOT}/client/").replace("-Iclient", f"-I{harness.ROOT}/client")
    # What fills a whole screen gets one, and the key that ends it.
    script = re.sub(r"^(\S+feedctl top).*$", r"(sleep 2; printf q) | TERM=xterm script -qec '\1' /dev/null", script, flags=re.M)
    return feedd.program("sh", "-euxc", script)


def serve_cifar100(feedd, more=""):
    """As README and docs/data.md declare it and other datasets, with data that is made."""
    declared = "\n".join(blocks("README.md", "ini", "## Quick start") + blocks("docs/data.md", "ini"))
    folder = feedd.directory / "cifar-100-binary"
    folder.mkdir()
    (folder / "train.bin").write_bytes(os.urandom(3074 * 1000))
    test_tar.write(folder / "s-0.tar", test_tar.some(10))
    (folder / "squad.arrow").write_bytes(test_arrow.squad(10))
    (folder / "tokenised").mkdir()
    (folder / "tokenised/0.arrow").write_bytes(test_arrow.questions(10))
    (folder / "train-0.parquet").write_bytes(parquet_writer.images(10))
    test_folder.write(folder / "train", {"cat/1.jpg": b"one", "dog/2.PNG": b"two", "dog/notes.txt": b""})
    test_megatron.pair(folder / "pile", [[number] * 100 for number in range(50)])
    (folder / "chats").mkdir()
    test_ragged_tokens.write(folder / "chats/0", test_megatron.some(20))
    data.write_npy(folder / "labels.npy", "|u1", (50,), bytes(50))
    data.write_npy(folder / "images.npy", "|u1", (50, 3, 32, 32), bytes(50 * 3072))
    text = declared
    places = {"/tmp/feedd.sock": feedd.socket, "/data/cifar-100-binary": folder, "/data/shards": folder}
    places |= {"/data/squad": folder, "/data/tokenised": folder / "tokenised", "/data/hub": folder, "/data/pictures": folder}
    places |= {"/data/pile": folder, "/data/chats": folder / "chats", "/data/synthetic": folder}
    for old, new in places.items():
        assert old in text
        text = text.replace(old, str(new))
    feedd.write_config(text.replace("[feedd]\n", f"[feedd]\nring_memory = 256M\n{more}"))


@harness.host_memory
def test_quick_start():
    in_a_source_tree()
    with harness.Instance() as feedd:
        serve_cifar100(feedd)
        first, *others = blocks("README.md", "sh", "## Quick start")
        check, run = first.splitlines()
        assert run.split("#")[0].strip() == "build/feedd --config feedd.conf"
        done = run_as_a_reader(feedd, [check])
        assert "image: u8[3,32,32]" in done.stdout, done
        assert "wds: format tar, 10 samples" in done.stdout and "jpg: u8[] of" in done.stdout, done
        assert "squad: format arrow, 10 samples" in done.stdout and "context: u8[4000]" in done.stdout, done
        assert "starts: i32[] of 4 bytes" in done.stdout and "tokenised: format arrow, 2 samples" in done.stdout, done
        assert "hub: format parquet, 10 samples" in done.stdout and "image: u8[] of" in done.stdout, done
        assert "pictures: format folder, 2 samples" in done.stdout and "label: i64" in done.stdout, done
        assert "chats: format tokens, 20 samples" in done.stdout and "tokens: u16[] of " in done.stdout, done
        assert "pile: format megatron, 2 samples" in done.stdout and "tokens: u16[2049]" in done.stdout, done
        assert "cifar100-train: view of cifar100, format records, 900 samples" in done.stdout, done
        assert "cifar100-val: view of cifar100, format records, 100 samples" in done.stdout, done
        assert "both: mix of 2 sources, epochs of 60000 samples" in done.stdout, done
        feedd.start()
        done = run_as_a_reader(feedd, [line for block in others for line in block.splitlines()])
        assert "verified 1000 samples" in done.stdout and "BOTTLENECK" in done.stdout, done
        assert "1000 samples in 1 shard" in done.stdout and "[dataset cifar100-packed]" in done.stdout, done
        assert (feedd.directory / "cifar100-00000.feed").exists()


@harness.host_memory
def test_transform_of_the_documents():
    text = (harness.ROOT / "docs/data.md").read_text()
    (transform,) = re.findall(r"`(transform\.image = [^`]+)`", text)
    with harness.Instance() as feedd:
        serve_cifar100(feedd)
        text = feedd.config.read_text().split("\n[mix")[0]  # its other source has no transform
        feedd.write_config(text.replace("\n[dataset pictures", f"\n{transform}\n[dataset pictures", 1))
        done = feedd.check()
        assert done.returncode == 0 and "image: f32[3,32,32]" in done.stdout, done


@harness.host_memory
def test_simulated_gpu():
    in_a_source_tree()
    with harness.Instance() as feedd:
        serve_cifar100(feedd, "simulated_gpus = 1\n")
        feedd.start()
        (commands,) = blocks("docs/gpu.md", "sh", "## Without a GPU")
        done = run_as_a_reader(feedd, commands.splitlines())
        assert "verified 1000 samples" in done.stdout, done


def named_paths(text):
    """What a document names in backticks with a folder, and what it links to."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`([A-Za-z0-9_.-]+/[A-Za-z0-9_./-]*)`", text)
    yield from re.findall(r"\]\(([^):]+)\)", text)


@harness.host_memory
def test_paths_that_documents_name():
    in_a_source_tree()
    for document in DOCUMENTS:
        for path in named_paths((harness.ROOT / document).read_text()):
            if not NOT_IN_THE_TREE.search(path):
                places = harness.ROOT / path, (harness.ROOT / document).parent / path
                assert any(place.exists() for place in places), f"{document} names {path}, which does not exist"


@harness.host_memory
def test_every_failure_has_a_test():
    """Each row of README's table names at least one, and they exist."""
    in_a_source_tree()
    table = (harness.ROOT / "README.md").read_text().split("## What fails, and what you see")[1].split("\n## ")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert len(rows) > 5, rows
    for _, what, _, tests, _ in rows:
        names = re.findall(r"`(test_\w+)`", tests)
        assert names, f"no test shows: {what}"
        for name in names:
            assert (harness.ROOT / f"tests/integration/{name}.py").exists(), name


def check_options(command, least):
    """Whatever --help of the command lists is in the manual page; test_completion looks at what shells complete."""
    in_a_source_tree()
    with harness.Instance() as feedd:
        help_text = feedd.ctl(command, "--help").stdout
    options = re.findall(r"(?<=\s)--([a-z-]+)", help_text)
    assert len(options) > least, help_text
    manual = (harness.ROOT / "client/ctl/feedctl.1").read_text().partition(f"\n.Ss {command} ")[2].partition("\n.Ss ")[0]
    for option in set(options) - {"help", "usage", "version"}:
        assert re.search(rf"Fl -{option}( |$)", manual, re.MULTILINE), f"feedctl.1 does not have --{option}"


def test_options_of_feedctl_read_are_documented():
    check_options("read", 20)


def test_options_of_feedctl_pack_are_documented():
    check_options("pack", 4)


def test_options_of_feedctl_show_are_documented():
    check_options("show", 9)
