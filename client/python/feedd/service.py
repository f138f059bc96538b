"""serve: a private daemon for a machine without the service."""

import configparser
import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from .errors import Error
from .programs import packaged

_START_SECONDS = 30.0
_STOP_SECONDS = 15.0
_PATHS = ("include", "index_folder", "path", "offsets", "csv", "links", "cache_path", "indices", "weights")
_PLACES = ("/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin")
# The shell restarts the daemon after a crash, so that loaders can continue, and removes its folder at the end, even when this
# process was killed and cannot.
_RUN = ('while "$1" --config "$2/feedd.conf" --until-eof; status=$?; [ $status -gt 128 ]; do sleep 0.2; done;'
        ' rm -rf "$2"; exit $status')
_LOG_LINE = re.compile(r"^(\S+ \S+ feedd\[\d+\] \w+|feedd): ", re.MULTILINE)

Sections = Mapping[str, Mapping[str, object]]


def _why_not(wanted: str) -> str:
    where = "say where it is with FEEDD_PROGRAM or serve(..., program=)"
    if os.path.isdir(wanted):
        return f"{wanted!r} is a folder, not the program feedd: {where}"
    if os.path.exists(wanted):
        return f"{wanted!r} is not executable: chmod +x it if it is the program feedd, else {where}"
    return f"there is no program {wanted!r}: install feedd (make install, or its Debian package), or {where}"


def _find_program(program: str | os.PathLike[str] | None) -> str:
    wanted = os.fspath(program) if program is not None else os.environ.get("FEEDD_PROGRAM") or packaged("feedd") or "feedd"
    found = shutil.which(wanted) or shutil.which(wanted, path=os.pathsep.join(_PLACES))
    if found is None:
        raise Error(_why_not(wanted))
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
        raise TypeError(f"serve: {key} of [{section}] is {value!r}, which is not text, a path, a number, True or False")
    return str(value)


def _absolute(options: configparser.SectionProxy, base: str) -> None:
    """Relative paths start at the configuration's folder."""
    for key, value in options.items():
        if key in _PATHS or (key.startswith("field.") and options.get("format") in ("idx", "npy")):
            options[key] = os.path.join(base, os.path.expanduser(value))


def _read(config: str | os.PathLike[str] | Sections) -> tuple[configparser.ConfigParser, str]:
    """The configuration, and the user's name for it."""
    parser = _parser()
    base, name = os.getcwd(), "the argument of serve()"
    if isinstance(config, Mapping):
        for key, options in config.items():
            section = key if key == "feedd" or key.startswith(("dataset ", "view ", "mix ")) else f"dataset {key}"
            if not isinstance(options, Mapping):
                raise TypeError(f"serve: [{section}] is {options!r}, which is not a dict of options")
            parser[section] = {option: _text_of(section, option, value) for option, value in options.items()}
    elif isinstance(config, str) and ("\n" in config or config.lstrip().startswith("[")):
        parser.read_string(config)
    else:
        base, name = os.path.dirname(os.path.abspath(config)), os.fspath(config)
        with open(config, encoding="utf-8") as file:
            parser.read_file(file)
    for section in parser.sections():
        _absolute(parser[section], base)
    return parser, name


def _write(parser: configparser.ConfigParser, folder: Path) -> str:
    path = str(folder / "feedd.sock")
    if not parser.has_section("feedd"):
        parser.add_section("feedd")
    parser["feedd"]["socket"] = path
    parser["feedd"].pop("socket_group", None)
    parser["feedd"]["socket_mode"] = "0600"
    for section in parser.sections():  # only this user can connect, and the names may be those of another machine
        parser[section].pop("allow_users", None)
        parser[section].pop("allow_groups", None)
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


class Service:
    """A running private daemon. It ends with ``close()``, at the end of a ``with`` block, or with this process, however that
    ends. ``socket`` is where it listens."""

    def __init__(self, program: str, config: str | os.PathLike[str] | Sections) -> None:
        try:
            parser, self._name = _read(config)
        except configparser.Error as error:
            raise Error(f"this is not a feedd.conf: {error}") from None
        self._owner = os.getpid()
        self._written = ""
        self._pid = 0
        with contextlib.ExitStack() as ending:
            self._folder = Path(tempfile.mkdtemp(prefix="feedd-"))
            ending.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self.socket = _write(parser, self._folder)
            with open(self._folder / "feedd.log", "ab") as out:
                self._log = ending.enter_context(open(self._folder / "feedd.log", "rb"))
                ending.callback(self.log)  # reads all of it before it is closed
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _RUN, "sh", program, self._folder], stdin=subprocess.PIPE, stdout=out, stderr=out,
                    env=os.environ | {"FEEDD_CONFIG_NAME": self._name},  # its messages name no file that the user never wrote
                    start_new_session=True)  # so that Ctrl-C in a terminal stops the loop first
            _running.add(self)
            ending.callback(self._stop)
            self._wait_until_it_serves()
            ending.callback(_restore, self.socket, os.environ.get("FEEDD_SOCKET"))
            os.environ["FEEDD_SOCKET"] = self.socket
            self._ending = ending.pop_all()

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
        """The log, with the user's name for the configuration in place of the file that was made of it."""
        said = _LOG_LINE.sub("", self.log()).strip()
        return re.sub(re.escape(str(self._folder / "feedd.conf")) + r"(:\d+)?", lambda _: self._name, said)

    @property
    def pid(self) -> int:
        """Process of the daemon that answers, or answered last: a daemon that crashes is restarted."""
        self._pid = (0 if self._log.closed else _who_answers(self.socket)) or self._pid
        return self._pid

    def log(self) -> str:
        """What the daemon has written to its log so far."""
        if not self._log.closed:
            self._log.seek(0)
            self._written = self._log.read().decode(errors="replace")
        return self._written

    def close(self) -> None:
        """Stops the daemon. In a child of a fork it does nothing: the daemon is the parent's."""
        if os.getpid() == self._owner:
            self._ending.close()

    def _stop(self) -> None:
        _running.discard(self)
        self._let_go()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _let_go(self) -> None:
        """Closes the pipe, whose end makes the daemon stop, as it would when this process dies."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return "feedd.Service(closed)" if self._log.closed else f"feedd.Service(socket={self.socket!r})"


_running: set[Service] = set()  # keeps alive those that are not bound to a name


def _in_child() -> None:
    """Closes the pipes after a fork: a daemon ends with the parent, not with the last process that has its pipe."""
    for service in _running:
        service._let_go()
    _running.clear()


os.register_at_fork(after_in_child=_in_child)


def serve(config: str | os.PathLike[str] | Sections, *, program: str | os.PathLike[str] | None = None) -> Service:
    """Starts a private daemon, for notebooks and machines without the service, which runs for a ``with`` block or until
    ``close()``.

    ``config`` is the name of a feedd.conf, its text, or a dict of sections such as
    ``{"cifar100": {"format": "records", ...}, "view val": {"of": "cifar100", ...}}``. Relative paths in a file
    start at its folder, all others at the working directory. ``program`` is the path of feedd: by default
    ``$FEEDD_PROGRAM``, else the one in this package, if its wheel has it (``make wheel``), else the one on ``$PATH``. While the
    daemon runs, ``$FEEDD_SOCKET`` points to it, so that loaders in this process and its children find it. Raises
    ``feedd.Error`` with the daemon's own message.
    """
    return Service(_find_program(program), config)


def _restore(ours: str, before: str | None) -> None:
    if os.environ.get("FEEDD_SOCKET") != ours:
        return  # it has been changed since
    if before is None:
        del os.environ["FEEDD_SOCKET"]
    else:
        os.environ["FEEDD_SOCKET"] = before
