"""python -m feedd.doctor: what it says about scripts, and that feedd takes what it says and delivers what the script would."""

import os
import re
import struct
import subprocess
import sys

import harness
import numpy
import pictures
import pytest
import support
import test_folder
import test_tar

import feedd

TORCH = "import numpy as np\nimport torch\nfrom torch.utils.data import *\nfrom torchvision import datasets, transforms\n"
NORMALISED = "mean 0.485 0.456 0.406, std 0.229 0.224 0.225"


def doctor(tmp_path, text):
    """Status, output; the lines of a script are counted without TORCH."""
    script = tmp_path / "script.py"
    script.write_text(text)
    command = [sys.executable, "-m", "feedd.doctor", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=support.environment())
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def part(output, title):
    """The lines below a title."""
    found = re.findall(rf"^  {title}\n((?:    .*\n?|\n)*)", output + "\n", re.MULTILINE)
    return "\n".join(found).replace("\n    ", "\n").strip()


def joined(output):
    """With the lines that continue another put behind it."""
    return output.replace(",\n        ", ", ")


# ---- What it says, served -------------------------------------------------------------------------------------


def serve(output, **names):
    """Runs what was said for a script: the fields of the first batch of each loader."""
    code = [line.strip() for line in part(output, "in the script:").splitlines() if line.strip()]
    sections = part(output, "in feedd.conf:")
    with feedd.serve(sections, program=harness.PROGRAMS / "feedd"):
        batches = []
        for line in code:
            options = {"feedd": feedd, "torch": None, **names}
            call = line[line.index("feedd.DataLoader(") :]  # of which what it is assigned to, if it is, is left out
            loader = eval(call.replace("DataLoader(", "DataLoader(framework='numpy', dataset="), options)
            with loader:
                batches.append([numpy.array(field) for field in next(iter(loader))])
        return batches


def test_a_folder_of_images(tmp_path):
    others = {"cat/notes.txt": b"not an image", "dog/list.csv": b""}  # which ImageFolder leaves out
    test_folder.write(tmp_path / "train", {**pictures.files(pictures.some(20), ending="JPG"), **others})
    text = f"""
import os
import torchvision.transforms as transforms
import torchvision.datasets as datasets
import torch
data = "{tmp_path}"
traindir = os.path.join(data, "train")
normalize = transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
train_dataset = datasets.ImageFolder(traindir, transforms.Compose([
    transforms.RandomResizedCrop(24, scale=(0.2, 1.0)), transforms.RandomHorizontalFlip(), transforms.ToTensor(), normalize]))
sampler = torch.utils.data.distributed.DistributedSampler(train_dataset, seed=3)
train_loader = torch.utils.data.DataLoader(
    train_dataset, batch_size=4, shuffle=(sampler is None), num_workers=8, pin_memory=True, sampler=sampler, drop_last=True)
"""
    status, output = doctor(tmp_path, text)
    assert status == 0 and "cannot" not in output
    steps = f"random_resized_crop 24 area 0.2 1, flip 0.5, scale 1/255, {NORMALISED}, layout chw"
    assert f"transform.image = {steps}" in joined(output)
    assert 'train_loader = feedd.DataLoader("train", batch_size=4, drop_last=True, shuffle=True, seed=3)' in output
    assert "line 13: num_workers= is left out" in output and "line 11: DistributedSampler is left out" in output
    ((image, label),) = serve(output)
    assert image.shape == (4, 3, 24, 24) and image.dtype == numpy.float32 and label.dtype == numpy.int64
    with feedd.serve(part(output, "in feedd.conf:"), program=harness.PROGRAMS / "feedd"):
        assert len(feedd.Dataset("train")) == 20


def test_mnist_and_a_split(tmp_path):
    raw = tmp_path / "FashionMNIST/raw"
    raw.mkdir(parents=True)
    (raw / "train-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, 50, 28, 28) + bytes(range(50)) * 784)
    (raw / "train-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, 50) + bytes(range(50)))
    text = f"""{TORCH}
steps = transforms.Compose([transforms.RandomCrop(28, padding=2), transforms.ToTensor(), transforms.Normalize((0.5,), (0.25,))])
whole = datasets.FashionMNIST(root="{tmp_path}", train=True, download=True, transform=steps)
train, val = random_split(whole, [40, 10], generator=torch.Generator().manual_seed(42))
train_loader = DataLoader(train, 8, True)
val_loader = DataLoader(val, batch_size=10)
"""
    status, output = doctor(tmp_path, text)
    assert status == 0, output
    assert 'train_loader = feedd.DataLoader("whole", split=(0, 0.8), split_seed=42, batch_size=8, shuffle=True)' in output
    assert 'val_loader = feedd.DataLoader("whole", split=(0.8, 1), split_seed=42, batch_size=10)' in output
    assert "in feedd.conf: [dataset whole], as above" in output
    assert "transform.image = random_crop 28 padding 2, scale 1/255, mean 0.5, std 0.25, layout chw" in output
    (train, val) = serve(output)
    assert [field.shape for field in train + val] == [(8, 1, 28, 28), (8,), (10, 1, 28, 28), (10,)]


def test_cifar(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    (folder / "data_batch_1.bin").write_bytes(b"".join(bytes([number]) + bytes([number * 10]) * 3072 for number in range(10)))
    head = f'{TORCH}from torchvision.datasets import CIFAR10\n'
    made = f'CIFAR10("{tmp_path}", transform=transforms.Compose([%stransforms.ToTensor()]))'
    status, output = doctor(tmp_path, f"{head}loader = DataLoader({made % ''}, batch_size=5)\n")
    assert status == 0, output
    ((image, label),) = serve(output)
    assert image.shape == (5, 3, 32, 32) and image[3, 0, 0, 0] == numpy.float32(30) * numpy.float32(1 / 255)
    assert label.tolist() == [0, 1, 2, 3, 4] and label.dtype == numpy.int64
    flipped = made % "transforms.RandomHorizontalFlip(), "
    status, output = doctor(tmp_path, f"{head}loader = DataLoader({flipped}, batch_size=5)\n")
    assert status == 1 and "line 6: steps on images need them encoded" in output


def test_arrays_in_files(tmp_path):
    numpy.save(tmp_path / "x.npy", numpy.arange(60, dtype=numpy.float32).reshape(20, 3))
    numpy.save(tmp_path / "y.npy", numpy.arange(20))
    text = f"""{TORCH}
x = torch.from_numpy(np.load("{tmp_path}/x.npy"))
y = torch.from_numpy(np.load("{tmp_path}/y.npy"))
weights = [1.0] * 10 + [3.0] * 10
some = Subset(TensorDataset(x, y), range(0, 20, 2))
by_weight = DataLoader(TensorDataset(x, y), batch_size=4, sampler=WeightedRandomSampler(weights, 40))
chosen = DataLoader(some, batch_sampler=BatchSampler(SequentialSampler(some), 5, False))
"""
    status, output = doctor(tmp_path, text)
    assert status == 0, output
    drawn, chosen = serve(output, weights=[1.0] * 10 + [3.0] * 10)
    assert drawn[0].shape == (4, 3) and chosen[1].tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("mapped", [False, True])
def test_a_class_over_arrays(tmp_path, mapped):
    rows = numpy.arange(60, dtype=numpy.float32).reshape(20, 3)
    numpy.save(tmp_path / "x.npy", rows)
    rows.tofile(tmp_path / "x.bin")
    made = 'np.load(path, mmap_mode="r")'
    if mapped:
        made = f'np.memmap("{tmp_path}/x.bin", dtype=np.float32, mode="r", shape=(20, 3))'
    text = f"""{TORCH}
class Rows(Dataset):
    def __init__(self, path):
        self.x = {made}
    def __len__(self):
        return len(self.x)
    def __getitem__(self, index):
        return torch.from_numpy(self.x[index].copy())
loader = DataLoader(Rows("{tmp_path}/x.npy"), batch_size=4)
"""
    status, output = doctor(tmp_path, text)
    assert status == 0, output
    assert (serve(output)[0][0] == rows[:4]).all()


def test_images_of_a_table(tmp_path):
    (tmp_path / "images").mkdir()
    for number, data in enumerate(pictures.some(8)):
        (tmp_path / f"images/{number}.jpg").write_bytes(data)
    rows = "".join(f"{number}.jpg,{number % 3}\n" for number in range(8))
    (tmp_path / "labels.csv").write_text(f"file,kind\n{rows}")
    text = f"""{TORCH}
import pandas as pd
from PIL import Image
class Pictures(Dataset):
    def __init__(self, table, root, transform=None):
        self.table, self.transform = pd.read_csv(table), transform
        self.root = root
    def __getitem__(self, i):
        row = self.table.iloc[i]
        image = Image.open(os.path.join(self.root, row["file"])).convert("RGB")
        if self.transform:
            image = self.transform(image)
        return image, row["kind"]
steps = transforms.Compose([transforms.Resize((24, 24)), transforms.ToTensor()])
loader = DataLoader(Pictures("{tmp_path}/labels.csv", "{tmp_path}/images", transform=steps), batch_size=4)
"""
    status, output = doctor(tmp_path, text.replace("import pandas", "import os, pandas"))
    assert status == 0 and "field.kind = TYPE" in output, output
    ((image, kind),) = serve(output.replace("TYPE", "i64"))
    assert image.shape == (4, 3, 24, 24) and kind.tolist() == [0, 1, 2, 0]


def test_tokens(tmp_path):
    numpy.arange(1000, dtype=numpy.uint16).tofile(tmp_path / "train.bin")
    text = f"""{TORCH}
class Tokens(Dataset):
    def __init__(self, path, block_size=16):
        self.data = np.memmap(path, dtype=np.uint16, mode="r")
        self.block_size = block_size
    def __len__(self):
        return (len(self.data) - 1) // self.block_size
    def __getitem__(self, i):
        chunk = self.data[i * self.block_size : (i + 1) * self.block_size + 1]
        x = torch.from_numpy(chunk.astype(np.int64))
        return x[:-1], x[1:]
loader = DataLoader(Tokens("{tmp_path}/train.bin"), batch_size=2, num_workers=4)
"""
    status, output = doctor(tmp_path, text)
    assert status == 0, output
    assert (serve(output)[0][0] == numpy.arange(17) + [[0], [16]]).all()


def test_webdataset(tmp_path):
    samples = [(f"{n:04}", {"txt": b"text" * (n % 3 + 1), "cls": str(n).encode()}) for n in range(10)]
    test_tar.write(tmp_path / "s-0.tar", samples)
    text = f"""
import webdataset as wds
dataset = wds.WebDataset("{tmp_path}/s-{{0..0}}.tar").shuffle(1000).to_tuple("txt", "cls")
loader = wds.WebLoader(dataset, batch_size=5)
"""
    status, output = doctor(tmp_path, text)
    assert status == 0, output
    assert f"path = {tmp_path}/s-*.tar" in output and "with shuffle_window = 16, 16 shards at a time" in output
    assert "shuffle=True" in output
    assert 'field.txt = bytes @ txt\n    field.cls = i64 @ cls' in output


# ---- What cannot be converted ---------------------------------------------------------------------------------


def loader_of(dataset="datasets.MNIST('d')", options="batch_size=4"):
    return f"{TORCH}loader = DataLoader({dataset}, {options})\n"


@pytest.mark.parametrize(
    ("options", "line", "said"),
    [
        ("batch_size=4, collate_fn=lambda batch: batch", 5, "collate_fn=lambda batch: batch is code"),
        ("batch_size=4, collate_fn=pad_all", 5, 'ragged="padded" pads each batch'),
        ("batch_size=4, sampler=Mine()", 5, "the sampler Mine has no counterpart"),
        ("batch_sampler=by_length(3)", 5, "batch_sampler=by_length(3) is code"),
        ("batch_size=None", 5, "batch_size=None gives single samples"),
        ("batch_size=4, sampler=RandomSampler(d, replacement=True)", 5, "RandomSampler with replacement"),
        ("batch_size=4, sampler=WeightedRandomSampler(w, 3, replacement=False)", 5, "without replacement has no counterpart"),
        ("**options", 5, "arguments that are passed on with ** are not known"),
    ],
)
def test_arguments_that_are_code(tmp_path, options, line, said):
    status, output = doctor(tmp_path, loader_of(options=options))
    assert status == 1 and f"line {line}: " in part(output, "cannot be converted:") and said in output, output


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        ("datasets.ImageFolder('d', transforms.Resize(256))", "images of a batch must have one size"),
        ("datasets.ImageFolder('d', transforms.Compose([transforms.Resize((8, 8)), transforms.GaussianBlur(3)]))",
         "the transform transforms.GaussianBlur(3) has no counterpart"),
        ("datasets.ImageFolder('d', transforms.Compose([transforms.Lambda(f), transforms.RandomCrop(8)]))", "Lambda(f)"),
        ("datasets.ImageFolder('d', transforms.RandomCrop(8, padding=1, padding_mode='reflect'))", "argument padding_mode="),
        ("datasets.ImageFolder('d', transforms.CenterCrop(size))", "size=size is not a constant"),
        ("datasets.ImageFolder('d', loader=mine)", "loader= is code"),
        ("datasets.VOCSegmentation('d')", "the dataset datasets.VOCSegmentation is not known here"),
        (f"datasets.ImageFolder('{'d' * 8192}', transforms.CenterCrop(8))", "feedd.conf takes lines of at most 8192 bytes"),
        ("make_dataset()", "the dataset make_dataset is not known"),
        ("made_elsewhere", "the script does not show what made_elsewhere is"),
    ],
)  # fmt: skip
def test_datasets_that_are_code(tmp_path, dataset, said):
    status, output = doctor(tmp_path, loader_of(dataset))
    assert status == 1 and said in part(output, "cannot be converted:"), output


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("class D(IterableDataset):\n    def __iter__(self):\n        yield 1", "line 5: D is an IterableDataset"),
        ("class D(Dataset):\n    def __getitem__(self, i):\n        return read(i)", "line 5: D makes its samples with code"),
        ("class D(datasets.ImageFolder):\n    pass", "line 5: D has no __getitem__ here"),
        ("class D(Dataset):\n    def __init__(self):\n        self.x = np.load('/x.npy')\n    def __getitem__(self, i):\n"
         "        return tokenize(self.x[i])", "line 9: D.__getitem__ calls tokenize(self.x[i])"),
    ],
)  # fmt: skip
def test_classes_that_are_code(tmp_path, body, said):
    status, output = doctor(tmp_path, f"{TORCH}{body}\nloader = DataLoader(D(), batch_size=4)\n")
    assert status == 1 and said in output, output


# ---- What is to be filled in ----------------------------------------------------------------------------------


def test_what_only_the_program_knows(tmp_path):
    text = f"""{TORCH}from datasets import load_dataset
x = torch.randn(100, 3)
both = ConcatDataset([TensorDataset(x), datasets.MNIST("d", transform=transforms.ToTensor())])
one = DataLoader(both, batch_size=4)
two = DataLoader(load_dataset("imdb", split="train"), batch_size=4)
three = DataLoader(load_dataset("parquet", data_files="/d/*.parquet"), batch_size=4)
n = len(x) // 2
left, right = random_split(TensorDataset(x), [n, len(x) - n])
four = DataLoader(left, batch_size=4)
n = int(len(x) * 0.8)
left, right = random_split(TensorDataset(x), [n, len(x) - n])
five = DataLoader(right, batch_size=4)
"""
    status, output = doctor(tmp_path, text)
    assert status == 0, output
    assert "[mix both]\n    source.both-1 = SAMPLES\n    source.both-2 = SAMPLES\n    epoch_samples = SUM" in output
    assert 'numpy.save("/PATH/x.npy", x)' in output
    assert """load_dataset('imdb', split='train').save_to_disk("/PATH")""" in output
    assert "format = parquet\n    path = /d/*.parquet" in output
    assert 'make random_split() of feedd.Dataset("left") instead of TensorDataset(x)' in output
    assert "four = feedd.DataLoader(left, batch_size=4)" in output
    assert 'five = feedd.DataLoader("right", split=(0.8, 1), split_seed=0, batch_size=4)' in output


STEPS = """transforms.Compose([
    transforms.v2.ToImage(), transforms.v2.Resize((40, 50), interpolation=transforms.InterpolationMode.BICUBIC),
    transforms.v2.CenterCrop((32, 24)), transforms.v2.RandomVerticalFlip(0.25), transforms.v2.ColorJitter(0.4),
    transforms.v2.RandAugment(3, 7), transforms.v2.ToDtype(torch.float16, scale=True),
    transforms.v2.Normalize([0.5], [0.2]), transforms.v2.RandomErasing(p=0.2)])"""


def test_every_kind_of_step(tmp_path):
    test_folder.write(tmp_path / "train", pictures.files(pictures.some(8), ending="jpg"))
    status, output = doctor(tmp_path, loader_of(f"datasets.ImageFolder('{tmp_path}/train', {STEPS})"))
    assert status == 0, output
    assert (
        "transform.image = resize 40 50 bicubic, center_crop 32 24, vertical_flip 0.25, brightness 0.4,"
        " rand_augment 3 7, erase 0.2 fill 128, scale 1/255, mean 0.5, std 0.2, layout chw, cast f16"
    ) in joined(output)
    ((image, _),) = serve(output)
    assert image.shape == (4, 3, 32, 24) and image.dtype == numpy.float16


def test_a_long_list_of_steps(tmp_path):
    """It has more steps than anybody wants on one line, and is served as it is printed."""
    test_folder.write(tmp_path / "train", pictures.files(pictures.some(8), ending="jpg"))
    steps = "".join(f"transforms.v2.Pad({1 + n % 2}), transforms.v2.RandomHorizontalFlip(0.{n + 1}25), " for n in range(7))
    steps = f"transforms.Compose([transforms.RandomResizedCrop(24), {steps}transforms.ToTensor()])"
    status, output = doctor(tmp_path, loader_of(f"datasets.ImageFolder('{tmp_path}/train', {steps})"))
    assert status == 0, output
    lines = part(output, "in feedd.conf:").splitlines()
    continued = [line for line in lines if line.startswith("    ")]
    assert continued and max(map(len, lines)) <= 120, output
    assert continued[-1].endswith("layout chw") and "flip 0.125, pad 2, flip 0.225" in joined(output), output
    ((image, _),) = serve(output)
    assert image.shape == (4, 3, 24 + 2 * (4 * 1 + 3 * 2), 24 + 2 * (4 * 1 + 3 * 2))


def test_a_name_that_is_given_again(tmp_path):
    text = f"""{TORCH}
data = datasets.MNIST("d", transform=transforms.ToTensor())
data = Subset(
    data, range(10))
loader = DataLoader(data, batch_size=4)
def circular(steps):
    return transforms.Compose([circular(steps)])
circle = DataLoader(datasets.ImageFolder("d", circular([])), batch_size=4)
"""
    status, output = doctor(tmp_path, text)
    assert 'loader = feedd.DataLoader("data", indices=range(10), batch_size=4)' in output
    assert status == 1 and "line 11: the transform circular(steps) has no counterpart" in output


def test_nothing_is_run(tmp_path):
    mark = tmp_path / "mark"
    doctor(tmp_path, f"open({str(mark)!r}, 'w')\n" + loader_of())
    assert not mark.exists() and os.path.exists(tmp_path / "script.py")
