"""serve: a private daemon for as long as a block lasts, where no service runs."""

import configparser
import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from .errors import Error

_START_SECONDS = 30.0
_STOP_SECONDS = 15.0
_PLACES = ("/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin")
# The shell takes the daemon's folder away after it, also when this process was killed and can do so no more.
_RUN = '"$1" --config "$2/feedd.conf" --until-eof; status=$?; rm -rf "$2"; exit $status'

Sections = Mapping[str, Mapping[str, object]]


class Service:
    """A running private daemon. ``socket`` is where it answers, ``pid`` its process."""

    def __init__(self, path: str, log: BinaryIO) -> None:
        self._log = log
        self._written = ""
        self.socket = path
        self.pid = 0

    def log(self) -> str:
        """What the daemon has written so far, after the block all of it."""
        if not self._log.closed:
            self._log.seek(0)
            self._written = self._log.read().decode(errors="replace")
        return self._written


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


def _absolute(options: configparser.SectionProxy, base: str) -> None:
    """Files start at the configuration's folder."""
    for key, value in options.items():
        if key == "path" or (key.startswith("field.") and options.get("format") != "records"):
            options[key] = os.path.join(base, value)


def _read(config: str | os.PathLike[str] | Sections) -> configparser.ConfigParser:
    parser = _parser()
    base = os.getcwd()
    if isinstance(config, Mapping):
        for section, options in config.items():
            name = section if section == "feedd" or section.startswith("dataset ") else f"dataset {section}"
            parser[name] = {key: "yes" if value is True else "no" if value is False else str(value)
                            for key, value in options.items()}
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


def _wait_until_it_serves(service: Service, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + _START_SECONDS
    while not service.pid:
        if process.poll() is not None:
            raise Error(f"feedd does not start: {service.log().strip() or f'it ended with status {process.returncode}'}")
        if time.monotonic() > end:
            raise Error(f"feedd does not answer within {_START_SECONDS:.0f} s: {service.log().strip()}")
        time.sleep(0.005)
        service.pid = _who_answers(service.socket)


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


@contextlib.contextmanager
def serve(config: str | os.PathLike[str] | Sections, *, program: str | os.PathLike[str] | None = None) -> Iterator[Service]:
    """Starts a daemon of one's own and stops it at the end of the block: for notebooks and machines without a service.

    ``config`` is the name of a feedd.conf, its text, or a dict of sections, as
    ``{"cifar100": {"format": "records", ...}}``; files that it names start at the configuration's folder, or at the working
    directory. Within the block, ``$FEEDD_SOCKET`` points to it, so that loaders of this process and of those it starts find
    it. It ends with this process, however that ends. Raises ``feedd.Error`` with the daemon's own sentence.
    """
    found = _find_program(program)
    try:
        parser = _read(config)
    except configparser.Error as error:
        raise Error(f"this is no feedd.conf: {error}") from None
    owner = os.getpid()
    before = os.environ.get("FEEDD_SOCKET")
    folder = Path(tempfile.mkdtemp(prefix="feedd-"))
    try:
        path = _write(parser, folder)
        with open(folder / "feedd.log", "ab") as out, open(folder / "feedd.log", "rb") as log:
            process = subprocess.Popen(
                ["/bin/sh", "-c", _RUN, "sh", found, folder], stdin=subprocess.PIPE, stdout=out, stderr=out,
                start_new_session=True)  # so that Ctrl-C in a terminal stops the loop first
            _processes.add(process)
            try:
                service = Service(path, log)
                _wait_until_it_serves(service, process)
                os.environ["FEEDD_SOCKET"] = path
                yield service
            finally:
                if os.getpid() == owner:
                    _restore(before)
                    _stop(process)
                    service.log()
    finally:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)


def _restore(before: str | None) -> None:
    if before is None:
        os.environ.pop("FEEDD_SOCKET", None)
    else:
        os.environ["FEEDD_SOCKET"] = before
