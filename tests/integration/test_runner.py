"""The runners of the tests: which tests an option chooses. No daemon runs."""

import os
import pathlib
import sys

import runner

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import run  # noqa: E402: only now is its folder in the path


def unit_tests(*arguments):
    options = run.parse_arguments(["--build", os.environ["FEEDD_TEST_BUILD"], "--unit", *arguments])
    return {program.name for program in run.find_programs(options)}


def test_only_may_be_repeated():
    chosen = unit_tests("--only", "unit/test_ring", "--only", "unit/test_tex*", "--only", "unit/no_such_test")
    assert chosen == {"unit/test_ring", "unit/test_text"}, chosen
    chosen = unit_tests("--only", "unit/test_ring", "--only", "unit/test_text", "--without", "*_ring")
    assert chosen == {"unit/test_text"}, chosen


def test_without_only_everything_runs():
    assert {"unit/test_ring", "unit/test_text", "unit/order_reference"} <= unit_tests()


def test_only_may_be_repeated_for_cases():
    chosen = runner.find_tests([pathlib.Path(__file__)], ["*_for_cases", "test_runner.test_without*"], "")
    assert sorted(test.name for test in chosen) == [
        "test_runner.test_only_may_be_repeated_for_cases", "test_runner.test_without_only_everything_runs"
    ]  # fmt: skip
