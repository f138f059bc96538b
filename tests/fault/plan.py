"""The file that the driver shares with the injectors (plan.h), the calls that can fail (calls.def), and their names."""

import dataclasses
import errno
import mmap
import pathlib
import re
import struct
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROLES = ("none", "supervisor", "spawn", "start", "prepared", "loader", "transfer", "consumer")
PHASES = ("before", "prepare", "attach", "deliver", "release", "recover", "reload", "leave", "stop")
ALLOCATE, CALLS, SITES = 512, 513, 16384
SITES_AT = 256 + 4 * len(ROLES) * len(PHASES) * CALLS
BYTES = SITES_AT + 24 * SITES
# Offsets in struct plan.
PHASE, ROLE, BYSTANDER, FIRED, FIRED_PID, UNLISTED, ACTIVITY, SITE_COUNT, BEFORE = 0, 4, 24, 28, 32, 36, 44, 48, 52
AFTER, FRAMES, COUNTS = 56, 60, 256


@dataclasses.dataclass(frozen=True)
class Fault:
    """One call that fails: the ordinal-th of its name that the role makes in that phase of the scenario."""

    scenario: str
    role: str
    phase: str
    call: str
    ordinal: int
    error: str

    def __str__(self):
        return f"{self.scenario} {self.role} {self.phase} {self.call} {self.ordinal} {self.error}"


class Calls:
    """{name: errors} of calls.def, those whose number depends on time, and their numbers on this machine."""

    def __init__(self, inject):
        text = (HERE / "calls.def").read_text()
        rows = re.findall(r"^(FAIL|WAIT)\((\w+), ([\w, ]+)\)", text, re.M)
        self.errors = {name: errors.split(", ") for _, name, errors in rows}
        self.errors["allocate"] = ["ENOMEM"]
        self.waits = {name for kind, name, _ in rows if kind == "WAIT"}
        numbers = subprocess.run([inject, "--calls"], capture_output=True, text=True, check=True).stdout
        self.numbers = {name: int(number) for name, number in map(str.split, numbers.splitlines())}
        self.numbers["allocate"] = ALLOCATE
        self.names = {number: name for name, number in self.numbers.items()}


class Plan:
    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(BYTES))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)

    def _get(self, at):
        return struct.unpack_from("=I", self.memory, at)[0]

    def _set(self, at, *values):
        struct.pack_into(f"={len(values)}I", self.memory, at, *values)

    def aim(self, fault, calls):
        self._set(ROLE, ROLES.index(fault.role), PHASES.index(fault.phase), calls.numbers[fault.call], fault.ordinal,
                  getattr(errno, fault.error))  # fmt: skip

    def set_bystander(self, feed):
        self._set(BYSTANDER, feed)

    def begin(self, phase):
        self._set(PHASE, PHASES.index(phase))

    @property
    def fired(self):
        return bool(self._get(FIRED))

    @property
    def fired_pid(self):
        return self._get(FIRED_PID)

    @property
    def unlisted(self):
        return self._get(UNLISTED) - 1

    @property
    def consumer_descriptors(self):
        """Before and after; 0: the consumer did not get there."""
        return self._get(BEFORE), self._get(AFTER)

    @property
    def activity(self):
        return self._get(ACTIVITY)

    def sites(self):
        """[(role, phase, ordinal, address)] of allocations, in the order of asking."""
        words = struct.iter_unpack("=IIIIQ", self.memory[SITES_AT : SITES_AT + 24 * min(self._get(SITE_COUNT), SITES)])
        return [(ROLES[role], PHASES[phase], ordinal, address) for role, phase, ordinal, _, address in words]

    def frames(self):
        count = self._get(FRAMES)
        return list(struct.unpack_from(f"={count}Q", self.memory, FRAMES + 4))

    def counts(self):
        """{(role, phase, number of the call): how often}."""
        found = {}
        size = len(PHASES) * CALLS
        for role, role_name in enumerate(ROLES):
            words = struct.unpack_from(f"={size}I", self.memory, COUNTS + 4 * role * size)
            for place, count in enumerate(words):
                if count:
                    found[role_name, PHASES[place // CALLS], place % CALLS] = count
        return found
