"""NVTX ranges: what NVIDIA's profilers see of libfeed and of a transfer process."""

import pathlib

import consumer
import data
import harness


def need_ranges():
    headers = (harness.BUILD / "cuda.found").read_text().strip() if (harness.BUILD / "cuda.found").exists() else ""
    if not headers or not (pathlib.Path(headers) / "include/nvtx3/nvToolsExt.h").exists():
        harness.skip("this build has no headers of NVTX")


def test_libfeed_and_transfer():
    need_ranges()
    injection = {"NVTX_INJECTION64_PATH": str(harness.PROGRAMS / "tests/injection.so")}
    with harness.Instance(ring="64K") as feedd:
        data.add_records(feedd, samples=1000, size=64)
        feedd.start(environment=injection)
        log = feedd.directory / "consumer.log"
        with log.open("w") as file:
            reader = consumer.Consumer(feedd, "numbers", 10, device="host:0", epochs=1, quiet=True, environment=injection,
                                       program={"stderr": file})  # fmt: skip
            reader.finish()
        lines = log.read_text().splitlines()
        assert lines.count("range: feedd: wait for a batch") == lines.count("range ends") > 0, lines
        harness.eventually(lambda: "range: feedd: queue copies" in feedd.read_log(), 5, "ranges of the transfer process")
        # Without a profiler there are none.
        consumer.read(feedd, "numbers", 10)
