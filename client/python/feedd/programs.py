"""The programs feedd and feedctl, if this package was installed from a wheel that contains them."""

import os
import sys
from typing import NoReturn


def packaged(name: str) -> str | None:
    """The path of a program in the package."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    return path if os.access(path, os.X_OK) else None


def _become(name: str) -> NoReturn:
    path = packaged(name)
    if path is None:
        sys.exit(f"{name}: the package in {os.path.dirname(os.path.abspath(__file__))} does not contain this program: install a"
                 " wheel that make wheel has built, or feedd's Debian packages")
    os.execv(path, [name, *sys.argv[1:]])


def feedd() -> NoReturn:
    """The command feedd of such a wheel."""
    _become("feedd")


def feedctl() -> NoReturn:
    """The command feedctl."""
    _become("feedctl")
