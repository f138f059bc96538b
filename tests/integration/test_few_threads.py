"""A daemon that cannot have its threads says so, and leaves nothing."""

import harness

# The stack of a thread is as large as that of the process may become: two of them do not fit.
LIMITS = ("prlimit", f"--stack={1 << 30}", f"--as={(3 << 30) // 2}")


def test_no_room_for_threads():
    if harness.sanitized():
        harness.skip("sanitizers need more address space")
    with harness.Instance() as feedd:
        feedd.write_config()
        done = feedd.program(*LIMITS, harness.PROGRAMS / "feedd", "--config", feedd.config, check=False)
        assert done.returncode == 1, done
        assert "cannot start 4 threads: Resource temporarily unavailable; the limit on tasks" in done.stderr, done
        assert not feedd.socket.exists() and not feedd.stats.exists()
