"""Packages that are upgraded, removed, installed again and purged, and programs that are compiled against the library."""

import pathlib
import subprocess
import tempfile

from machine import PATH
from service import CONFIG, DATASET, SOCKET, repacked
from test_service import ACTIVE, OF_JOB, STOPPED, start


def test_an_upgrade_leaves_consumers_alone(service):
    start(service)
    machine, pid = service.machine, service.pid()
    with tempfile.TemporaryDirectory() as folder, service.consume(epochs=6) as consumer:
        service.attached()
        machine.install([repacked(package, "99.0", folder) for package in service.packages])
        assert "99.0" in machine.run("dpkg-query", "-W", "feedd").stdout
        assert service.pid() == pid and service.states() == ACTIVE
        assert consumer.runs(), "the consumer had ended before: that shows nothing"
        machine.systemctl("restart", "feedd")  # the new one
        assert service.pid() != pid
        consumer.finish()


def test_programs_compile_against_the_library(service):
    start(service)
    root = service.machine.path("/")
    environment = {"PATH": PATH, "PKG_CONFIG_LIBDIR": "", "PKG_CONFIG_SYSROOT_DIR": str(root)}
    folders = [str(path) for path in root.glob("usr/lib/*/pkgconfig")]
    environment["PKG_CONFIG_LIBDIR"] = ":".join(folders)
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "libfeed"], check=True, capture_output=True, text=True, env=environment
    ).stdout.split()
    source = root / "usr/share/doc/libfeed-dev/examples/example.c"
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "example"
        subprocess.run(["cc", source, *flags, "-o", program], check=True)
        service.machine.write("/srv/example", program.read_bytes())
    service.machine.path("/srv/example").chmod(0o755)
    done = service.machine.run("/srv/example", "numbers", user="alice")
    assert done.stdout.startswith("25600 samples"), done.stdout


def names_of(packages):
    """Those that depend on others first."""
    return [package.name.split("_")[0] for package in reversed(packages)]


def test_a_removal_keeps_the_configuration(service):
    """Everything is stopped. Installed again, it serves the same."""
    start(service)
    machine = service.machine
    machine.write("/etc/feedd/job.conf", "[feedd]\n" + DATASET)
    machine.systemctl("start", "feedd@job")
    assert service.ctl("datasets", environment=OF_JOB).stdout
    with service.consume(epochs=6) as consumer:
        service.attached()
        files = {path: path.read_bytes() for path in machine.path("/etc/feedd").rglob("*.conf")}
        machine.run("dpkg", "--remove", *names_of(service.packages))
        assert not machine.path("/usr/bin/feedd").exists()
        assert not machine.systemctl("list-units", "--all", "--no-legend", "feedd*").stdout
        assert not machine.run("ps", "-C", "feedd", check=False).stdout.splitlines()[1:], "the daemon runs"
        assert not machine.path(SOCKET).exists()
        assert {path: path.read_bytes() for path in machine.path("/etc/feedd").rglob("*.conf")} == files
        assert consumer.runs()
        machine.install(service.packages)
        assert {path: path.read_bytes() for path in machine.path("/etc/feedd").rglob("*.conf")} == files
        assert service.states() == STOPPED
        machine.systemctl("start", "feedd")
        consumer.finish()
    assert "numbers" in service.ctl("datasets").stdout


def test_a_purge_leaves_nothing_behind(service):
    """Not even if the service has failed before."""
    service.reset()
    machine = service.machine
    machine.systemctl("enable", "feedd.socket", "feedd.service")
    service.configure(CONFIG + "nonsense = 1\n")
    machine.systemctl("start", "feedd", check=False)
    machine.systemctl("start", "feedd.socket", "feedd@job.socket")
    for file in machine.path("/etc/feedd").rglob("*.conf"):
        if file.name != "feedd.conf":
            file.unlink()
    for file in machine.path("/etc/systemd/system").glob("feedd*.d/*"):
        file.unlink()
    machine.run("dpkg", "--purge", *names_of(service.packages))
    assert not machine.systemctl("list-units", "--all", "--no-legend", "feedd*").stdout
    assert not machine.systemctl("list-unit-files", "--no-legend", "feedd*", check=False).stdout
    left = [path for folder in ("/run", "/etc", "/var/cache") for path in machine.path(folder).glob("feedd*")]
    assert not left, left
    links = [path for path in machine.path("/etc/systemd/system").rglob("feedd*") if path.is_symlink()]
    assert not links, links
