"""Runs a program that may not confine itself, as in some containers and on old kernels: forbid_confinement.py ERRNO WHAT
PROGRAM..., where WHAT is "seccomp", "landlock", or "all", which includes prctl's options."""

import ctypes
import os
import platform
import struct
import sys

from forbid_uring import ALLOW, FAIL_WITH, JUMP_IF_EQUAL, LOAD_WORD, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, RETURN
from forbid_uring import SECCOMP_MODE_FILTER, Filter

PRCTL, SECCOMP = {"x86_64": (157, 317), "aarch64": (167, 277)}[platform.machine()]
LANDLOCK_CREATE_RULESET = 444
PR_SET_DUMPABLE = 4
FIRST_ARGUMENT = 16  # its offset; the lower half on little-endian machines


def refusal(values, failure):
    """Instructions that fail the call if the loaded word is one of these."""
    return [step for value in values for step in ((JUMP_IF_EQUAL, 0, 1, value), (RETURN, 0, 0, failure))]


def main():
    failure, what = FAIL_WITH | int(sys.argv[1]), sys.argv[2]
    calls = {"seccomp": [SECCOMP], "landlock": [LANDLOCK_CREATE_RULESET], "all": [SECCOMP, LANDLOCK_CREATE_RULESET]}[what]
    options = {"seccomp": [PR_SET_SECCOMP], "landlock": [], "all": [PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_SET_DUMPABLE]}[what]
    code = b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (LOAD_WORD, 0, 0, 0),
            *refusal(calls, failure),
            (JUMP_IF_EQUAL, 1, 0, PRCTL),
            (RETURN, 0, 0, ALLOW),
            (LOAD_WORD, 0, 0, FIRST_ARGUMENT),
            *refusal(options, failure),
            (RETURN, 0, 0, ALLOW),
        )
    )
    libc = ctypes.CDLL(None, use_errno=True)
    program = Filter(len(code) // 8, code)
    if os.getuid():
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)):
        sys.exit(f"forbid_confinement.py: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[3], sys.argv[3:])


if __name__ == "__main__":
    main()
