#!/usr/bin/env python3
"""Draws figures of encoded images: a PNG and an SVG beside each file of records under bench/results/images.

Such a file is what bench/run.py or bench/gpu/run.py wrote (bench.jsonl). Records that were taken from a table name it as their
source. Needs matplotlib, and nothing of the machine that was measured.
"""

import argparse
import json
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "torch"))

from draw import draw_record

QUESTIONS = {
    "image.decode": "JPEG files in memory: random crop resized to 224, flip, normalise, f16. How many images per CPU second?",
    "image.cached": "images decoded once and kept: random crop of 224, flip, uint8. How many images per CPU second?",
    "image.gpu": "the GPU's JPEG engine decodes, a kernel finishes: how close is it to the engine alone, and at what cost?",
}
KINDS = {"imagenet": "photographs of 500 x 375, 105 KB", "large": "photographs of 2000 x 1500, 410 KB"}
LIMITS = {
    "image.cached": "bare loop: copies of as many pixels, none mirrored",
    "image.gpu": "bare loop: the engine alone",
    "image.gpu.busy": "no loader",
    "bare loop": "bare loop of the same calls",
    "torchvision_pil": "torchvision on Pillow",
    "torchvision_native": "torchvision decodes to tensors",
    "webdataset": "WebDataset: from a tar archive, torchvision on Pillow",
    "ffcv_area": "FFCV's way, INTER_AREA",
    "ffcv_linear": "FFCV's way, INTER_LINEAR, not antialiased",
    "spdl": "SPDL",
    "dali": "DALI, CPU",
}
# Peers of image.gpu, which only decode or do everything that feedd does.
ON_GPU = {"nvimagecodec": "nvImageCodec", "torchvision": "torchvision, nvJPEG", "dali": "DALI, mixed", "spdl": "SPDL, nvJPEG"}
TITLES = {
    "image.cached": "from the cache",
    "image.gpu": "images that arrive",
    "image.gpu.cores": "cores that feedd takes meanwhile",
    "image.gpu.kernel": "the kernel that finishes a batch of 256",
    "image.gpu.busy": "kernels that fill the GPU in another process: time per kernel",
}
UNITS = {"images/core s": "images per CPU second"}


def limit_of(record):
    limit = record["params"].get("limit", record["name"])
    peer, _, part = limit.partition("_")
    if record["name"] == "image.gpu" and peer in ON_GPU:
        return ON_GPU[peer] + (": the same steps" if part else ": decodes only")
    return LIMITS[limit]


def measured_together(records):
    """Records with one value of feedd's: each has another limit."""
    runs = {}
    for record in records:
        of = {key: value for key, value in record["params"].items() if key != "limit"}
        runs.setdefault((record["name"], record["value"], json.dumps(of)), []).append(record)
    return list(runs.values())


def title(run):
    name, params = run[0]["name"], run[0]["params"]
    decode = f"decode {params['decode']}" if "decode" in params else None
    parts = [TITLES.get(name, KINDS.get(params.get("of"))), decode, run[0].get("note")]
    return ", ".join(part for part in parts if part)


def table(run):
    first = run[0]
    rows = [{"side": f"feedd: {role}", "value": cores} for role, cores in first.get("by_role", {}).items()]
    if not rows:
        rows = [{"side": "feedd", "value": first["value"]}]
        rows += [{"side": limit_of(record), "value": record["limit"]}
                 for record in run if record["limit"]]
    return {"title": title(run), "columns": {"side": "side", "value": UNITS.get(first["unit"], first["unit"])}, "rows": rows,
            "draw": {"kind": "bars", "x": ["side"], "y": "value"}}


def picture(records):
    """What draw.py draws, of the records of one run."""
    first = records[0]
    return {
        "experiment": first["name"],
        "question": QUESTIONS[first["name"]],
        "date": first["date"],
        "machine": first["machine"],
        "gpu": first.get("gpu"),
        "quick": "--quick" in first["command"].split(),
        "versions": {},
        "source": first.get("source"),
        "tables": [table(run) for run in measured_together(records)],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="records (default: all of bench/results/images)")
    for path in parser.parse_args().files or sorted((HERE / "results" / "images").glob("*.jsonl")):
        lines = path.read_text(encoding="utf-8").splitlines()
        records = [record for record in map(json.loads, lines) if record["name"].startswith(tuple(QUESTIONS))]
        if records:
            draw_record(picture(records), path)
        else:
            print(f"{path}: no figure of encoded images")
    return 0


if __name__ == "__main__":
    sys.exit(main())
