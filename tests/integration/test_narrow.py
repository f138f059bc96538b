"""feedctl in 40 columns: columns of tables are left out, not cut, and sentences are folded."""

import data
import harness


def lines(feedd, *arguments):
    return feedd.ctl(*arguments, environment={"COLUMNS": "40"}).stdout.splitlines()


def test_tables_and_sentences():
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.start()
        feedd.ctl("read", "numbers", "--batches=1", "--share=a-name-of-20-letters")
        found = lines(feedd, "feeds")
        assert found[0].split()[:3] == ["ID", "DATASET", "CONSUMERS"] and found[0].endswith("STATE"), found
        assert found[1].endswith("idle") and len(found[1]) <= 40, found
        found = [line for line in lines(feedd, "stats", "--once") if "BOTTLENECK" in line or line.endswith("  idle")]
        assert len(found) == 2 and "NAME" not in found[0] and all(len(line) <= 40 for line in found), found
        found = lines(feedd, "stats", "--once", "--latency")[1:]
        assert found[0].split()[:4] == ["FEED", "WHAT", "COUNT", "P50"] and found[0].endswith("MAX"), found
        assert all(len(line) <= 40 for line in found), found
        found = lines(feedd, "status")
        assert all(len(line) <= 40 or str(feedd.directory) in line for line in found), found
        prepared = next(number for number, line in enumerate(found) if line.startswith("  prepared       "))
        assert found[prepared + 1].startswith(" " * 17), found
