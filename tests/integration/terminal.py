"""A terminal whose screen a test reads: tmux is one. Standard library alone."""

import re
import shlex
import shutil
import subprocess

import harness


class Terminal:
    """A tmux of its own, in which a command runs."""

    def __init__(self, instance, command, width=80, height=24):
        if not shutil.which("tmux"):
            harness.skip("there is no tmux")
        self.server = str(instance.directory / "tmux")
        self.environment = instance.environment(LC_ALL="C.UTF-8", TERM="xterm-256color", SHELL="/bin/sh")
        self.environment.pop("TMUX", None)
        self.run("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), command)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.server, "kill-server"], capture_output=True, check=False)

    def run(self, *arguments):
        done = subprocess.run(["tmux", "-S", self.server, *arguments], env=self.environment, capture_output=True, text=True,
                              check=False, timeout=20 * harness.SLOWNESS, cwd="/")  # fmt: skip
        assert done.returncode == 0, (arguments, done)
        return done.stdout

    def screen(self):
        return self.run("capture-pane", "-p").splitlines()

    def keys(self, *keys):
        self.run("send-keys", *keys)

    def resize(self, width, height):
        self.run("resize-window", "-x", str(width), "-y", str(height))

    def shows(self, *patterns, seconds=15):
        """Waits for a screen on which each pattern matches a line; returns the lines."""
        last = []

        def seen():
            last[:] = self.screen()
            return all(any(re.search(pattern, line) for line in last) for pattern in patterns)

        try:
            harness.eventually(seen, seconds, patterns)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *last])) from None
        return list(last)


class Feedctl(Terminal):
    """With feedctl in it."""

    def __init__(self, instance, *arguments, charset="C.UTF-8", **size):
        self.ended = instance.directory / "ended"
        # Its exit status, for when it has ended. Ctrl-C is for feedctl, and not for the shell around it.
        command = f"trap : INT; LC_ALL={charset} {harness.PROGRAMS}/feedctl {shlex.join(arguments)}; echo $? >{self.ended}"
        super().__init__(instance, command, **size)

    def status(self):
        harness.eventually(self.ended.exists, 10, "feedctl ends")
        harness.eventually(lambda: self.ended.read_text().strip(), 2, "its status")
        return int(self.ended.read_text())
