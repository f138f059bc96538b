#!/usr/bin/env python3
"""Draws what run.py has written: a PNG and an SVG beside each JSON file.

Needs matplotlib, and nothing of the machine that was measured.
"""

import argparse
import json
import pathlib
import sys

sys.dont_write_bytecode = True

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "feedd"  # the same file from the same figures

from matplotlib import pyplot

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "results"
OURS, LIMIT = "#d1495b", "#8d99ae"
LIMITS = ("no loader", "bare loop")
THEIRS = ("#1b4965", "#4a8fb9", "#9cc5e0", "#5fa8a0")


def colour(side, theirs):
    if side.startswith("feedd"):
        return OURS
    if side.startswith(LIMITS):
        return LIMIT
    return THEIRS[theirs.index(side) % len(THEIRS)]


def label(row, keys):
    return "\n".join(str(row[key]) for key in keys if row.get(key))


def side_of(row, keys):
    """What a bar is coloured by: the part before the colon."""
    return str(row[keys[0]]).split(":")[0]


def bars(axes, table, draw):
    rows = [row for row in table["rows"] if row.get(draw["y"]) is not None]
    theirs = [side for side in dict.fromkeys(side_of(row, draw["x"]) for row in rows)
              if not side.startswith(("feedd", *LIMITS))]
    values = [row[draw["y"]] for row in rows]
    colours = [colour(side_of(row, draw["x"]), theirs) for row in rows]
    drawn = axes.barh(range(len(rows)), values, color=colours)
    texts = [f"{value:,.3g}" if value < 1000 else f"{value:,.0f}" for value in values]
    axes.bar_label(drawn, texts, padding=3, fontsize=8)
    axes.set_yticks(range(len(rows)), [label(row, draw["x"]) for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel(table["columns"][draw["y"]])
    if draw.get("log"):
        axes.set_xscale("log")
        axes.set_xlim(left=min(values) / 2)
    else:
        axes.set_xlim(left=0)


def lines(axes, table, draw):
    series = dict.fromkeys(row[draw["series"]] for row in table["rows"])
    theirs = [side for side in series if not side.startswith(("feedd", *LIMITS))]
    ours = 0
    for side in series:
        points = sorted((row[draw["x"]], row[draw["y"]]) for row in table["rows"] if row[draw["series"]] == side)
        marker = "o"
        if side.startswith("feedd"):
            marker = "os^D"[ours % 4]
            ours += 1
        axes.plot(*zip(*points), marker=marker, label=side, color=colour(side, theirs))
    axes.set_xlabel(table["columns"][draw["x"]])
    axes.set_ylabel(table["columns"][draw["y"]])
    axes.set_xticks(sorted({row[draw["x"]] for row in table["rows"]}))
    if draw.get("log"):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)


def draw_record(record, path):
    tables = [table for table in record["tables"] if table["draw"] and table["rows"]]
    if not tables:
        return
    heights = [max(2.2, 0.42 * len(table["rows"]) + 1.0) if table["draw"]["kind"] == "bars" else 4.2
               for table in tables]
    figure, all_axes = pyplot.subplots(len(tables), 1, figsize=(9, sum(heights) + 1.2), height_ratios=heights,
                                       squeeze=False, layout="constrained")
    for axes, table in zip(all_axes[:, 0], tables):
        {"bars": bars, "lines": lines}[table["draw"]["kind"]](axes, table, table["draw"])
        axes.set_title(table["title"], fontsize=9)
        axes.grid(axis="x" if table["draw"]["kind"] == "bars" else "both", alpha=0.3)
    where = " · ".join(part for part in (record["gpu"], record["machine"]) if part)
    used = record["versions"]
    state = " · NOT A RESULT: --quick" if record["quick"] else ""
    figure.suptitle(f"{record['experiment']}: {record['question']}\n", fontsize=9, wrap=True)
    known = " · ".join(f"{name} {used[name]}" for name in ("feedd", "torch") if name in used)
    what = " · ".join(part for part in (record.get("source") or record["date"][:10], known) if part)
    figure.supxlabel(f"{where}\n{what}{state}", fontsize=7)
    for suffix in (".png", ".svg"):
        figure.savefig(path.with_suffix(suffix), dpi=130, metadata={"Date": None} if suffix == ".svg" else None)
    pyplot.close(figure)
    print(path.with_suffix(".png"), path.with_suffix(".svg"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=pathlib.Path,
                        help="JSON files (default: all under bench/results/torch-*)")
    paths = parser.parse_args().files or sorted(RESULTS.glob("torch-*/*.json"))
    if not paths:
        print(f"there is nothing to draw under {RESULTS}: run bench/torch/run.py first")
        return 1
    for path in paths:
        draw_record(json.loads(path.read_text(encoding="utf-8")), path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
