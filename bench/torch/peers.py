"""The same tar shards, read by WebDataset, Hugging Face datasets, LitData, torch's DataLoader over tarfile, and feedd."""

import glob
import importlib.util
import itertools
import os
import tarfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")

import feedd
import torch
from torch.utils.data import DataLoader, Dataset

from harness import BenchError, MIB, in_turn, median, rate, read_to_cache
from loaders import best_of, running
from shards import Shards

QUESTION = ("samples of 1 to 220 KB in tar shards, in random order: how fast do WebDataset, datasets, LitData, torch and feedd"
            " read them?")
BATCH = 64
LEAST, MOST = 1000, 220000
BUFFER = 1000  # samples that the streaming readers shuffle among
COUNTS = (0, 1, 2, 4)


def packed(samples):
    """What feedd delivers: the bytes of all samples, and where each begins."""
    offsets = torch.tensor([0, *itertools.accumulate(map(len, samples))])
    return torch.frombuffer(bytearray(b"".join(samples)), dtype=torch.uint8), offsets


def packed_rows(rows):
    return packed([row["bin"] for row in rows])


class Members(Dataset):
    """Any sample at random: tarfile finds out once where they lie."""

    def __init__(self, paths):
        self.files = [os.open(path, os.O_RDONLY) for path in paths]
        self.members = []
        for file, path in zip(self.files, paths):
            with tarfile.open(path) as archive:
                self.members += [(file, member.size, member.offset_data) for member in archive]

    def __len__(self):
        return len(self.members)

    def __getitem__(self, index):
        return os.pread(*self.members[index])


def torch_side(dataset):
    def make(workers):
        return DataLoader(dataset, BATCH, shuffle=True, num_workers=workers, collate_fn=packed,
                          persistent_workers=workers > 0)
    return make


def webdataset_side(shards):
    import webdataset

    def make(workers):
        source = webdataset.WebDataset(shards.paths, shardshuffle=len(shards.paths), seed=1, empty_check=False)
        source = source.shuffle(BUFFER).to_tuple("bin").map_tuple(bytes)
        source = source.batched(BATCH, collation_fn=lambda rows: packed([row[0] for row in rows]))
        return webdataset.WebLoader(source, batch_size=None, num_workers=workers, persistent_workers=workers > 0)
    return make


def load(shards, folder, streaming):
    import datasets
    return datasets.load_dataset("webdataset", data_files={"train": shards.paths}, split="train", streaming=streaming,
                                 cache_dir=folder, features=datasets.Features({
                                     "__key__": datasets.Value("string"), "__url__": datasets.Value("string"),
                                     "bin": datasets.Value("binary")}))


def streamed_side(shards, folder):
    def make(workers):
        source = load(shards, folder, True).shuffle(seed=1, buffer_size=BUFFER)
        return DataLoader(source, BATCH, num_workers=workers, collate_fn=packed_rows, persistent_workers=workers > 0)
    return make


def arrow_side(shards, folder):
    source = load(shards, folder, False).select_columns(["bin"])

    def make(workers):
        return DataLoader(source, BATCH, shuffle=True, num_workers=workers, collate_fn=packed_rows,
                          persistent_workers=workers > 0)
    return make


def litdata_side(members, folder):
    import litdata

    if not os.path.exists(os.path.join(folder, "index.json")):
        litdata.optimize(lambda index: {"bin": members[index]}, list(range(len(members))), folder, chunk_bytes="64MB",
                         num_workers=1, start_method="fork", verbose=False)

    def make(workers):
        source = litdata.StreamingDataset(folder, shuffle=True, seed=1)
        return litdata.StreamingDataLoader(source, batch_size=BATCH, num_workers=workers, collate_fn=packed_rows,
                                           persistent_workers=workers > 0)
    return make


def checked(side, loader, shards):
    """An epoch has every sample once."""
    samples = found = 0
    for values, offsets in loader:
        samples += len(offsets) - 1
        found += len(values)
    if (samples, found) != (shards.samples, shards.bytes):
        raise BenchError(f"{side}: an epoch has {samples} samples of {found} bytes, not {shards.samples} of {shards.bytes}")


def installed(report, name):
    """Whether it can be compared: nothing else of this tree needs it."""
    if importlib.util.find_spec(name):
        return True
    report.note(f"{name} is not installed and so not compared (pip install {name})")
    return False


def measure(setting, report):
    total = (128 if setting.quick else 512) * MIB
    shards = Shards(os.path.join(setting.data, f"peers-{total}"), 2 * total // (LEAST + MOST), LEAST, MOST)
    for path in shards.paths:
        read_to_cache(path)
    torch.set_num_threads(1)
    folder = os.path.join(setting.data, "peers-arrow")
    members = Members(shards.paths)
    sides = {"torch: pread where tarfile says": torch_side(members)}
    if installed(report, "webdataset"):
        sides["WebDataset: WebLoader"] = webdataset_side(shards)
    if installed(report, "datasets"):
        sides["datasets: streaming"] = streamed_side(shards, folder)
        sides["datasets: converted to Arrow"] = arrow_side(shards, folder)
    if installed(report, "litdata"):
        sides["LitData: converted to its chunks"] = litdata_side(members, f"{folder}-litdata-{total}")
    for path in filter(os.path.isfile, glob.glob(f"{folder}*/**", recursive=True)):
        read_to_cache(path)

    def speed(make, **chosen):
        with running(make(**chosen)) as batches:
            return rate(setting, batches, lambda batch: None, chosen.get("seconds", setting.seconds),
                        warm=2 * chosen.get("workers", 0) + 4) * BATCH

    jobs, settings = {}, {}
    for side, make in sides.items():
        checked(side, make(0), shards)
        settings[side], _ = best_of(side, [{"workers": count} for count in setting.counts(COUNTS)],
                                    lambda make=make, **chosen: speed(make, **chosen))
        jobs[side] = lambda make=make, chosen=settings[side]: speed(make, **chosen)
    dataset = {"format": "tar", "path": shards.pattern(), "field.bin": "bytes @ bin"}
    with setting.feedd({"shards": dataset}, loaders=setting.cores, index_folder=setting.data):
        with feedd.DataLoader("shards", BATCH, shuffle=True, ragged="pair") as loader:
            checked("feedd", (pair for (pair,) in loader), shards)
        jobs["feedd"] = lambda: speed(lambda: feedd.DataLoader("shards", BATCH, shuffle=True, ragged="pair"))
        results = in_turn(setting.rounds, jobs)
    ours = median(results["feedd"])
    rows = [{"side": side, "workers": settings.get(side, {}).get("workers", setting.cores), "rate": median(found),
             "gigabytes": median(found) * shards.mean / 1e9, "times": ours / median(found), "rounds": found}
            for side, found in results.items()]
    report.table(f"batches of {BATCH} samples, {shards.mean / 1000:.0f} KB on average, packed into one tensor with offsets:"
                 f" medians of {setting.rounds} rounds in turn",
                 {"side": "side", "workers": "workers or loaders", "rate": "samples/s", "gigabytes": "GB/s",
                  "times": "feedd is faster by"}, rows, draw={"kind": "bars", "x": ["side"], "y": "rate"})
    report.note(f"streaming readers shuffle shards, and {BUFFER} samples at a time; the others any sample of all")
    report.note("each row with the best number of workers of 0, 1, 2 and 4")
