"""Waiting for batches and for the daemon, and what a user is told when it takes long."""

import errno
import os
import sys
import warnings
from typing import TYPE_CHECKING

from ._feed import Batch, Feed
from .errors import Timeout, TooManyBatches

if TYPE_CHECKING:
    from .ranks import Ranks

WARN_AFTER_MS = 5000
_RECONNECT_S = 60  # libfeed's default, as is the next one
_CONNECT_S = 30
_CONNECT_GPU_S = 150
_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def socket_name(socket: str | None) -> str:
    """The socket that libfeed uses when it is given this one."""
    return socket or os.environ.get("FEEDD_SOCKET") or "/run/feedd/feedd.sock"


def warn(text: str) -> None:
    """Issues a RuntimeWarning that points to the caller of the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    warnings.warn(text, RuntimeWarning, stacklevel=level)


def warn_of_opening(socket: str | None) -> None:
    """The extension module calls this when a feed has not been opened after 5 s."""
    warn(f"feedd on {socket_name(socket)} has not answered for {WARN_AFTER_MS / 1000:g} s: this loader gives up after"
         f" {_CONNECT_S} s ({_CONNECT_GPU_S} s while the daemon opens a GPU)."
         " Check that the daemon is alive (systemctl status feedd) and look at its log")


def what_is_awaited(ranks: "Ranks", has_had_batches: bool) -> str:
    """What a batch may be waiting for if the daemon is there."""
    if ranks.world_size > 1 and not has_had_batches:
        return (f"the first one waits until {ranks.local_world_size} ranks on this machine have joined the feed"
                f" {ranks.share!r}. Does every rank run, and do all make and use the same loaders in the same order? feedctl"
                " feeds shows which have joined; local_world_size= says how many to expect")
    if ranks.share is not None:
        return ("another reader of the feed may hold it up, or the storage may be slow: feedctl feeds and feedctl stats show"
                " what it is waiting for")
    return "the storage may be slow, or the daemon may hang: feedctl stats shows what it is waiting for"


def explain_too_many(error: TooManyBatches, held: int, asked: int, share: str | None) -> TooManyBatches:
    """The error with what a user can do."""
    remedy = f"raise prefetch_factor (now {held - 1})"
    if held < max(asked, 2):  # the ring is shared, and its size was set by another
        remedy = f"let the job that makes the feed {share!r} ask for a larger prefetch_factor: its room is shared"
    explained = TooManyBatches(
        f"all {held} batches that this loader may hold at once are held by tensors, or views of them, that are still alive:"
        f" let go of them, use copy=True, or {remedy}")
    explained.code = error.code
    return explained


def _reason(feed: Feed, socket: str | None, timeout_ms: int, expects: str) -> str:
    if feed.connected():
        until = "indefinitely, unless timeout= is set" if timeout_ms < 0 else f"for {timeout_ms / 1000:g} s in all"
        return f"no batch has come for {WARN_AFTER_MS / 1000:g} s: {expects}. This loader waits {until}"
    limit, then = f"{_RECONNECT_S} s", "feedd.Unavailable"
    if 0 <= timeout_ms < _RECONNECT_S * 1000:
        limit, then = f"{timeout_ms / 1000:g} s", "feedd.Timeout"
    return (f"lost the connection to feedd on {socket_name(socket)}; trying to reconnect for {limit}, then raising {then}. If"
            " feedd returns, the loader resumes where it was. Check that the daemon runs (systemctl status feedd) and still"
            " uses this socket")


def next_batch(feed: Feed, timeout_ms: int, socket: str | None, expects: str) -> Batch | None:
    """feed.next(), with a warning once it has taken 5 s. ``expects`` names the cause if it is
    not a lost daemon."""
    first = WARN_AFTER_MS if timeout_ms < 0 else min(timeout_ms, WARN_AFTER_MS)
    try:
        return feed.next(first)
    except Timeout as error:
        if first == timeout_ms or error.code != errno.EAGAIN:
            raise
    warn(_reason(feed, socket, timeout_ms, expects))
    return feed.next(timeout_ms if timeout_ms < 0 else timeout_ms - first, first)
