"""The packages as they are installed: nothing is started, and systemd has nothing to say against the units."""

import subprocess

SCORE = 20  # tenths: 2.0
SERVICES = ("feedd.service", "feedd@.service", "feedd-exporter.service", "feedd-exporter@.service")
SOCKETS = ("feedd.socket", "feedd@.socket")


def test_lintian_finds_no_error(service):
    done = subprocess.run(
        ["lintian", "--fail-on=error", "--allow-root", *service.packages], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_file_is_in_its_package(service):
    machine = service.machine
    for package, path in {
        "feedd": "/usr/bin/feedd /usr/bin/feedctl /etc/feedd/feedd.conf /lib/systemd/system/feedd.service",
        "libfeed0": "/usr/lib/*/libfeed.so.0",
        "libfeed-dev": "/usr/include/feed.h /usr/lib/*/libfeed.a /usr/lib/*/libfeed.so",
        "python3-feedd": "/usr/lib/python3/dist-packages/feedd/__init__.py",
    }.items():
        for name in machine.run("sh", "-c", f"ls -d {path}").stdout.split():
            assert machine.run("dpkg", "-S", name).stdout.startswith(f"{package}:"), (package, name)


def test_nothing_is_enabled_or_started(service):
    machine = service.machine
    for unit in ("feedd.service", "feedd.socket"):
        assert machine.systemctl("is-enabled", unit, check=False).stdout.strip() == "disabled"
        assert machine.show(unit, "ActiveState") == "inactive" and machine.show(unit, "LoadState") == "loaded"


def test_the_configuration_that_comes_with_it_is_right(service):
    done = service.machine.run("feedd", "--check")
    assert "/etc/feedd/feedd.conf: OK (checked as user feedd): 0 datasets" in done.stdout, done


def test_systemd_finds_nothing_in_the_units(service):
    units = [f"/lib/systemd/system/{unit}" for unit in SERVICES + SOCKETS]
    done = service.machine.run("systemd-analyze", "verify", "--man=no", *units, check=False)
    assert done.returncode == 0 and not done.stdout + done.stderr, done


def test_the_services_are_confined(service):
    for unit in SERVICES:
        file = f"/lib/systemd/system/{unit}"
        done = service.machine.run("systemd-analyze", "security", "--offline=true", f"--threshold={SCORE}", file, check=False)
        assert done.returncode == 0 and "Overall exposure" in done.stdout, done.stdout + done.stderr
