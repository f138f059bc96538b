#!/usr/bin/env python3
"""Makes the pictures in docs/pictures: make pictures. feedctl runs in a tmux beside a busy daemon, and Chromium draws the
screen.

    tools/make-pictures.py BUILD FOLDER
"""

import html
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The terminal's colours: numbers of ANSI.
COLOURS = {31: "#d0605e", 36: "#3aa5b0"}
STYLE = """
body { margin: 0; background: #1e2127; }
pre { margin: 0; padding: 12px 16px; width: max-content; color: #d7dae0; background: #1e2127;
      font: 15px/19px "DejaVu Sans Mono", monospace; }
.bold { font-weight: bold; } .dim { opacity: 0.6; } .reverse { color: #1e2127; background: #d7dae0; }
"""
CELL_WIDTH, CELL_HEIGHT, EDGE_WIDTH, EDGE_HEIGHT = 9.03, 19, 32, 24  # in pixels, of that font


def to_html(screen):
    """What tmux says of a screen, with its escape sequences, as a page."""
    parts, classes, colour = [], set(), None
    for text, code in re.findall(r"([^\033]+)|\033\[([0-9;]*)m", screen):
        if text:
            style = f' style="color: {colour}"' if colour and "reverse" not in classes else ""
            parts.append(f'<span class="{" ".join(sorted(classes))}"{style}>{html.escape(text)}</span>')
            continue
        for number in [int(word or 0) for word in code.split(";")]:
            if number in (0, 39):
                colour = None
            if number == 0:
                classes = set()
            elif number in (1, 2, 7):
                classes.add({1: "bold", 2: "dim", 7: "reverse"}[number])
            elif number in (22, 27):
                classes -= {"bold", "dim"} if number == 22 else {"reverse"}
            elif number in COLOURS:
                colour = COLOURS[number]
    return f"<!doctype html><meta charset=utf-8><style>{STYLE}</style><pre>{''.join(parts)}</pre>"


def draw(screen, columns, lines, file):
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.html"
        page.write_text(to_html(screen))
        width, height = int(columns * CELL_WIDTH) + EDGE_WIDTH, lines * CELL_HEIGHT + EDGE_HEIGHT
        subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--user-data-dir={folder}/profile", f"--window-size={width},{height}", f"--screenshot={file}", page.as_uri()],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120,
        )  # fmt: skip
    print(f"{file}: {file.stat().st_size} bytes")


def picture(instance, folder, name, columns, lines, *arguments, keys=()):
    import terminal

    with terminal.Feedctl(instance, *arguments, width=columns, height=lines) as screen:
        time.sleep(8)  # for histories
        for key in keys:
            screen.keys(key)
        time.sleep(1)
        drawn = screen.run("capture-pane", "-p", "-e")
        assert "feedd" in drawn, drawn
        draw(drawn, columns, lines, folder / f"{name}.png")


def main():
    build, folder = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    os.environ["FEEDD_TEST_BUILD"] = str(build)
    sys.path.insert(0, str(ROOT / "tests/integration"))
    import consumer
    import data
    import harness

    folder.mkdir(parents=True, exist_ok=True)
    with harness.Instance(ring="2M", loaders=2) as feedd:
        for name, size in (("cifar100", 3074), ("tokens", 8192)):
            data.add_records(feedd, name, samples=20000, size=size)
        data.add_records(feedd, "archive", samples=20000, size=3074, io_delay_us=1500)
        feedd.start()
        endless = {"epochs": 0, "shuffle": True, "quiet": True, "samples": False}
        readers = [
            consumer.Consumer(feedd, "cifar100", 64, share="resnet", device="cpu", sleep_us=4000, **endless),
            consumer.Consumer(feedd, "cifar100", 64, share="resnet", device="cpu", sleep_us=5000, **endless),
            consumer.Consumer(feedd, "tokens", 32, share="llm", device="host:0", sleep_us=8000, **endless),
            consumer.Consumer(feedd, "archive", 64, share="cold", device="cpu", **endless),
        ]
        time.sleep(2)
        picture(feedd, folder, "stats", 110, 20, "stats")
        picture(feedd, folder, "top", 110, 27, "top")
        picture(feedd, folder, "top-narrow", 40, 22, "top", keys=["Down"])
        for reader in readers:
            reader.kill()


if __name__ == "__main__":
    main()
