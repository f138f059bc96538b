"""A file system in user space whose storage does what a test wants: it cannot be mapped, or its reads hang.

It speaks to /dev/fuse itself; the numbers are those of <linux/fuse.h>. It is mounted over /mnt in a mount namespace of the
test's own, so it ends with the test.
"""

import ctypes
import errno
import os
import pathlib
import stat
import struct
import threading

import harness

FOLDER = pathlib.Path("/mnt")
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000
ROOT_NODE, FILE_NODE = 1, 2
LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 15, 18, 26, 36, 42
FOPEN_DIRECT_IO, FOPEN_KEEP_CACHE = 1, 2
IN_HEADER = struct.Struct("=IIQQIIIHH")  # bytes, operation, number of the request, node, uid, gid, pid
OUT_HEADER = struct.Struct("=IiQ")
ATTRIBUTES = struct.Struct("=6Q10I")
REQUEST_BYTES = 1 << 20
FOR_AN_HOUR = 3600


class Fuse:
    """A folder with one file, `path`. With `direct`, reads bypass the page cache, and the file cannot be mapped."""

    failing = False  # whether reads are answered with EIO

    def __init__(self, name, content, direct):
        self.content, self.name, self.direct = content, name.encode(), direct
        self.path = FOLDER / name
        self.running = threading.Event()
        self.running.set()
        self.holds, self.held = None, []
        self.device = mount()
        threading.Thread(target=self._serve, daemon=True).start()

    def hang(self):
        """From the next request on, at the latest, nothing is answered."""
        self.running.clear()

    def go_on(self):
        self.running.set()

    def hold(self, which):
        """Reads at an offset for which which(offset) is true are taken and not answered: not even a signal ends them."""
        self.holds = which

    def answer_held(self):
        """Those, and all that follow."""
        self.holds = None
        while self.held:
            self._reply(*self.held.pop())

    def _reply(self, number, code, answer):
        try:
            os.write(self.device, OUT_HEADER.pack(OUT_HEADER.size + len(answer), code, number) + answer)
        except FileNotFoundError:  # a request that was given up meanwhile
            pass

    def _is_held(self, operation, body):
        which = self.holds
        return operation == READ and which and which(struct.unpack_from("=QQ", body)[1])

    def _serve(self):
        while True:
            self.running.wait()
            try:
                request = os.read(self.device, REQUEST_BYTES)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR):  # a request that was interrupted
                    continue
                return
            _, operation, number, node, *_ = IN_HEADER.unpack_from(request)
            if operation in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            body = request[IN_HEADER.size :]
            try:
                code, answer = 0, self._answer(operation, node, body)
            except OSError as error:
                code, answer = -error.errno, b""
            if self._is_held(operation, body):
                self.held.append((number, code, answer))
            else:
                self._reply(number, code, answer)

    def _answer(self, operation, node, body):
        if operation == INIT:
            # Version 7.31; without read-ahead, so that each sample is a read.
            return struct.pack("=IIIIHHIIHH8I", 7, 31, 0, 0, 16, 12, 1 << 17, 1, 0, 0, *[0] * 8)
        if operation == LOOKUP:
            if node != ROOT_NODE or body.rstrip(b"\0") != self.name:
                raise OSError(errno.ENOENT, "")
            return struct.pack("=4QII", FILE_NODE, 0, FOR_AN_HOUR, FOR_AN_HOUR, 0, 0) + self._attributes(FILE_NODE)
        if operation == GETATTR:
            return struct.pack("=QII", FOR_AN_HOUR, 0, 0) + self._attributes(node)
        if operation == OPEN:
            return struct.pack("=QII", 0, FOPEN_DIRECT_IO if self.direct else FOPEN_KEEP_CACHE, 0)
        if operation == READ:
            _, offset, count = struct.unpack_from("=QQI", body)
            if self.failing:
                raise OSError(errno.EIO, "")
            return self.content[offset : offset + count]
        if operation == RELEASE:
            return b""
        # Also of FLUSH, which is not asked for again then: a process that ends would wait for the answer.
        raise OSError(errno.ENOSYS, "")

    def _attributes(self, node):
        mode = stat.S_IFDIR | 0o755 if node == ROOT_NODE else stat.S_IFREG | 0o644
        size = 0 if node == ROOT_NODE else len(self.content)
        return ATTRIBUTES.pack(node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def mount():
    """Returns the descriptor that requests are read from. Skips the test where this is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        harness.skip(f"/dev/fuse cannot be opened: {error.strerror}")
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if (
        libc.unshare(CLONE_NEWNS)
        or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None)
        or libc.mount(b"test", bytes(FOLDER), b"fuse", 0, options.encode())
    ):
        os.close(device)
        harness.skip(f"no file system in user space can be mounted here: {os.strerror(ctypes.get_errno())}")
    return device
