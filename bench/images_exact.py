"""Compares crops that feedd makes of photographs with Pillow's, byte by byte: images_exact.py SOCKET FOLDER COUNT. The dataset
`data` has the folder's files and delivers `random_resized_crop 224, flip 0.5`. Prints a line of JSON."""

import concurrent.futures
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests/integration"))

import feedd  # noqa: E402
import numpy  # noqa: E402
import PIL  # noqa: E402
import pictures  # noqa: E402  the random numbers and the steps a second time

SIDE, BATCH, SEED = 224, 64, 11


def differs(path, place, pixels):
    """Whether full decode, crop, Pillow's resize and flip give other pixels."""
    image = pictures.random_resized_crop(pictures.opened(path.read_bytes()), place, SIDE)
    return pictures.hwc(pictures.flip(image, place)) != pixels


def main():
    socket, folder, count = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    paths = sorted(folder.iterdir())
    wrong, compared, epoch = [], 0, 0
    with concurrent.futures.ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(int, "1"))  # forks before there is a feed
        loader = feedd.DataLoader("data", BATCH, seed=SEED, socket=socket)
        while compared < count:
            position = 0
            for batch in loader:
                pixels = numpy.asarray(batch[0] if isinstance(batch, (tuple, list)) else batch)
                places = [(SEED, epoch, position + i) for i in range(len(pixels))]
                found = pool.map(differs, paths[position:], places, [image.tobytes() for image in pixels], chunksize=8)
                wrong += [place for place, other in zip(places, found) if other]
                position += len(pixels)
                compared += len(pixels)
                if compared >= count:
                    break
            epoch += 1
        loader.close()
    print(json.dumps({"crops": compared, "differ": len(wrong), "which": wrong[:10], "pillow": PIL.__version__}))


if __name__ == "__main__":
    main()
