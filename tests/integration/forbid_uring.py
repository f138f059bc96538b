"""Runs a program that is refused io_uring, as under a seccomp filter of a container: forbid_uring.py ERRNO PROGRAM..."""

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL_WITH = 0x7FFF0000, 0x00050000
IO_URING_SETUP = 425  # on every architecture


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def main():
    code = b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (LOAD_WORD, 0, 0, 0),  # the number of the system call
            (JUMP_IF_EQUAL, 0, 1, IO_URING_SETUP),
            (RETURN, 0, 0, FAIL_WITH | int(sys.argv[1])),
            (RETURN, 0, 0, ALLOW),
        )
    )
    libc = ctypes.CDLL(None, use_errno=True)
    program = Filter(len(code) // 8, code)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)):
        sys.exit(f"forbid_uring.py: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
