#!/usr/bin/python3
"""Makes the pictures in docs/pictures of programs that run: make pictures. Chromium draws them.

    tools/make-pictures.py BUILD FOLDER [screens] [dashboard] [timelines]

It runs in Debian's Python, which has Selenium.
"""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    build, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    os.environ["FEEDD_TEST_BUILD"] = str(build)
    sys.path[:0] = [str(ROOT / "tools/pictures"), str(ROOT / "tests/integration"), str(ROOT / "tests")]
    import browser
    import dashboard
    import screens
    import timelines

    kinds = {"screens": screens, "dashboard": dashboard, "timelines": timelines}
    folder.mkdir(parents=True, exist_ok=True)
    with browser.Browser() as chromium:
        for name in sys.argv[3:] or kinds:
            kinds[name].draw(chromium, folder)


if __name__ == "__main__":
    main()
