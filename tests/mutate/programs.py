"""Builds the programs that are to notice a mutant, each with one object replaced, and runs them."""

import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEEDS = 500  # of the simulation
MOST_DATA = 8 << 30
SANITIZERS = {
    "ASAN_OPTIONS": "abort_on_error=1:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:abort_on_error=1",
}


def confine(cpu_s, most_data):
    """A mutant may loop, or allocate without end."""
    os.setpriority(os.PRIO_PROCESS, 0, 10)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (most_data, most_data))


def ended(command, limit_s, cpu_s=None, most_data=MOST_DATA, **options):
    """The exit status, or None if it ran out of time; whatever it started is ended."""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                          preexec_fn=lambda: confine(cpu_s or int(limit_s) + 1, most_data), **options) as process:
        try:
            status = process.wait(limit_s)
            return None if status == -signal.SIGXCPU else status
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class Programs:
    """What make has built in `build`, with sanitizers or without, and how long each program takes."""

    def __init__(self, build, sanitized):
        self.build = pathlib.Path(build)
        self.sanitized = sanitized
        self.flags = os.environ["MUTATE_SANITIZE"] if sanitized else ""
        self.took = {}

    def compile(self, text, output, folder=None):
        """Whether the text compiles; includes are looked for in the folder first."""
        first = f"-iquote '{folder}'" if folder else ""
        # A function that ends without its return value is no mutant worth a test.
        command = f"{os.environ['MUTATE_COMPILE']} {first} {self.flags} -Werror=return-type -x c -c -o '{output}' -"
        with tempfile.TemporaryFile() as source:
            source.write(text.encode())
            source.seek(0)
            environment = dict(os.environ, CCACHE_DISABLE="1")
            return ended(command, 300, shell=True, stdin=source, env=environment) == 0

    def includes(self, name, path):
        """Whether the program has the source file in itself, as test_ring_schedules has."""
        dependencies = self.build / f"obj/tests/unit/{name}.d"
        return dependencies.exists() and f" {path} " in dependencies.read_text().replace("\n", " ")

    def compile_around(self, name, path, text, folder):
        """Compiles a program that includes the mutated file."""
        changed = folder / "include" / path
        changed.parent.mkdir(parents=True, exist_ok=True)
        changed.write_text(text)
        try:
            source = (ROOT / f"tests/unit/{name}.c").read_text()
            return self.compile(source, folder / "around.o", folder / "include")
        finally:
            changed.unlink()

    def link(self, name, mutant, output):
        """Links the program with the mutant, which comes before the archives that have the original."""
        objects = [] if mutant and mutant.name == "around.o" else [f"obj/tests/unit/{name}.o"]
        if name == "simulate":
            objects = [f"obj/{path.relative_to(ROOT)}".replace(".c", ".o") for path in ROOT.glob("tests/simulate/*.c")]
        objects += ["libdaemon.a", "libctl.a", "libclient.a"]
        parts = " ".join([str(mutant or ""), *(f"{self.build}/{part}" for part in objects)])
        wraps = os.environ["MUTATE_SIMULATE_WRAPS"] if name == "simulate" else ""
        command = f"{os.environ['MUTATE_LINK']} {self.flags} {wraps} -o '{output}' {parts} {os.environ['MUTATE_LIBS']}"
        return ended(command, 300, shell=True) == 0

    def run(self, name, program, limit_s, cpu_s=None):
        arguments = ["--seeds", str(SEEDS), "--jobs", "1"] if name == "simulate" else []
        environment = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="tap", **SANITIZERS)
        most_data = resource.RLIM_INFINITY if self.sanitized else MOST_DATA  # sanitizers reserve terabytes
        return ended([str(program), *arguments], limit_s, cpu_s, most_data, env=environment)

    def measure(self, name, folder):
        """Runs the program without any mutant, in which it must pass; returns how long it took."""
        program = folder / name
        if not self.link(name, None, program):
            raise SystemExit(f"{name} cannot be linked")
        began = time.monotonic()
        if self.run(name, program, 300) != 0:
            raise SystemExit(f"{name} fails without any mistake made")
        return time.monotonic() - began

    def notices(self, name, mutant, folder):
        """None, "fails", or "limit" if it takes far more time than without the mutant. A failure must show twice."""
        program = folder / name
        if not self.link(name, mutant, program):
            return None
        limit_s = 120 + 30 * self.took[name]  # others may keep the processors busy
        for _ in range(2):
            status = self.run(name, program, limit_s, int(2 + 5 * self.took[name]))
            if status is None:
                return "limit"
            if status == 0:
                return None
        return "fails"
