"""What shells complete of our programs: made of their own tables, and tried in the shells themselves."""

import contextlib
import pathlib
import re
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
OF_FEEDD = {"--config", "--check", "--user", "--until-eof", "--help-config"}


def make(folder):
    if not MAKE.exists():
        harness.skip("only a source tree makes them")
    programs = [harness.PROGRAMS / name for name in ("feedctl", "feedd", "feedd-exporter")]
    subprocess.run([sys.executable, "-B", MAKE, folder, *(path for path in programs if path.exists())], check=True)
    return pathlib.Path(folder)


def need(shell):
    if not shutil.which(shell):
        harness.skip(f"there is no {shell}")


def serve():
    instance = harness.Instance()
    data.add_records(instance, "numbers")
    data.add_records(instance, "nouns")
    data.add_records(instance, "verbs")
    for name in ("some.shard", "a:b"):
        (instance.directory / name).touch()
    (instance.directory / "folder").mkdir()
    return instance.start()


def environment():
    return {"PATH": f"{harness.PROGRAMS}:/usr/bin:/bin"}


def bash(feedd, line, program="feedctl"):
    """All that bash would offer at the end of the line, which it splits as here."""
    words = re.findall(r"[=:]+|>|[^\s=:>]+", line) + [""] * line.endswith(" ")
    script = f'source "$1"; COMP_LINE=$2; shift 2; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _{program.replace("-", "_")}; '
    done = feedd.program("bash", "-c", script + r'printf "%s\n" "${COMPREPLY[@]}"', "bash",
                         feedd.directory / f"{program}.bash", line, *words, environment=environment())  # fmt: skip
    assert not done.stderr, done
    return set(done.stdout.split())


def test_bash():
    need("bash")
    with serve() as feedd, consumer.Consumer(feedd, "numbers", 10, step=True, share="job") as reader:
        reader.attached()
        make(feedd.directory)
        assert bash(feedd, "feedctl ") == COMMANDS | {"--socket", "--help", "--version"}
        assert bash(feedd, "feedctl st") == {"status", "stats"}
        assert bash(feedd, "feedctl nonsense st") == set()
        assert bash(feedd, f"feedctl --socket {feedd.socket} do") == {"doctor"}
        assert bash(feedd, "feedctl read n") == {"numbers", "nouns"}
        assert bash(feedd, "feedctl read -b 16 n") == {"numbers", "nouns"}
        assert bash(feedd, "feedctl stats ") == bash(feedd, "feedctl stats --count 3 2 ") == {"1", "job"}
        assert bash(feedd, "feedctl pack numbers some") == {"some.shard"}
        assert bash(feedd, "feedctl show numbers --output some") == {"some.shard"}
        assert bash(feedd, "feedctl read --batch-size ") == bash(feedd, "feedctl read -b ") == set()
        assert bash(feedd, "feedctl read --world") == {"--world-size"}
        assert {"--json", "--help"} == bash(feedd, "feedctl errors --")


def test_bash_splits_words():
    """At = and :, unless its user has changed that."""
    need("bash")
    with serve() as feedd:
        make(feedd.directory)
        for socket in (f"--socket {feedd.socket}", f"--socket={feedd.socket}", f"-s {feedd.socket}", f"-s{feedd.socket}"):
            assert bash(feedd, f"feedctl {socket} show ver") == {"verbs"}, socket
            assert bash(feedd, f"feedctl {socket}.none show ver") == set(), socket
        assert bash(feedd, "feedctl read --batch-size=16 n") == {"numbers", "nouns"}
        assert bash(feedd, "feedctl show numbers --output=some") == {"some.shard"}
        assert bash(feedd, "feedctl show numbers --output=") >= {"some.shard", "a:b"}
        assert bash(feedd, "feedctl show numbers --output=a:") == {"b"}
        assert bash(feedd, "feedctl show numbers --values=") == set()
        assert bash(feedd, "feedctl show numbers >some") == {"some.shard"}


@contextlib.contextmanager
def interactive_bash(feedd):
    """Types a line into it and returns what it has completed it to; the prompt is >."""
    start = f"cd {feedd.directory}; PATH={harness.PROGRAMS}:$PATH FEEDD_SOCKET=/nonexistent bash --noprofile --norc -i"
    with Terminal(feedd, start, width=200, height=50) as terminal:
        def completes(line, *wanted, tabs=1):
            terminal.keys("C-u", "C-l")
            terminal.keys("-l", line)
            terminal.keys(*["Tab"] * tabs)
            terminal.shows(*wanted)

        terminal.keys("-l", "for i in *.bash; do source $i; done; PS1='> '; unset FEEDD_SOCKET")
        terminal.keys("Enter")
        terminal.shows("^>$")
        yield terminal, completes


def test_interactive_bash():
    need("bash")
    with serve() as feedd:
        make(feedd.directory)
        socket = re.escape(str(feedd.socket))
        with interactive_bash(feedd) as (terminal, completes):
            completes(f"feedctl --socket={feedd.socket} read n",
                      "^nouns +numbers", f"^> feedctl --socket={socket} read n$", tabs=2)  # fmt: skip
            completes(f"feedctl --socket={feedd.socket} read nu", f"^> feedctl --socket={socket} read numbers$")
            completes("feedctl show nums --output=so", "^> feedctl show nums --output=some.shard$")
            completes("feedctl show nums --output=fo", "^> feedctl show nums --output=folder/$")
            completes("feedctl show nums --output=a:", "^> feedctl show nums --output=a:b$")
            completes("feedctl show nums -o so", "^> feedctl show nums -o some.shard$")
            completes(f"feedctl --socket={str(feedd.socket)[:-3]}", f"^> feedctl --socket={socket}$")
            completes("true; feedctl do", "^> true; feedctl doctor$")
            completes("feedd --config=so", "^> feedd --config=some.shard$")
            terminal.keys("C-u")
            terminal.keys("-l", "COMP_WORDBREAKS=${COMP_WORDBREAKS//=}")
            terminal.keys("Enter")
            completes("feedctl show nums --output=so", "^> feedctl show nums --output=some.shard$")
            completes(f"feedctl --socket={feedd.socket} read nu", f"^> feedctl --socket={socket} read numbers$")


def fish(feedd, line):
    name = line.split()[0]
    done = feedd.program("fish", "--no-config", "-c", f"source {feedd.directory}/{name}.fish; complete -C '{line}'",
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
        for socket in (f"--socket {feedd.socket}", f"--socket={feedd.socket}", f"-s {feedd.socket}", f"-s{feedd.socket}"):
            assert fish(feedd, f"feedctl {socket} show ver") == {"verbs"}, socket
            assert fish(feedd, f"feedctl {socket}.none show ver") == set(), socket
        assert fish(feedd, "feedctl stats ") == {"1", "job"}
        assert fish(feedd, "feedctl read --world") == {"--world-size"}
        assert fish(feedd, "feedctl read --batch-size ") == set()
        assert "some.shard" in fish(feedd, "feedctl pack numbers some")
        assert fish(feedd, "feedctl show numbers --output=some") == {"--output=some.shard"}
        assert fish(feedd, "feedd --") == {*OF_FEEDD, "--help", "--version"}
        assert fish(feedd, "feedd --config=some") == {"--config=some.shard"}


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
            types("feedctl show verbs --output=some")
            terminal.shows("^> feedctl show verbs --output=some.shard")
            types("feedd --config=some")
            terminal.shows("^> feedd --config=some.shard")
            types("feedd --help-")
            terminal.shows("^> feedd --help-config")
            terminal.keys("C-u")
            terminal.keys("-l", "FEEDD_SOCKET=/nonexistent")
            terminal.keys("Enter")
            for socket in (f"--socket {feedd.socket}", f"--socket={feedd.socket}", f"-s {feedd.socket}", f"-s{feedd.socket}"):
                types(f"feedctl {socket} read ver")
                terminal.shows(f"^> feedctl {re.escape(socket)} read verbs")


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


def test_programs_without_commands():
    need("bash")
    wanted = {"feedd": OF_FEEDD, "feedd-exporter": {"--socket", "--listen"}}
    with harness.Instance() as instance:
        make(instance.directory)
        (instance.directory / "some.conf").touch()
        for name, options in wanted.items():
            if not (harness.PROGRAMS / name).exists():
                harness.skip(f"this build has no {name}")
            assert bash(instance, f"{name} ", name) == options | {"--help", "--version"}, name
            texts = [(instance.directory / file).read_text() for file in (f"_{name}", f"{name}.fish")]
            for option in options:
                assert f"--{option[2:]}" in texts[0] and f"-l {option[2:]} " in texts[1], (name, option)
        assert bash(instance, "feedd -c so", "feedd") == bash(instance, "feedd --config=so", "feedd") == {"some.conf"}
        assert bash(instance, "feedd --user=", "feedd") == bash(instance, "feedd --user ", "feedd") == set()
        assert bash(instance, "feedd-exporter -s so", "feedd-exporter") == {"some.conf"}
        assert bash(instance, "feedd-exporter --listen=", "feedd-exporter") == set()
