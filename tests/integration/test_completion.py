"""What shells complete of feedctl: made of its own tables, and tried in the shells themselves."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

import consumer
import data
import harness
from terminal import Terminal

MAKE = harness.ROOT / "tools/make-completions.py"
COMMANDS = {"status", "datasets", "feeds", "clients", "stats", "top", "trace", "metrics", "doctor", "show", "read", "index",
            "errors", "pack", "loaders", "reload", "drain"}  # fmt: skip


def make(folder):
    if not MAKE.exists():
        harness.skip("only a source tree makes them")
    subprocess.run([sys.executable, MAKE, harness.PROGRAMS / "feedctl", folder], check=True)
    return pathlib.Path(folder)


def need(shell):
    if not shutil.which(shell):
        harness.skip(f"there is no {shell}")


def serve():
    instance = harness.Instance()
    data.add_records(instance, "numbers")
    data.add_records(instance, "nouns")
    data.add_records(instance, "verbs")
    (instance.directory / "some.shard").touch()
    return instance.start()


def environment():
    return {"PATH": f"{harness.PROGRAMS}:/usr/bin:/bin"}


def bash(feedd, *words):
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _feedctl; printf "%s\\n" "${COMPREPLY[@]}"'
    done = feedd.program("bash", "-c", script, "bash", feedd.directory / "feedctl.bash", "feedctl", *words,
                         environment=environment())  # fmt: skip
    assert not done.stderr, done
    return set(done.stdout.split())


def test_bash():
    need("bash")
    with serve() as feedd, consumer.Consumer(feedd, "numbers", 10, step=True, share="job") as reader:
        reader.attached()
        make(feedd.directory)
        assert bash(feedd, "") == COMMANDS | {"--socket", "--help"}
        assert bash(feedd, "st") == {"status", "stats"}
        assert bash(feedd, "--socket", str(feedd.socket), "do") == {"doctor"}
        assert bash(feedd, "read", "n") == {"numbers", "nouns"}
        assert bash(feedd, "read", "-b", "16", "n") == {"numbers", "nouns"}
        assert bash(feedd, "--socket", str(feedd.socket), "show", "ver") == {"verbs"}
        assert bash(feedd, "--socket", "/nonexistent", "show", "ver") == set()
        assert bash(feedd, "stats", "") == bash(feedd, "stats", "--count", "3", "2", "") == {"1", "job"}
        assert bash(feedd, "pack", "numbers", "some") == {"some.shard"}
        assert bash(feedd, "show", "numbers", "--output", "some") == {"some.shard"}
        assert bash(feedd, "read", "--batch-size", "") == bash(feedd, "read", "-b", "") == set()
        assert bash(feedd, "read", "--world") == {"--world-size"}
        assert {"--json", "--help"} == bash(feedd, "errors", "--")


def fish(feedd, line):
    done = feedd.program("fish", "--no-config", "-c", f"source {feedd.directory}/feedctl.fish; complete -C '{line}'",
                         environment={**environment(), "HOME": str(feedd.directory)})  # fmt: skip
    return {row.split("\t")[0] for row in done.stdout.splitlines()}


def test_fish():
    need("fish")
    with serve() as feedd, consumer.Consumer(feedd, "numbers", 10, step=True, share="job") as reader:
        reader.attached()
        make(feedd.directory)
        assert fish(feedd, "feedctl ") >= COMMANDS
        assert fish(feedd, "feedctl st") == {"status", "stats"}
        assert fish(feedd, "feedctl read n") == {"numbers", "nouns"}
        assert fish(feedd, f"feedctl --socket {feedd.socket} show ver") == {"verbs"}
        assert fish(feedd, "feedctl --socket /nonexistent show ver") == set()
        assert fish(feedd, "feedctl stats ") == {"1", "job"}
        assert fish(feedd, "feedctl read --world") == {"--world-size"}
        assert fish(feedd, "feedctl read --batch-size ") == set()
        assert "some.shard" in fish(feedd, "feedctl pack numbers some")


def test_zsh():
    need("zsh")
    with serve() as feedd, tempfile.TemporaryDirectory() as folder:
        make(folder)
        start = f"cd {feedd.directory}; PATH={harness.PROGRAMS}:$PATH zsh -f"
        with Terminal(feedd, start, width=120, height=50) as terminal:
            def types(line):
                terminal.keys("C-u", "C-l")
                terminal.keys("-l", line)
                terminal.keys("Tab")

            terminal.keys("-l", f"fpath=({folder} $fpath); autoload -U compinit; compinit -u -d {folder}/dump; PS1='> '")
            terminal.keys("Enter")
            terminal.shows("^>$")
            types("feedctl stat")
            terminal.shows("^stats +-- live throughput", "^status +-- the daemon, its processes")
            types("feedctl doc")
            terminal.shows("^> feedctl doctor$")
            types("feedctl read n")
            terminal.shows("^nouns +numbers|^numbers +nouns")
            types("feedctl read ver")
            terminal.shows("^> feedctl read verbs")
            types("feedctl read --world")
            terminal.shows("^> feedctl read --world-size=")
            types("feedctl stats --o")
            terminal.shows("^> feedctl stats --once")
            types("feedctl pack verbs some")
            terminal.shows("^> feedctl pack verbs some.shard")


def test_every_option_is_there():
    with tempfile.TemporaryDirectory() as name:
        folder = make(name)
        texts = {file: (folder / file).read_text() for file in ("feedctl.bash", "_feedctl", "feedctl.fish")}
        for command in COMMANDS:
            program = harness.PROGRAMS / "feedctl"
            table, usage = (
                subprocess.run([program, command, option], capture_output=True, text=True, check=True).stdout
                for option in ("--describe-options", "--usage")
            )
            options = [row.split("\t")[1] for row in table.splitlines() if row.startswith("option")]
            assert all(f"[--{option}" in usage for option in options), (command, options, usage)
            for option in options:
                assert f"--{option}" in texts["feedctl.bash"].split(f"    {command})")[1].split(";;")[0], (command, option)
                assert f"--{option}" in texts["_feedctl"].split(f"        {command}) ")[1].split(";;")[0], (command, option)
                assert f"\"__feedctl_in '{command}'\" -l {option} " in texts["feedctl.fish"], (command, option)
