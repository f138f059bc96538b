"""Prints what pytest finds as the Test Anything Protocol, for ../run.py: a plan, a line per test, and the reasons for skips."""

import sys


class Reporter:
    """Takes the place of pytest's own reporter."""

    def __init__(self):
        self.count = 0
        self.failed = set()

    def _say(self, text):
        print(text, file=sys.stdout, flush=True)

    def _comment(self, text):
        self._say("".join(f"#   {line}\n" for line in text.splitlines()).rstrip("\n"))

    def pytest_collectreport(self, report):
        if report.failed:
            self._comment(str(report.longrepr))

    def pytest_collection_finish(self, session):
        self._say(f"1..{len(session.items)}")

    def pytest_runtest_logreport(self, report):
        """Prints one line once the outcome is known: after the last of setup, call and teardown."""
        if report.failed:
            self.failed.add(report.nodeid)
            self._comment(f"{report.when} of {report.nodeid}\n{report.longreprtext}")
            for title, text in report.sections:
                self._comment(f"---- {title}\n{text}")
        if report.skipped:
            self.reason = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else "unknown"
        if report.when == "setup" and report.passed:
            self.reason = None
        if report.when != "teardown":
            return
        self.count += 1
        name = report.nodeid.partition("::")[2]
        if report.nodeid in self.failed:
            self._say(f"not ok {self.count} - {name}")
        elif self.reason is not None:
            self._say(f"ok {self.count} - {name} # SKIP {' '.join(self.reason.split())}")
        else:
            self._say(f"ok {self.count} - {name}")
        self.reason = None

    def pytest_internalerror(self, excrepr):
        self._comment(str(excrepr))

    reason = None
