"""python -m feedd.doctor: scripts in the styles of PyTorch's examples, torchvision's reference, DeiT, Lightning and Hugging
Face. What it says is served."""

import pictures
import pytest
import test_folder
from test_doctor import TORCH, doctor, joined, part, serve

STEPS = "scale 1/255, mean 0.485 0.456 0.406, std 0.229 0.224 0.225, layout chw"
NORMALIZE = "transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])"


@pytest.fixture
def photos(tmp_path):
    for name in ("train", "val"):
        test_folder.write(tmp_path / name, pictures.files(pictures.some(8), ending="jpg"))
    return tmp_path


def shapes(batches):
    return [tuple(field.shape) for fields in batches for field in fields]


# ---- PyTorch's examples --------------------------------------------------------------------------------------------

IMAGENET = f"""{TORCH}
import argparse
import os
import torch.distributed as dist
parser = argparse.ArgumentParser()
parser.add_argument("data", nargs="?", default="DATA")
parser.add_argument("-b", "--batch-size", default=4, type=int)
parser.add_argument("--world-size", default=-1, type=int)
parser.add_argument("--dummy", action="store_true")

def main():
    args = parser.parse_args()
    args.distributed = args.world_size > 1
    if args.distributed:
        torch.multiprocessing.spawn(main_worker, nprocs=8, args=(8, args))
    else:
        main_worker(0, 8, args)

def main_worker(gpu, ngpus_per_node, args):
    if args.distributed:
        dist.init_process_group(backend="nccl")
    if args.dummy:
        train_dataset = datasets.FakeData(1281167, (3, 224, 224), 1000, transforms.ToTensor())
        val_dataset = datasets.FakeData(50000, (3, 224, 224), 1000, transforms.ToTensor())
    else:
        traindir = os.path.join(args.data, "train")
        normalize = {NORMALIZE}
        train_dataset = datasets.ImageFolder(
            traindir, transforms.Compose([transforms.RandomResizedCrop(24), transforms.ToTensor(), normalize]))
        val_dataset = datasets.ImageFolder(
            os.path.join(args.data, "val"),
            transforms.Compose([transforms.Resize(32), transforms.CenterCrop(28), transforms.ToTensor(), normalize]))
    if args.distributed:
        train_sampler = torch.utils.data.distributed.DistributedSampler(train_dataset)
        val_sampler = torch.utils.data.distributed.DistributedSampler(val_dataset, shuffle=False, drop_last=True)
    else:
        train_sampler = None
        val_sampler = None
    train_loader = torch.utils.data.DataLoader(
        train_dataset, batch_size=args.batch_size, shuffle=(train_sampler is None), num_workers=4, sampler=train_sampler)
    val_loader = torch.utils.data.DataLoader(val_dataset, batch_size=args.batch_size, shuffle=False, sampler=val_sampler)
    for epoch in range(9):
        if args.distributed:
            train_sampler.set_epoch(epoch)

if __name__ == "__main__":
    main()
"""


class Arguments:
    batch_size = 4


def test_imagenet(photos):
    status, output = doctor(photos, IMAGENET.replace("DATA", str(photos)))
    assert status == 0, output
    assert 'train_loader = feedd.DataLoader("train", batch_size=args.batch_size, shuffle=True)\n' in output
    assert 'val_loader = feedd.DataLoader("val", batch_size=args.batch_size)\n' in output
    assert f"args.data is taken as '{photos}', the default of the command line" in output
    assert "args.dummy is taken as False, the default of the command line" in output
    line = next(number for number, one in enumerate(IMAGENET.splitlines(), 1) if "set_epoch" in one)
    assert f"set_epoch() is not needed either: remove it in line {line}" in output
    assert shapes(serve(output, args=Arguments)) == [(4, 3, 24, 24), (4,), (4, 3, 28, 28), (4,)]
    text = IMAGENET.replace(', nargs="?", default="DATA"', "")
    status, output = doctor(photos, text)
    assert status == 0 and "path = PATH/train" in output and "path = PATH/val" in output, output
    assert output.count(": replace PATH with the value of args.data") == 2


def test_mnist(tmp_path):
    """Arguments in dictionaries, of which one has more if there is a GPU."""
    text = f"""{TORCH}
def main():
    use_cuda = torch.cuda.is_available()
    train_kwargs, test_kwargs = {{"batch_size": 64}}, {{"batch_size": 1000}}
    if use_cuda:
        cuda_kwargs = {{"num_workers": 1, "pin_memory": True, "shuffle": True}}
        train_kwargs.update(cuda_kwargs)
    dataset1 = datasets.MNIST("../data", train=True, transform=transforms.ToTensor())
    train_loader = DataLoader(dataset1, **train_kwargs)
    test_loader = DataLoader(datasets.MNIST("/d", train=False), **test_kwargs)
main()
"""
    status, output = doctor(tmp_path, text)
    assert status == 0 and 'feedd.DataLoader("dataset1", batch_size=64, shuffle=True)' in output, output
    assert "line 13: shuffle=True only if use_cuda; else the script does not give it" in output
    assert 'feedd.DataLoader("test", batch_size=1000)' in output
    assert "line 12: ../data is a relative path, which starts at the folder of feedd.conf" in output


def test_transfer_learning(photos):
    text = f"""{TORCH}
import os
data_transforms = {{
    "train": transforms.Compose([transforms.RandomResizedCrop(24), transforms.ToTensor(), {NORMALIZE}]),
    "val": transforms.Compose([transforms.Resize(32), transforms.CenterCrop(28), transforms.ToTensor(), {NORMALIZE}]),
}}
data_dir = "{photos}"
sets = {{x: datasets.ImageFolder(os.path.join(data_dir, x), data_transforms[x]) for x in ["train", "val"]}}
loaders = {{x: torch.utils.data.DataLoader(sets[x], batch_size=4, shuffle=x == "train") for x in ["train", "val"]}}
"""
    status, output = doctor(photos, text)
    assert status == 0 and "(for x = 'train')" in output and "(for x = 'val')" in output, output
    assert shapes(serve(output, x="train")) == [(4, 3, 24, 24), (4,), (4, 3, 28, 28), (4,)]


@pytest.mark.parametrize(
    "loaders",
    [
        '{k: DataLoader(d, batch_size=4, shuffle=k == "train") for k, d in {"train": one, "val": two}.items()}',
        '[DataLoader(d, batch_size=4, shuffle=s) for d, s in [(one, True), (two, False)]]',
        '[DataLoader(d, batch_size=4, shuffle=d is one) for d in (one, two)]',
        '[DataLoader(d, batch_size=4, shuffle=False) for d in {"train": one, "val": two}.values()]',
    ],
)  # fmt: skip
def test_comprehensions_over_datasets(photos, loaders):
    """Both parts are of one dataset, which is declared once."""
    text = f"""{TORCH}
steps = transforms.Compose([transforms.CenterCrop(24), transforms.ToTensor()])
one, two = random_split(datasets.ImageFolder("{photos}/train", steps), [0.75, 0.25])
loaders = {loaders}
"""
    status, output = doctor(photos, text)
    assert status == 0 and output.count("feedd.DataLoader(") == 2, output
    assert ('(for k = "train")' if "k ==" in loaders else "(for d = one)").replace('"', "'") in output
    assert ("split=(0, 0.75)" in output) and ("split=(0.75, 1)" in output)
    assert shapes(serve(output, d=None, one=1)) == [(4, 3, 24, 24), (4,), (2, 3, 24, 24), (2,)]


# ---- torchvision's reference, DeiT ---------------------------------------------------------------------------------

PRESET = f"""{TORCH}
import argparse, os
class PresetTrain:
    def __init__(self, *, crop_size, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), hflip_prob=0.5, policy=None,
                 random_erase_prob=0.0):
        trans = [transforms.RandomResizedCrop(crop_size)]
        if hflip_prob > 0:
            trans.append(transforms.RandomHorizontalFlip(hflip_prob))
        if policy is not None:
            trans.append(transforms.RandAugment())
        trans.extend([transforms.PILToTensor(), transforms.ConvertImageDtype(torch.float), transforms.Normalize(mean, std)])
        if random_erase_prob > 0:
            trans.append(transforms.RandomErasing(p=random_erase_prob))
        self.transforms = transforms.Compose(trans)
    def __call__(self, img):
        return self.transforms(img)

def load_data(traindir, args):
    dataset = datasets.ImageFolder(
        traindir, PresetTrain(crop_size=args.crop_size, policy=getattr(args, "auto_augment", None), random_erase_prob=0.1))
    if args.distributed:
        train_sampler = torch.utils.data.distributed.DistributedSampler(dataset)
    else:
        train_sampler = torch.utils.data.RandomSampler(dataset)
    return dataset, train_sampler

def main(args):
    utils.init_distributed_mode(args)
    dataset, train_sampler = load_data(os.path.join(args.data_path, "train"), args)
    data_loader = DataLoader(dataset, batch_size=4, sampler=train_sampler, pin_memory=True)

def get_args_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-path", default="DATA", type=str)
    parser.add_argument("--crop-size", default=24, type=int)
    parser.add_argument("--auto-augment", default=None, type=str)
    return parser

if __name__ == "__main__":
    main(get_args_parser().parse_args())
"""


def test_presets(photos):
    status, output = doctor(photos, PRESET.replace("DATA", str(photos)))
    assert status == 0, output
    assert f"transform.image = random_resized_crop 24, flip 0.5, erase 0.1 fill 124 116 104, {STEPS}" in joined(output)
    assert "args.auto_augment is taken as None, the default of the command line" in output
    assert 'data_loader = feedd.DataLoader("data", batch_size=4, shuffle=True)\n' in output
    assert shapes(serve(output)) == [(4, 3, 24, 24), (4,)]
    changed = PRESET.replace('    parser.add_argument("--auto-augment", default=None, type=str)\n', "")
    status, output = doctor(photos, changed.replace("DATA", str(photos)))
    assert status == 1 and "which transforms apply depends on the run" in output, output


def test_functions_that_build_datasets(photos):
    text = f"""{TORCH}
import os, utils
def build_dataset(is_train, args):
    transform = build_transform(is_train, args)
    root = os.path.join("{photos}", "train" if is_train else "val")
    return datasets.ImageFolder(root, transform=transform), 1000

def build_transform(is_train, args):
    if is_train:
        return transforms.Compose([transforms.RandomResizedCrop(24), transforms.ToTensor()])
    t = []
    if 28 > 26:
        t.append(transforms.Resize(int(28 / 0.875), interpolation=transforms.InterpolationMode.BICUBIC))
        t.append(transforms.CenterCrop(28))
    t.append(transforms.ToTensor())
    return transforms.Compose(t)

def main(args):
    dataset_train, args.nb_classes = build_dataset(is_train=True, args=args)
    dataset_val, _ = build_dataset(is_train=False, args=args)
    num_tasks, global_rank = utils.get_world_size(), utils.get_rank()
    sampler_train = torch.utils.data.DistributedSampler(dataset_train, num_replicas=num_tasks, rank=global_rank, shuffle=True)
    if args.dist_eval:
        sampler_val = torch.utils.data.DistributedSampler(dataset_val, num_replicas=num_tasks, rank=global_rank, shuffle=False)
    else:
        sampler_val = torch.utils.data.SequentialSampler(dataset_val)
    data_loader_train = DataLoader(dataset_train, sampler=sampler_train, batch_size=4, drop_last=True)
    data_loader_val = DataLoader(dataset_val, sampler=sampler_val, batch_size=int(1.5 * 4))
"""

    class Choice:
        dist_eval = False

    status, output = doctor(photos, text)
    assert status == 0, output
    assert "transform.image = random_resized_crop 24, scale 1/255, layout chw" in output
    assert "transform.image = resize 32 bicubic, center_crop 28, scale 1/255, layout chw" in output
    assert "shuffle=True, rank=global_rank, world_size=num_tasks" in output
    assert "rank=global_rank if args.dist_eval else 0, world_size=num_tasks if args.dist_eval else 1" in output
    batches = serve(output, args=Choice, global_rank=0, num_tasks=1)
    assert shapes(batches) == [(4, 3, 24, 24), (4,), (6, 3, 28, 28), (6,)]


# ---- Lightning, Hugging Face ---------------------------------------------------------------------------------------


def test_a_data_module(photos):
    text = f"""{TORCH}
import lightning as L
class Photos(L.LightningDataModule):
    def __init__(self, data_dir: str = "{photos}", batch_size: int = 31):
        super().__init__()
        self.data_dir = data_dir
        self.batch_size = batch_size
        self.transform = transforms.Compose([transforms.CenterCrop(24), transforms.ToTensor()])
        self.train = None
    def setup(self, stage=None):
        if stage == "fit" or stage is None:
            whole = datasets.ImageFolder(self.data_dir + "/train", self.transform)
            self.train, self.val = random_split(whole, [0.75, 0.25], generator=torch.Generator().manual_seed(42))
    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.batch_size, shuffle=True)
    def val_dataloader(self):
        return DataLoader(self.val, batch_size=self.batch_size)
L.Trainer().fit(model, datamodule=Photos(batch_size=4))
"""
    status, output = doctor(photos, text)
    assert status == 0, output
    assert 'feedd.DataLoader("whole", split=(0, 0.75), split_seed=42, batch_size=self.batch_size, shuffle=True)' in output
    assert 'feedd.DataLoader("whole", split=(0.75, 1), split_seed=42, batch_size=self.batch_size)' in output
    assert "rank=" not in output

    class Module:
        batch_size = 4

    assert shapes(serve(output, self=Module)) == [(4, 3, 24, 24), (4,), (2, 3, 24, 24), (2,)]


def test_hugging_face(tmp_path):
    text = """from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import default_data_collator
raw = load_dataset("glue", "mrpc")
def tokenize(examples):
    return tokenizer(examples["sentence1"])
tokenized = raw.map(tokenize, batched=True)
tokenized = tokenized.rename_column("label", "labels").with_format("torch")
train_loader = DataLoader(tokenized["train"].shuffle(seed=3), collate_fn=default_data_collator, batch_size=8)
eval_loader = DataLoader(raw["validation"], batch_size=8)
"""
    status, output = doctor(tmp_path, text)
    refused = part(output, "cannot be converted:")
    said = "line 7: .map(tokenize) computes new columns: save what it gives with save_to_disk(), and serve that"
    assert status == 1 and refused == said, output
    assert "path = /PATH/train/*.arrow" in output and "path = /PATH/validation/*.arrow" in output
    assert ".rename_column('label', 'labels') is left out" in output and ".with_format() is left out" in output
    assert "shuffle=True, seed=3" in output and output.count("as_dict=True") == 2


def test_who_makes_loaders_instead(tmp_path):
    text = "from transformers import Trainer\ntrainer = Trainer(model, train_dataset=data)\n"
    status, output = doctor(tmp_path, text)
    assert status == 2 and "line 2 makes a Trainer, which makes its own loaders: docs/frameworks.md" in output
    status, output = doctor(tmp_path, "from timm.data import create_loader\nloader = create_loader(data, 224, 64)\n")
    assert status == 2 and "line 2 asks timm for one" in output


# ---- Paths, and classes of a script --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "shown", "said"),
    [
        ('os.path.join(args.data, "train")', "PATH/train", "replace PATH with the value of args.data"),
        ('os.path.join("/d", args.name, "train")', "PATH",
         "replace PATH with the value of os.path.join('/d', args.name, 'train')"),
        ('Path(root()) / "train"', "PATH/train", "replace PATH with the value of root()"),
        ('os.environ["DATA"]', "PATH", "replace PATH with the value of os.environ['DATA']"),
        ('"/a" if local else "/b"', "PATH", "replace PATH with the value of '/a' (if local) or '/b' (unless local)"),
        ('f"/data/{name}/train"', "PATH", "replace PATH with the value of f'/data/{name}/train'"),
    ],
)
def test_what_path_stands_for(tmp_path, path, shown, said):
    text = f"""{TORCH}import os; from pathlib import Path
where = {path}
loader = DataLoader(datasets.ImageFolder(where, transforms.CenterCrop(8)), 4)
"""
    status, output = doctor(tmp_path, text)
    assert status == 0 and f"path = {shown}\n" in output and f"line 7: {said}" in part(output, "to know:"), output


def test_a_class_with_transforms_of_its_own(tmp_path):
    for name in ("train", "val"):
        test_folder.write(tmp_path / name, {f"{n}.jpg": data for n, data in enumerate(pictures.some(8))})
        (tmp_path / f"{name}.csv").write_text("file,kind\n" + "".join(f"{n}.jpg,{n}\n" for n in range(8)))
    text = f"""{TORCH}
import pandas as pd
from PIL import Image
class Pictures(Dataset):
    def __init__(self, root, split, train=False):
        self.table = pd.read_csv(f"{{root}}/{{split}}.csv")
        self.folder = os.path.join(root, split)
        crop = transforms.RandomCrop(16) if train else transforms.CenterCrop(24)
        self.steps = transforms.Compose([crop, transforms.ToTensor()])
    def __getitem__(self, i):
        row = self.table.iloc[i]
        image = self.steps(Image.open(os.path.join(self.folder, row["file"])).convert("RGB"))
        return {{"image": image, "kind": row["kind"]}}
train_loader = DataLoader(Pictures("{tmp_path}", "train", train=True), batch_size=4)
val_loader = DataLoader(Pictures("{tmp_path}", "val"), batch_size=4)
"""
    status, output = doctor(tmp_path, text.replace("import pandas", "import os\nimport pandas"))
    assert status == 0 and output.count("as_dict=True") == 4, output
    output = output.replace(" = TYPE", " = i64").replace("as_dict=True, ", "")
    assert shapes(serve(output)) == [(4, 3, 16, 16), (4,), (4, 3, 24, 24), (4,)]


def test_conditions_that_depend_on_themselves(tmp_path):
    """In loops, and through functions that call each other: nothing is followed without an end."""
    text = f"""{TORCH}
def one(n, steps=None):
    if n > 3 and one(n - 1):
        return two(n)
    return DataLoader(two(n), 4)
def two(n):
    if one(n):
        n = two(n - 1)
    return n
while left:
    if left > last:
        last = left
        left = left - 1
    if last:
        left = last
    loader = DataLoader(datasets.ImageFolder(left, transforms.CenterCrop(8)), last)
"""
    status, output = doctor(tmp_path, text)
    assert status == 1 and "line 9: which dataset it is depends on the run" in output, output
    assert "line 20: what it is made of refers to itself, or is nested too deeply" in output, output
