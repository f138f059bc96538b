"""feedctl stats and top: they run in a tmux beside a busy daemon, and their screen becomes a page."""

import html
import re
import time

import consumer
import harness
import scene
import terminal

# The terminal's colours: numbers of ANSI.
COLOURS = {31: "#d0605e", 36: "#3aa5b0"}
STYLE = """
body { margin: 0; background: #1e2127; }
pre { margin: 0; padding: 12px 16px; width: max-content; color: #d7dae0; background: #1e2127;
      font: 15px/19px "DejaVu Sans Mono", monospace; }
.bold { font-weight: bold; } .dim { opacity: 0.6; } .reverse { color: #1e2127; background: #d7dae0; }
"""
LINE_HEIGHT = 19  # pixels, of that font


def to_html(screen, columns, lines):
    """What tmux says of a screen of that size, with its escape sequences, as a page."""
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
    size = f"min-width: {columns}ch; height: {lines * LINE_HEIGHT}px"
    return f"<!doctype html><meta charset=utf-8><style>{STYLE}</style><pre style='{size}'>{''.join(parts)}</pre>"


def picture(browser, instance, file, columns, lines, *arguments, keys=()):
    with terminal.Feedctl(instance, *arguments, width=columns, height=lines) as screen:
        time.sleep(8)  # for histories
        for key in keys:
            screen.keys(key)
        time.sleep(1)
        drawn = screen.run("capture-pane", "-p", "-e")
        assert "feedd" in drawn, drawn
    browser.page(to_html(drawn, columns, lines))
    browser.save(file, "pre")


def draw(browser, folder):
    with harness.Instance(ring="2M", loaders=2, queue_depth=8) as feedd:
        scene.start(feedd, archive_delay_us=1500)
        readers = [
            consumer.Consumer(feedd, "cifar100", 64, share="resnet", device="cpu", sleep_us=4000, **scene.ENDLESS),
            consumer.Consumer(feedd, "cifar100", 64, share="resnet", device="cpu", sleep_us=5000, **scene.ENDLESS),
            consumer.Consumer(feedd, "tokens", 32, share="llm", device="host:0", sleep_us=8000, **scene.ENDLESS),
            consumer.Consumer(feedd, "archive", 64, share="cold", device="cpu", **scene.ENDLESS),
        ]
        time.sleep(2)
        picture(browser, feedd, folder / "stats.png", 110, 20, "stats")
        picture(browser, feedd, folder / "top.png", 110, 27, "top")
        picture(browser, feedd, folder / "top-narrow.png", 40, 22, "top", keys=["Down"])
        for reader in readers:
            reader.kill()
