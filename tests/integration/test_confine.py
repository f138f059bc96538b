"""What the daemon's processes can no longer do, what feedctl status says of it, and that all works without it."""

import errno
import json
import pathlib
import re
import sys

import consumer
import data
import expected
import harness

LOADER = [
    "no_new_privs", "not_dumpable", "no_capabilities", "limits", "no_paths", "no_tcp", "no_signals", "system_calls",
]  # fmt: skip


def confinement(instance, role):
    """What status says of a role; waits until a process of it has got so far."""

    def look():
        return next((row for row in instance.status()["confinement"] if row["role"] == role), None)

    return harness.eventually(look, 10, f"a {role} that is confined")


def require(parts=("system_calls", "no_paths", "no_signals")):
    """Skips where this kernel, container or build lacks what a test is about."""
    if harness.sanitized():
        harness.skip("a build with a sanitizer is hardly confined")
    with harness.Instance(loaders=1) as feedd:
        data.add_records(feedd)
        feedd.start()
        with consumer.Consumer(feedd, "numbers", 32, step=True) as reader:
            reader.attached()
            missing = set(parts) - set(confinement(feedd, "loader")["active"])
    if missing:
        harness.skip(f"not on this machine: {', '.join(sorted(missing))}")


def process_status(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def forbid(what, error=errno.EPERM):
    return [sys.executable, harness.ROOT / "tests/integration/forbid_confinement.py", str(int(error)), what]


def attempts(instance):
    """{what was tried: the errors met} of the preloaded library."""
    harness.eventually(lambda: "attempt end" in instance.read_log(), 10, "all attempts")
    met = {}
    for name, error in re.findall(r"^attempt (.+): (\d+)$", instance.read_log(), re.MULTILINE):
        met.setdefault(name, set()).add(int(error))
    del met["end"]
    return met


def preload(role):
    return {"LD_PRELOAD": str(harness.PROGRAMS / "tests/attempts.so"), "ATTEMPTS_ROLE": role}


# ---- What is active ----------------------------------------------------------------------------------------


@harness.host_memory
def test_every_reader_works_and_is_confined():
    require()
    direct, delayed = {"io_direct": "yes"}, {"io_delay_us": 1000}
    for io, more in (("uring", {}), ("mapped", {}), ("pread", {}), ("auto", {}), ("uring", direct), ("auto", delayed)):
        with harness.Instance(io=io) as feedd:
            path = data.add_records(feedd, **more)
            feedd.start()
            content = expected.read_records([path], 64, {"x": (0, 64)})
            with consumer.Consumer(feedd, "numbers", 32, epochs=3, shuffle=True, step=True) as reader:
                reader.attached()
                batches = reader.take(len(expected.run_batches(1000, 32, epochs=3)))
                # A loader that has read nothing yet may not be confined yet.
                harness.eventually(lambda feedd=feedd: confinement(feedd, "loader")["processes"] == 2, 10, "both are confined")
                for pid in feedd.loaders(2):
                    status = process_status(pid)
                    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1", status
                    assert int(status["CapEff"], 16) == 0, status
                row = confinement(feedd, "loader")
                readers = {process["reader"] for process in feedd.status()["processes"] if process["role"] == "loader"}
                reader.next_ends()
            expected.check_run(content, batches, 32, epochs=3, shuffle=True)
            uring = ["io_uring"] if io in ("uring", "auto") and "pread" not in readers else []
            assert row["active"] == LOADER + uring and not row["missing"], row


@harness.host_memory
def test_status_says_so():
    require()
    with harness.Instance(loaders=1) as feedd:
        data.add_records(feedd)
        feedd.start()
        supervisor = confinement(feedd, "supervisor")
        assert supervisor["active"] == ["no_new_privs", "no_signals", "system_calls"] and not supervisor["missing"], supervisor
        assert [row["role"] for row in feedd.status()["confinement"]] == ["supervisor"]
        assert feedd.status()["confinement_note"] == ""
        consumer.read(feedd, "numbers", 32, device="host:0")
        transfer = confinement(feedd, "transfer")
        wanted = ["no_new_privs", "not_dumpable", "no_writes", "no_tcp", "no_signals", "system_calls"]
        assert transfer == {"role": "transfer", "processes": 1, "active": wanted, "missing": []}, transfer
        text = feedd.ctl("status").stdout
        assert "confinement    supervisor: no_new_privs, no_signals, system_calls\n" in text, text
        assert "refused" not in text, text
        assert "confinement:" not in feedd.read_log(), "nothing is missing, so nothing is said"


# ---- What cannot be done any more --------------------------------------------------------------------------


@harness.host_memory
def test_a_loader_can_do_nothing_else():
    require()
    for io, prepare in (("uring", "no"), ("mapped", "no"), ("uring", "yes"), ("mapped", "yes")):
        with harness.Instance(loaders=1, io=io, prepare_loaders=prepare) as feedd:
            data.add_records(feedd)
            feedd.start(environment=preload("loader"))
            if prepare == "yes":
                harness.eventually(lambda feedd=feedd: feedd.status()["prepared_loaders"], 10, "one that waits")
            assert expected.check_exactly_once(1000, consumer.read(feedd, "numbers", 32)) == 1
            met = attempts(feedd)
            assert len(met) == 29, sorted(met)
            allowed = {errno.EPERM, errno.ENOSYS}
            assert not {name: errors for name, errors in met.items() if errors - allowed}, met


def add_folder(instance):
    """500 files in a folder, and others beside it."""
    for number in range(500):
        path = instance.directory / f"pictures/{number % 5}/{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.sample_bytes(number, 64))
    (instance.directory / "other").mkdir()
    (instance.directory / "other/file").write_bytes(b"x")
    instance.add_dataset("pictures", format="folder", path="pictures", field_file="bytes", pad_file=64)


@harness.host_memory
def test_a_loader_reads_in_its_folder_and_nothing_else():
    require()
    for io in ("uring", "mapped", "pread"):
        with harness.Instance(loaders=1, io=io) as feedd:
            add_folder(feedd)
            inside, outside = feedd.directory / "pictures/0/0", feedd.directory / "other/file"
            paths = {"ATTEMPTS_INSIDE": str(inside), "ATTEMPTS_OUTSIDE": str(outside)}
            feedd.start(environment={**preload("loader"), **paths})
            assert expected.check_exactly_once(500, consumer.read(feedd, "pictures", 32)) == 1
            met = attempts(feedd)
            row = confinement(feedd, "loader")
            assert row["active"] == LOADER + ["io_uring"] * (io == "uring") and not row["missing"], row
            for name, errors in met.items():
                if name not in ("open beneath", "limit of descriptors"):
                    assert not errors & {0}, (name, met)
            # By itself, it opens only where it has no io_uring to do so; and never for writing.
            assert met["open beneath"] == ({errno.EPERM} if io == "uring" else {0}), met
            assert met["limit of descriptors"] == {0}, met


@harness.host_memory
def test_without_a_filter_folders_are_confined():
    require()
    with harness.Instance(loaders=1, io="uring") as feedd:
        add_folder(feedd)
        inside, outside = feedd.directory / "pictures/0/0", feedd.directory / "other/file"
        paths = {"ATTEMPTS_INSIDE": str(inside), "ATTEMPTS_OUTSIDE": str(outside)}
        feedd.start(environment={**preload("loader"), **paths}, wrap=forbid("seccomp"))
        assert expected.check_exactly_once(500, consumer.read(feedd, "pictures", 32)) == 1
        met = attempts(feedd)
        assert met["open beneath"] == {0}, met
        beside = {"open", "open for writing", "open beneath for writing", "list the folder", "open beside", "unlink", "mkdir"}
        for name in beside:
            assert 0 not in met[name], (name, met)


@harness.host_memory
def test_folders_without_landlock_or_any_confinement():
    require()
    for what in ("landlock", "all"):
        with harness.Instance(loaders=1) as feedd:
            add_folder(feedd)
            feedd.start(wrap=forbid(what))
            assert expected.check_exactly_once(500, consumer.read(feedd, "pictures", 32)) == 1
    with harness.Instance(loaders=1, confine="no") as feedd:
        add_folder(feedd)
        feedd.start()
        assert expected.check_exactly_once(500, consumer.read(feedd, "pictures", 32)) == 1


@harness.host_memory
def test_without_a_filter_the_rest_holds():
    require()
    with harness.Instance(loaders=1, io="mapped") as feedd:
        data.add_records(feedd)
        feedd.start(environment=preload("loader"), wrap=forbid("seccomp"))
        assert expected.check_exactly_once(1000, consumer.read(feedd, "numbers", 32)) == 1
        met = attempts(feedd)
        for name in (
            "open", "open for writing", "memfd", "unlink", "mkdir", "socket", "network", "kill the parent",
            "signal a thread", "pidfd of the parent", "ptrace", "read the parent", "io_uring", "duplicate",
            "raise a limit", "userfaultfd", "mount",
        ):  # fmt: skip
            assert 0 not in met[name], (name, met)


@harness.host_memory
def test_a_transfer_process_leaves_others_alone():
    require()
    with harness.Instance(loaders=1) as feedd:
        data.add_records(feedd)
        feedd.start(environment=preload("transfer"))
        assert expected.check_exactly_once(1000, consumer.read(feedd, "numbers", 32, device="host:0")) == 1
        met = attempts(feedd)
        for name in (
            "open for writing", "mkdir", "network", "kill the parent", "kill everybody", "signal a thread", "limit the parent",
            "ptrace", "read the parent", "execute", "fork", "namespace", "io_uring", "keys", "bpf", "userfaultfd", "mount",
        ):  # fmt: skip
            assert 0 not in met[name], (name, met)


# ---- Without it --------------------------------------------------------------------------------------------


def check_without(wrap, missing, **settings):
    with harness.Instance(**settings) as feedd:
        data.add_records(feedd)
        feedd.start(wrap=wrap)
        assert expected.check_exactly_once(1000, consumer.read(feedd, "numbers", 32)) == 1
        for role in ("supervisor", "loader"):
            row = confinement(feedd, role)
            assert set(row["missing"]) == missing & set(row["active"] + row["missing"]), row
            assert row["missing"], row
        text = feedd.ctl("status", environment={"COLUMNS": "300"}).stdout
        assert "refused by the kernel: " in text, text
        assert expected.check_exactly_once(1000, consumer.read(feedd, "numbers", 32, device="host:0")) == 1
        said = [line for line in feedd.read_log().splitlines() if "confinement: the kernel refuses" in line]
        assert len(said) == 1, feedd.read_log()
        return feedd.status()


@harness.host_memory
def test_kernel_without_seccomp():
    require()
    for error in (errno.EPERM, errno.ENOSYS, errno.EINVAL):
        check_without(forbid("seccomp", error), {"system_calls"})


@harness.host_memory
def test_kernel_without_landlock():
    require()
    for error in (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP):
        check_without(forbid("landlock", error), {"no_paths", "no_writes", "no_tcp", "no_signals"})


@harness.host_memory
def test_nothing_is_allowed():
    require()
    missing = {"no_new_privs", "not_dumpable", "no_paths", "no_writes", "no_tcp", "no_signals", "system_calls"}
    check_without(forbid("all"), missing)


@harness.host_memory
def test_confine_no():
    with harness.Instance(confine="no", loaders=1) as feedd:
        data.add_records(feedd)
        feedd.start()
        with consumer.Consumer(feedd, "numbers", 32, step=True) as reader:
            reader.attached()
            reader.take(1)
            loader = feedd.only_loader()
            for pid in (feedd.process.pid, loader):
                assert process_status(pid)["Seccomp"] == process_status("self")["Seccomp"]
            status = feedd.status()
            assert status["confinement"] == [] and status["confinement_note"] == "confine = no", json.dumps(status)
            assert "confinement    confine = no\n" in feedd.ctl("status").stdout


def test_out_of_memory_scores():
    """Loaders go first, then transfer processes; whoever starts the daemon decides about the daemon itself."""
    with harness.Instance(loaders=1) as feedd:
        data.add_records(feedd)
        feedd.start(wrap=["sh", "-c", 'echo 50 >/proc/self/oom_score_adj; exec "$@"', "sh"])
        with consumer.Consumer(feedd, "numbers", 32, step=True) as reader:
            reader.attached()
            reader.take(1)
            scores = {
                name: int(pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text(encoding="ascii"))
                for name, pid in (("daemon", feedd.process.pid), ("loader", feedd.only_loader()))
            }
            assert scores == {"daemon": 50, "loader": 250}, scores
