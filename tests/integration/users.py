"""Other users: clients that run as them, and what they may do. Only root can try."""

import json
import os

import data
import harness

NOBODY = 65534
DAEMON = 1  # another user who is not the daemon's own
AS_NOBODY = {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def need_root():
    if os.geteuid() != 0:
        harness.skip("only root can run programs as another user")


def serve(dataset=None, **settings):
    """A directory that other users can enter, and a socket that they may connect to; files have their own modes.
    `dataset` holds options of the dataset numbers."""
    need_root()
    instance = harness.Instance(**{"socket_mode": "0666", **settings})
    instance.directory.chmod(0o711)
    instance.path = data.add_records(instance, samples=1000, size=64, **(dataset or {}))
    return instance.start()


def run_as(uid, gids, act, gid=None):
    """Runs act() in a child process with that identity; what it returns is the text that comes back."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups(gids)
            os.setgid(uid if gid is None else gid)
            os.setuid(uid)
            text = act() or ""
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return text


def reload(feedd, **options):
    """With these options of the dataset numbers changed; None removes one."""
    feedd.datasets["numbers"].update(options)
    feedd.datasets["numbers"] = {key: value for key, value in feedd.datasets["numbers"].items() if value is not None}
    feedd.write_config()
    return feedd.ctl("reload")


def listed(feedd, what, **identity):
    """What feedctl lists for that user, as JSON."""
    return json.loads(feedd.ctl(what, "--json", **identity).stdout)
