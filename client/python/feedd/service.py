"""serve: a private daemon, where no service runs."""

import configparser
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from .errors import Error

_START_SECONDS = 30.0
_STOP_SECONDS = 15.0
_PLACES = ("/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin")
# The shell starts the daemon again after a crash, so that loaders go on, and takes its folder away after it, also when this
# process was killed and can do so no more.
_RUN = ('while "$1" --config "$2/feedd.conf" --until-eof; status=$?; [ $status -gt 128 ]; do sleep 0.2; done;'
        ' rm -rf "$2"; exit $status')
_LOG_LINE = re.compile(r"^(\S+ \S+ feedd\[\d+\] \w+|feedd): ", re.MULTILINE)

Sections = Mapping[str, Mapping[str, object]]


def _find_program(program: str | os.PathLike[str] | None) -> str:
    wanted = os.fspath(program) if program is not None else os.environ.get("FEEDD_PROGRAM") or "feedd"
    found = shutil.which(wanted) or shutil.which(wanted, path=os.pathsep.join(_PLACES))
    if found is None:
        raise Error(f"there is no program {wanted!r}: install feedd (make install, or its Debian package), or say where it is"
                    " with FEEDD_PROGRAM or serve(..., program=)")
    return found


def _parser() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(
        interpolation=None, delimiters=("=",), comment_prefixes=(";", "#"), inline_comment_prefixes=(";",), default_section="")
    parser.optionxform = lambda name: name  # type: ignore[assignment, method-assign]
    return parser


def _text_of(section: str, key: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (str, os.PathLike, int, float)):
        raise TypeError(f"serve: {key} of [{section}] is {value!r}, and wants to be text, a path, a number, True or False")
    return str(value)


def _absolute(options: configparser.SectionProxy, base: str) -> None:
    """Files start at the configuration's folder."""
    for key, value in options.items():
        if key == "path" or (key.startswith("field.") and options.get("format") != "records"):
            options[key] = os.path.join(base, os.path.expanduser(value))


def _read(config: str | os.PathLike[str] | Sections) -> configparser.ConfigParser:
    parser = _parser()
    base = os.getcwd()
    if isinstance(config, Mapping):
        for section, options in config.items():
            name = section if section == "feedd" or section.startswith("dataset ") else f"dataset {section}"
            if not isinstance(options, Mapping):
                raise TypeError(f"serve: [{name}] is {options!r}, and wants to be a dict of options")
            parser[name] = {key: _text_of(name, key, value) for key, value in options.items()}
    elif isinstance(config, str) and ("\n" in config or config.lstrip().startswith("[")):
        parser.read_string(config)
    else:
        base = os.path.dirname(os.path.abspath(config))
        with open(config, encoding="utf-8") as file:
            parser.read_file(file)
    for section in parser.sections():
        _absolute(parser[section], base)
    return parser


def _write(parser: configparser.ConfigParser, folder: Path) -> str:
    path = str(folder / "feedd.sock")
    if not parser.has_section("feedd"):
        parser.add_section("feedd")
    parser["feedd"]["socket"] = path
    parser["feedd"].pop("socket_group", None)
    parser["feedd"]["socket_mode"] = "0600"
    with open(folder / "feedd.conf", "w", encoding="utf-8") as out:
        parser.write(out)
    return path


def _who_answers(path: str) -> int:
    """The pid of the daemon, or 0."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return 0
        pid, _, _ = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(pid)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin is not None:
        process.stdin.close()  # which ends it, as our death would
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


_processes: "weakref.WeakSet[subprocess.Popen[bytes]]" = weakref.WeakSet()


def _let_go() -> None:
    """In a child of a fork: the daemon is to end with the parent, not with the last who has this pipe."""
    for process in _processes:
        if process.stdin is not None:
            process.stdin.close()


os.register_at_fork(after_in_child=_let_go)


class Service:
    """A running private daemon, which ends with ``close()``, with a ``with`` block, or with this process, however that
    ends. ``socket`` is where it answers."""

    def __init__(self, program: str, config: str | os.PathLike[str] | Sections) -> None:
        try:
            parser = _read(config)
        except configparser.Error as error:
            raise Error(f"this is no feedd.conf: {error}") from None
        self._name = "the configuration" if isinstance(config, Mapping) or "\n" in str(config) else os.fspath(config)
        self._owner = os.getpid()
        self._written = ""
        self._pid = 0
        self._open = True
        self._before = os.environ.get("FEEDD_SOCKET")
        self._folder = Path(tempfile.mkdtemp(prefix="feedd-"))
        try:
            self.socket = _write(parser, self._folder)
            with open(self._folder / "feedd.log", "ab") as out:
                self._log = open(self._folder / "feedd.log", "rb")
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _RUN, "sh", program, self._folder], stdin=subprocess.PIPE, stdout=out, stderr=out,
                    start_new_session=True)  # so that Ctrl-C in a terminal stops the loop first
            _processes.add(self._process)
            self._wait_until_it_serves()
        except BaseException:
            self.close()
            raise
        os.environ["FEEDD_SOCKET"] = self.socket

    def _wait_until_it_serves(self) -> None:
        end = time.monotonic() + _START_SECONDS
        while not self.pid:
            if self._process.poll() is not None:
                said = self._in_the_users_words() or f"it ended with status {self._process.returncode}"
                raise Error(f"feedd does not start: {said}")
            if time.monotonic() > end:
                raise Error(f"feedd does not answer within {_START_SECONDS:.0f} s: {self.log().strip()}")
            time.sleep(0.005)

    def _in_the_users_words(self) -> str:
        """The log, of which nobody sees the file that was made of the configuration."""
        said = _LOG_LINE.sub("", self.log()).strip()
        return re.sub(re.escape(str(self._folder / "feedd.conf")) + r"(:\d+)?", self._name, said)

    @property
    def pid(self) -> int:
        """Of the daemon, which is started again if it crashes: of the one that answers, or answered last."""
        self._pid = (_who_answers(self.socket) if self._open else 0) or self._pid
        return self._pid

    def log(self) -> str:
        """What the daemon has written so far, after its end all of it."""
        if self._open:
            self._log.seek(0)
            self._written = self._log.read().decode(errors="replace")
        return self._written

    def close(self) -> None:
        """Stops the daemon. In a child of a fork nothing happens: it is the parent's."""
        if not self._open or os.getpid() != self._owner:
            return
        if hasattr(self, "_process"):
            if os.environ.get("FEEDD_SOCKET") == self.socket:
                _restore(self._before)
            _stop(self._process)
        if hasattr(self, "_log"):
            self.log()
            self._log.close()
        self._open = False
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"feedd.Service(socket={self.socket!r})" if self._open else "feedd.Service(closed)"


def serve(config: str | os.PathLike[str] | Sections, *, program: str | os.PathLike[str] | None = None) -> Service:
    """Starts a daemon of one's own, for notebooks and machines without a service: for a ``with`` block, or until ``close()``.

    ``config`` is the name of a feedd.conf, its text, or a dict of sections, as
    ``{"cifar100": {"format": "records", ...}}``; files that it names start at the configuration's folder, or at the working
    directory. ``program`` is where feedd is: by default ``$FEEDD_PROGRAM``, else it is looked for on the path. Until its end
    ``$FEEDD_SOCKET`` points to it, so that loaders of this process and of those it starts find it. Raises ``feedd.Error``
    with the daemon's own sentence.
    """
    return Service(_find_program(program), config)


def _restore(before: str | None) -> None:
    if before is None:
        os.environ.pop("FEEDD_SOCKET", None)
    else:
        os.environ["FEEDD_SOCKET"] = before
