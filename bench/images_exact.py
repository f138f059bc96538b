"""Compares crops that feedd makes of photographs with Pillow's, byte by byte: images_exact.py SOCKET FOLDER COUNT. The dataset
`data` has the folder's files and delivers `random_resized_crop 224, flip 0.5`, with `decode fast` or without. Prints a line of
JSON: how many crops differ from full decode, crop and Pillow's resize, and by how many levels of 255."""

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


def difference(path, place, pixels):
    """The largest and the mean distance from what full decode, crop, Pillow's resize and flip give."""
    image = pictures.random_resized_crop(pictures.opened(path.read_bytes()), place, SIDE)
    wanted = numpy.frombuffer(pictures.hwc(pictures.flip(image, place)), numpy.uint8)
    distances = numpy.abs(wanted.astype(numpy.int16) - numpy.frombuffer(pixels, numpy.uint8))
    return int(distances.max()), float(distances.mean())


def main():
    socket, folder, count = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    paths = sorted(folder.iterdir())
    wrong, most, total, compared, epoch = [], 0, 0.0, 0, 0
    with concurrent.futures.ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(int, "1"))  # forks before there is a feed
        loader = feedd.DataLoader("data", BATCH, seed=SEED, socket=socket)
        while compared < count:
            position = 0
            for batch in loader:
                pixels = numpy.asarray(batch[0] if isinstance(batch, (tuple, list)) else batch)
                places = [(SEED, epoch, position + i) for i in range(len(pixels))]
                images = [image.tobytes() for image in pixels]
                for place, (maximum, mean) in zip(places, pool.map(difference, paths[position:], places, images, chunksize=8)):
                    wrong += [place] if maximum else []
                    most = max(most, maximum)
                    total += mean
                position += len(pixels)
                compared += len(pixels)
                if compared >= count:
                    break
            epoch += 1
        loader.close()
    result = {"crops": compared, "differ": len(wrong), "which": wrong[:10], "maximum": most, "mean": total / compared}
    print(json.dumps({**result, "pillow": PIL.__version__}))


if __name__ == "__main__":
    main()
