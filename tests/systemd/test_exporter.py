"""feedd-exporter.service: it continues while the daemon is stopped, and says so."""

from machine import eventually
from service import DATASET

SCRAPE = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:{}/metrics', timeout=5).read().decode())"


def scrape(service, port=9743):
    """What feedd_up is; None: nobody serves the port."""
    done = service.machine.run("python3", "-c", SCRAPE.format(port), check=False)
    values = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("feedd_up ")]
    return values[0] if done.returncode == 0 and values else None


def says(service, wanted, port=9743):
    eventually(lambda: scrape(service, port) == wanted, 15, f"feedd_up {wanted}")


def test_a_stopped_daemon_is_down(service):
    service.reset()
    machine = service.machine
    machine.systemctl("start", "feedd", "feedd-exporter")
    says(service, "1")
    pid = machine.show("feedd-exporter", "MainPID")
    machine.systemctl("stop", "feedd")
    assert scrape(service) == "0"
    assert service.states() == ("inactive", "inactive"), "a scrape started the daemon"
    machine.systemctl("start", "feedd")
    assert scrape(service) == "1"
    machine.systemctl("restart", "feedd")
    assert scrape(service) == "1"
    assert machine.show("feedd-exporter", "MainPID") == pid, "it is another process"
    machine.systemctl("stop", "feedd-exporter")
    assert scrape(service) is None


def test_a_file_for_another_collector(service):
    service.reset()
    service.machine.systemctl("start", "feedd")
    command = "cd /tmp && feedctl metrics --prometheus >feedd.prom.tmp && mv feedd.prom.tmp feedd.prom && cat feedd.prom"
    assert "\nfeedd_up 1\n" in service.machine.run("sh", "-c", command).stdout
    service.machine.systemctl("stop", "feedd")
    assert "\nfeedd_up 0\n" in service.machine.run("sh", "-c", command).stdout


def test_an_instance(service):
    service.reset()
    machine = service.machine
    machine.write("/etc/feedd/job.conf", "[feedd]\nsocket_group = feed\nloaders = 1\n" + DATASET)
    port = "[Service]\nEnvironment=LISTEN=127.0.0.1:9744\nSocketBindAllow=tcp:9744\n"
    machine.write("/etc/systemd/system/feedd-exporter@job.service.d/port.conf", port)
    machine.systemctl("daemon-reload")
    machine.systemctl("start", "feedd@job", "feedd-exporter@job", "feedd-exporter")
    says(service, "1", 9744)
    says(service, "0")
    machine.systemctl("stop", "feedd@job")
    assert scrape(service, 9744) == "0"
    machine.systemctl("stop", "feedd-exporter@job", "feedd-exporter")
