"""NVTX ranges: what NVIDIA's profilers see of libfeed and of a transfer process."""

import pathlib

import consumer
import data
import harness


def need_ranges():
    headers = (harness.BUILD / "cuda.found").read_text().strip() if (harness.BUILD / "cuda.found").exists() else ""
    if not headers or not (pathlib.Path(headers) / "include/nvtx3/nvToolsExt.h").exists():
        harness.skip("this build has no headers of NVTX")


INJECTION = {"NVTX_INJECTION64_PATH": str(harness.PROGRAMS / "tests/injection.so")}


def test_libfeed_and_transfer():
    need_ranges()
    with harness.Instance(ring="64K") as feedd:
        data.add_records(feedd, samples=1000, size=64)
        feedd.start(environment=INJECTION)
        log = feedd.directory / "consumer.log"
        with log.open("w") as file:
            reader = consumer.Consumer(feedd, "numbers", 10, device="host:0", epochs=1, quiet=True, environment=INJECTION,
                                       program={"stderr": file})  # fmt: skip
            reader.finish()
        lines = log.read_text().splitlines()
        assert lines.count("range: feedd: wait for a batch") == lines.count("range ends") > 0, lines
        harness.eventually(lambda: "range: feedd: queue copies" in feedd.read_log(), 5, "ranges of the transfer process")
        # Without a profiler there are none.
        consumer.read(feedd, "numbers", 10)


def leases(lines):
    """The batches that are held after each line."""
    held = []
    for line in lines:
        if line.startswith("start "):
            number, name = line[6:].split(": ", 1)
            assert name == "feedd: lease" and number not in held, line
            held.append(number)
        elif line.startswith("end "):
            held.remove(line[4:])
        else:
            continue
        yield len(held)


def test_leases():
    """From when a batch is taken until it is released, and no longer than the consumer has it."""
    need_ranges()
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=100, size=64)
        feedd.start()
        log = feedd.directory / "consumer.log"
        with log.open("w") as file, consumer.Consumer(feedd, "numbers", 10, step=True, environment=INJECTION,
                                                      program={"stderr": file}) as reader:  # fmt: skip
            def held():
                return list(leases(log.read_text().splitlines()))

            reader.attached()
            assert held() == []
            one, two = reader.next(), reader.next()
            assert held() == [1, 2]
            reader.release(one)
            reader.take(1)
            assert held() == [1, 2, 1, 2, 1]
            reader.release(two)
            reader.next()
            assert held() == [1, 2, 1, 2, 1, 0, 1]
            reader.close()
            assert held()[7:] == [0], "a range is left of a batch that the consumer had when it closed"
