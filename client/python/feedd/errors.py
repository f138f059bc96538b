"""What goes wrong, as exceptions. All are RuntimeErrors with a sentence that says what to do, and a code."""

import errno

__all__ = ["Error", "OptionError", "Timeout", "TooManyBatches", "Unavailable", "from_code"]


class Error(RuntimeError):
    """The daemon or libfeed said no. ``code`` is the positive errno, see feed.h for what each means, and 0 where none says
    it."""

    code: int = 0


class OptionError(Error, ValueError):
    """An option that cannot be: a value out of range, or one that disagrees with those who share the feed."""


class Timeout(Error, TimeoutError):
    """No batch came within ``timeout`` seconds, or no answer from the daemon to a loader that attaches, within 30 s."""


class TooManyBatches(Error, BufferError):
    """All the batches that this loader may hold are held: some tensor, or a view of one, keeps each of them alive."""


class Unavailable(Error, ConnectionError):
    """No daemon answers on the socket, or it went away and did not come back within 60 s."""


_KINDS: dict[int, type[Error]] = {
    errno.EINVAL: OptionError,
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
