"""feedd with the restrictions of feedd.service, also where no systemd runs: it still serves, and reaches the GPU."""

import os
import pathlib
import shutil
import subprocess

import data
import harness
import users

UNIT = pathlib.Path(__file__).parents[2] / "systemd/feedd.service.in"
DENIED = pathlib.Path(__file__).parents[1] / "systemd/denied_calls"
RESTRICT = harness.BUILD / "tests/restrict"
USER = 64000
DEVICE = harness.DEVICE or "host:0"
SAMPLES = 4000


def restricted(folder, *command):
    return [RESTRICT, DENIED, str(USER), folder, *command]


def need_restrictions(folder):
    users.need_root()
    if not RESTRICT.exists():
        harness.skip("this build has no libseccomp")
    tried = subprocess.run(restricted(folder, "/bin/true"), capture_output=True, text=True, check=False)
    if "namespaces: Operation not permitted" in tried.stderr:
        harness.skip("namespaces cannot be made here")
    assert tried.returncode == 0, tried.stderr


def serve():
    instance = harness.Instance(socket_mode="0666", confine="yes", ring="1M", device_pool="4M")
    instance.directory.chmod(0o711)
    need_restrictions(instance.directory)
    data.add_records(instance, samples=SAMPLES, size=1024)
    instance.write_config()
    os.chown(instance.directory, USER, USER)
    return instance.start(wrap=restricted(instance.directory))


def test_it_delivers_to_the_gpu_and_to_host_memory():
    with serve() as feedd:
        for device in (DEVICE, "cpu"):
            done = feedd.ctl("read", "numbers", "--batch-size=100", "--shuffle", "--epochs=2", "--verify", f"--device={device}")
            assert f"verified {2 * SAMPLES} samples" in done.stdout
        assert "no_new_privs" in feedd.ctl("status").stdout


def test_its_processes_are_restricted():
    with serve() as feedd:
        status = pathlib.Path(f"/proc/{feedd.process.pid}/status").read_text()
        lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert (lines["NoNewPrivs"], lines["Seccomp"], lines["CapBnd"]) == ("1", "2", "0" * 16)
        assert lines["Uid"].split() == [str(USER)] * 4
        interfaces = pathlib.Path(f"/proc/{feedd.process.pid}/net/dev").read_text()
        assert [line.split(":")[0].strip() for line in interfaces.splitlines()[2:]] == ["lo"]
    with harness.Instance() as instance:
        instance.directory.chmod(0o711)
        os.chown(instance.directory, USER, USER)
        for command in ("touch /etc/own", "touch /tmp/own", "touch /proc/sys/kernel/hostname", "unshare -m true"):
            tried = subprocess.run(
                restricted(instance.directory, "/bin/sh", "-c", command), capture_output=True, text=True, check=False
            )
            assert tried.returncode != 0, command
        subprocess.run(restricted(instance.directory, "/bin/sh", "-c", f"touch {instance.directory}/own"), check=True)


def test_the_unit_denies_these_calls():
    """The list is what systemd makes of the groups that the unit names."""
    groups = next(line for line in UNIT.read_text().splitlines() if line.startswith("SystemCallFilter=")).partition("~")[2]
    comment, command, *names = DENIED.read_text().splitlines()
    assert comment.startswith("#") and command == f"# systemd-analyze syscall-filter {groups}"
    if not shutil.which("systemd-analyze"):
        harness.skip("there is no systemd-analyze")
    listed = subprocess.run(command[2:].split(), capture_output=True, text=True, check=True).stdout.splitlines()
    calls = {line.strip() for line in listed if line.startswith("    ") and line.strip()[0] not in "#@"}
    assert set(names) == calls
