"""What can go wrong, as exceptions. All are RuntimeErrors with a sentence that says what to do, and a code."""

import errno

__all__ = ["Error", "OptionError", "Timeout", "TooManyBatches", "Unavailable", "from_code"]


class Error(RuntimeError):
    """The daemon or libfeed reported an error. ``code`` is the positive errno, as feed.h lists them, or 0 if there is none."""

    code: int = 0


class OptionError(Error, ValueError):
    """An invalid option: a value out of range, or one that disagrees with the other users of the feed."""


class Timeout(Error, TimeoutError):
    """No batch came within ``timeout`` seconds, or the daemon did not answer within 30 s, or 150 s on a GPU, when a loader
    attached."""


class TooManyBatches(Error, BufferError):
    """The loader holds as many batches as it may: a tensor, or a view of one, keeps each of them alive."""


class Unavailable(Error, ConnectionError):
    """No daemon listens on the socket, or it went away and did not come back within 60 s."""


# Tracebacks name them as programs do: feedd.Unavailable.
for _kind in (Error, OptionError, Timeout, TooManyBatches, Unavailable):
    _kind.__module__ = "feedd"

_KINDS: dict[int, type[Error]] = {
    errno.EINVAL: OptionError,
    errno.ERANGE: OptionError,
    errno.EFBIG: OptionError,
    errno.EEXIST: OptionError,
    errno.ESTALE: OptionError,
    errno.EAGAIN: Timeout,
    errno.ETIMEDOUT: Timeout,
    errno.ENOBUFS: TooManyBatches,
    errno.ECONNREFUSED: Unavailable,
    errno.ECONNRESET: Unavailable,
    errno.ESHUTDOWN: Unavailable,
}


def from_code(code: int, text: str) -> Error:
    """The exception for a positive errno and its sentence."""
    error = _KINDS.get(code, Error)(text)
    error.code = code
    return error
