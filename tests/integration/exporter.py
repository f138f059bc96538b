"""feedd-exporter beside an instance, and what it answers. Standard library alone."""

import contextlib
import http.client
import socket
import subprocess

import harness

OPEN = "application/openmetrics-text; version=1.0.0"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Exporter:
    """Serves the statistics of an instance on a port of its own."""

    def __init__(self, instance, *arguments):
        if not (harness.PROGRAMS / "feedd-exporter").exists():
            harness.skip("this build has no feedd-exporter: there was no libmicrohttpd")
        self.port = free_port()
        self.log = instance.directory / "exporter.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [harness.PROGRAMS / "feedd-exporter", f"--listen=127.0.0.1:{self.port}", *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=harness.die_with_parent,
                env=instance.environment(),
            )  # fmt: skip
        harness.eventually(self._answers, 10, "the exporter answers")

    def _answers(self):
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(OSError):
            return self.get("/")[0] == 200
        return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        status = self.process.wait(10 * harness.SLOWNESS)
        assert status == 0, (status, self.log.read_text())

    def get(self, path="/metrics", method="GET", **headers):
        """Status, content type and text of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10 * harness.SLOWNESS)
        with contextlib.closing(connection):
            connection.request(method, path, headers={name.title(): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type"), answer.read().decode()
