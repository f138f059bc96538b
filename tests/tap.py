"""Reads the Test Anything Protocol as the C tests (cmocka) and the integration harness print it.

README.md has the convention; run.py is the user.
"""

import dataclasses
import re

CASE = re.compile(r"^(not )?ok (\d+)(?: - | )?(.*)$")
PLAN = re.compile(r"^1\.\.(\d+)\b")
SKIP = re.compile(r"#\s*skip\b:?\s*(.*)$", re.IGNORECASE)
REASON = re.compile(r"^(?:#\s*)?skip: (.+)$")


@dataclasses.dataclass
class Case:
    name: str
    state: str  # passed, failed or skipped
    reason: str = ""  # why it was skipped, or what is wrong with it


@dataclasses.dataclass
class Outcome:
    cases: list
    planned: int  # cases announced; -1 when no plan was printed


def _case(failed, text, reason):
    skip = SKIP.search(text)
    if not skip:
        return Case(text.strip(), "failed" if failed else "passed")
    # "NAME # SKIP reason" from the harness; "# SKIP name" from cmocka, with the reason on a line before.
    name = text[: skip.start()].strip()
    reason = skip.group(1).strip() if name else reason
    name = name or skip.group(1).strip()
    if not reason:
        return Case(name, "failed", "skipped without a line `skip: REASON`")
    return Case(name, "skipped", reason)


def parse(text):
    """The cases of one program's standard output."""
    outcome = Outcome([], -1)
    reason = ""
    for line in text.splitlines():
        if plan := PLAN.match(line):
            outcome.planned = max(outcome.planned, 0) + int(plan.group(1))
        elif case := CASE.match(line):
            outcome.cases.append(_case(case.group(1), case.group(3), reason))
            reason = ""
        elif said := REASON.match(line):
            reason = said.group(1)
    return outcome
