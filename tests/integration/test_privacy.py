"""What users of one daemon see of each other: in answers, in the statistics, in ps."""

import contextlib
import json
import os

import consumer
import data
import harness
import users
from users import AS_NOBODY, NOBODY, listed, reload


@contextlib.contextmanager
def two_users(**settings):
    """A consumer of root and one of nobody."""
    with users.serve(**settings) as feedd:
        secret = data.add_records(feedd, "secret", samples=1000, size=64, allow_users="root")
        reload(feedd)
        options = {"step": True, "ring_bytes": 1 << 16}
        with consumer.Consumer(feedd, "secret", 10, share="hidden", name="roots", **options) as mine, \
                consumer.Consumer(feedd, "numbers", 10, share="job", user=NOBODY, name="his", **options) as his:
            mine.attached(), his.attached()
            mine.take(1), his.take(1)
            yield feedd, secret


SECRETS = ("hidden", "secret", "roots")


def test_others_are_counted_but_not_named():
    with two_users() as (feedd, secret):
        for command in ("feeds",), ("clients",), ("status",), ("datasets",), ("stats", "--once"):
            for arguments in command, (*command, "--json"):
                text = feedd.ctl(*arguments, **AS_NOBODY).stdout
                assert not [word for word in (*SECRETS, str(secret)) if word in text], text
        (feed,) = listed(feedd, "feeds", **AS_NOBODY)
        assert (feed["name"], feed["user"]) == ("job", NOBODY), feed
        sessions = listed(feedd, "clients", **AS_NOBODY)
        assert {row["name"] for row in sessions} == {"his", "feedctl"} and {row["user"] for row in sessions} == {NOBODY}
        status = listed(feedd, "status", **AS_NOBODY)
        ring_bytes = sum(row["ring_bytes"] for row in listed(feedd, "feeds") if row["user"] == 0)
        assert status["others"] == {
            "sessions": 1, "feeds": 1, "consumers": 1, "loaders": 2, "ring_bytes": ring_bytes
        }, status  # fmt: skip
        assert {row["feed"] for row in status["processes"]} == {0, feed["id"]}, status
        assert (status["feeds"], status["sessions"]) == (2, 3), "totals are of all"
        text = feedd.ctl("feeds", **AS_NOBODY).stdout
        assert "not shown: 1 feed of other users, with 1 consumer, 2 loaders and rings of " in text, text
        assert "not shown: 1 session of other users" in feedd.ctl("clients", **AS_NOBODY).stdout
        everything = feedd.ctl("feeds").stdout + feedd.ctl("clients").stdout
        assert all(word in everything for word in (*SECRETS, "his")) and "not shown" not in everything, everything


def test_others_are_shown_if_the_administrator_says_so():
    with two_users(show_others="yes") as (feedd, _):
        text = "".join(feedd.ctl(command, **AS_NOBODY).stdout for command in ("feeds", "clients", "datasets"))
        assert all(word in text for word in SECRETS) and "not shown" not in text, text
        assert not any(listed(feedd, "status", **AS_NOBODY)["others"].values())
        assert {feed["name"] for feed in feedd.statistics()["feeds"]} == {"hidden", "job"}
        assert b"hidden" in feedd.stats.read_bytes()


@contextlib.contextmanager
def acting_as(uid):
    """What this process connects in the block is connected by that user."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def test_pages_of_what_is_ones_own():
    """More sessions than fit on a page, mixed with others: each of one's own is listed once."""
    with users.serve() as feedd, contextlib.ExitStack() as stack:
        for _ in range(150):
            stack.enter_context(feedd.client()).hello()
            with acting_as(NOBODY):
                his = stack.enter_context(feedd.client())
            his.hello()
        seen, start = [], 0
        while True:
            page = his.query("CLIENTS", start=start)
            assert {row["user"] for row in page["clients"]} == {NOBODY}
            seen += [row["session"] for row in page["clients"]]
            assert (page["others"] is None) == (page["next"] != 0), "counted on the last page"
            start = page["next"]
            if not start:
                break
        assert len(seen) == len(set(seen)) == 150
        assert page["others"]["sessions"] == 150, page["others"]


def test_errors_of_others():
    with users.serve() as feedd:
        feedd.config.write_text("[dataset wrong]\nformat = secret-format\n")
        feedd.ctl("reload", check=False)
        assert "secret-format" in feedd.status()["last_errors"][0]
        (line,) = listed(feedd, "status", **AS_NOBODY)["last_errors"]
        assert line.startswith("1 since the start") and "secret" not in line, line


@harness.host_memory
def test_statistics_name_ones_own_feeds():
    """Everybody may map them, so the file itself has no names; the daemon tells each user their own."""
    with two_users() as (feedd, _):
        content = feedd.stats.read_bytes()
        assert not [word for word in (*SECRETS, "job", "numbers") if word.encode() in content]
        by_name = {feed["name"]: feed["dataset"] for feed in feedd.statistics()["feeds"]}
        assert by_name == {"hidden": "secret", "job": "numbers"}, by_name
        report = json.loads(feedd.ctl("stats", "--once", "--json", **AS_NOBODY).stdout)
        assert {feed["name"]: feed["dataset"] for feed in report["feeds"]} == {"": "", "job": "numbers"}, report
        assert "job" in feedd.ctl("stats", "--once", "job", **AS_NOBODY).stdout
        done = feedd.ctl("stats", "--once", "hidden", check=False, **AS_NOBODY)
        assert done.returncode == 1 and "no feed hidden" in done.stderr, done


@harness.host_memory
def test_statistics_that_nobody_else_can_read_have_names():
    with users.serve(socket_mode="0600") as feedd:
        consumer.read(feedd, "numbers", 10, share="job")
        assert b"job\0" in feedd.stats.read_bytes()


@harness.host_memory
def test_reload_changes_what_is_shown():
    with two_users(show_others="yes") as (feedd, _):
        assert b"hidden" in feedd.stats.read_bytes()
        consumer.read(feedd, "numbers", 10, share="forgotten", ring_bytes=1 << 16)
        for show, shown in (("no", False), ("yes", True)):
            feedd.settings.update(show_others=show, linger=0)
            feedd.write_config()
            assert "show_others = " in feedd.ctl("reload").stdout
            harness.eventually(lambda: b"forgotten" not in feedd.stats.read_bytes(), 5, "the unused feed is closed")
            assert (b"hidden" in feedd.stats.read_bytes()) == shown
            assert ("hidden" in feedd.ctl("feeds", **AS_NOBODY).stdout) == shown


def test_ps_names_no_dataset():
    with two_users() as (feedd, _):
        # A loader that has just been forked is still called feedd.
        harness.eventually(lambda: len(feedd.children_called("loader")) == 4, 10, "four loaders")
        commands = list(feedd.processes().values())
        assert not [command for command in commands if "secret" in command], commands
