"""feedctl doctor, which works without a daemon, and looks at the limits and the datasets of one that there is."""

import json

import data
import harness


def findings(instance, *arguments):
    done = instance.ctl(*arguments, "doctor", "--json", check=False)
    report = json.loads(done.stdout)
    assert done.returncode == (1 if report["problems"] else 0), (done.returncode, report)
    assert {row["state"] for row in report["findings"]} <= {"ok", "warning", "problem"}, report
    return report["findings"]


def about(rows, subject):
    return [row for row in rows if row["subject"] == subject]


def test_without_a_daemon():
    with harness.Instance() as feedd:
        data.add_records(feedd)
        rows = findings(feedd)
        (row,) = about(rows, "feedd")
        assert row["state"] == "ok" and "none is running" in row["text"] and str(feedd.socket) in row["text"], row
        assert not about(rows, "dataset"), rows
        wanted = {"io_uring", "locked memory", "/dev/shm", "memory of cgroup", "huge pages", "processors", "CPU clock",
                  "clock source", "NUMA"}  # fmt: skip
        assert wanted <= {row["subject"] for row in rows}, rows
        text = feedd.ctl("doctor", check=False).stdout
        for row in rows:
            assert row["text"] in text and (row["remedy"] or "") in text, (row, text)


def test_looks_at_the_daemon_and_its_datasets():
    with harness.Instance(ring_memory="100M") as feedd:
        data.add_records(feedd, "numbers", samples=1000, size=64)
        data.add_records(feedd, "direct", samples=1000, size=64, io_direct="yes")
        feedd.add_view("half", "numbers", samples="0%..50%")
        feedd.start()
        harness.prlimit(feedd.process.pid, "memlock", 1 << 20)
        rows = findings(feedd)
        (row,) = about(rows, "feedd")
        assert row["state"] == "ok" and f"process {feedd.process.pid} " in row["text"], row
        (row,) = about(rows, "locked memory")
        assert row["state"] == "warning" and "the daemon may lock 1 MiB" in row["text"] and "100 MiB" in row["text"], row
        assert f"prlimit --pid {feedd.process.pid} " in row["remedy"], row
        direct, numbers = sorted(about(rows, "dataset"), key=lambda row: row["text"])
        # 64,000 bytes are what the file has.
        assert numbers["state"] == "ok" and numbers["text"].startswith("numbers: 62.5 KiB fit"), numbers
        assert direct["state"] == "ok" and "io_direct" in direct["text"], direct
        feedd.stop()
        (row,) = about(findings(feedd), "feedd")
        assert "none is running" in row["text"], row


def test_a_daemon_that_hangs_is_a_problem():
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.start()
        feedd.process.send_signal(19)
        try:
            (row,) = about(findings(feedd), "feedd")
            assert row["state"] == "problem" and str(feedd.process.pid) in row["text"] and row["remedy"], row
        finally:
            feedd.process.send_signal(18)
