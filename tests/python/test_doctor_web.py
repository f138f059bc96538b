"""python -m feedd.doctor: chains of WebDataset's methods, and its pipelines. What becomes of each is served, or said."""

import numpy
import pictures
import pytest
import test_tar
from test_doctor import doctor, part, serve
from test_doctor_styles import shapes


@pytest.fixture
def shards(tmp_path):
    samples = [(f"{n:04}", {"jpg": data, "cls": str(n).encode()}) for n, data in enumerate(pictures.some(8))]
    test_tar.write(tmp_path / "s-0.tar", samples)
    return f"{tmp_path}/s-{{000..007}}.tar"


def web(shards, steps, loader="wds.WebLoader(dataset, batch_size=4)"):
    return f"""import webdataset as wds
from torchvision import transforms
crop = transforms.CenterCrop(24)
to = transforms.Compose([crop, transforms.ToTensor()])
dataset = wds.WebDataset("{shards}"){steps}
loader = {loader}
"""


@pytest.mark.parametrize(
    ("steps", "dtype", "shape", "most"),
    [
        ('.decode("pil").to_tuple("jpg;png", "cls").map_tuple(to, int)', "float32", (4, 3, 24, 24), 1),
        ('.shuffle(100).decode("rgb8").to_tuple("jpg", "cls").map_tuple(crop, None)', "uint8", (4, 24, 24, 3), 255),
        ('.decode("torchrgb").rename(label="cls", image="jpg;png").map_dict(image=crop).to_tuple("image", "label")', "float32",
         (4, 3, 24, 24), 1),
        ('.decode("pil").to_tuple("jpg", "cls").map_tuple(to, lambda x: x).with_epoch(500)', "float32", (4, 3, 24, 24), 1),
    ],
)  # fmt: skip
def test_images_of_shards_are_decoded(tmp_path, shards, steps, dtype, shape, most):
    status, output = doctor(tmp_path, web(shards, steps))
    assert status == 0, output
    assert "becomes the steps transform.FIELD of images" in part(output, "to know:"), output
    ((image, label),) = serve(output)
    assert image.dtype == dtype and image.shape == shape and most / 2 < image.max() <= most
    assert label.dtype == numpy.int64
    if "with_epoch" in steps:
        assert ".with_epoch(500) is left out" in output


@pytest.mark.parametrize(
    ("steps", "loader"),
    [
        ('.decode("pil").to_tuple("jpg", "cls").map_tuple(to).batched(4)', "wds.WebLoader(dataset, batch_size=None)"),
        ('.decode("pil").to_tuple("jpg", "cls").map_tuple(to).batched(2)',
         "wds.WebLoader(dataset, batch_size=None)\nloader = loader.unbatched().shuffle(100).batched(4)"),
    ],
)  # fmt: skip
def test_batches_of_shards(tmp_path, shards, steps, loader):
    status, output = doctor(tmp_path, web(shards, steps, loader))
    assert status == 0 and "batch_size=4" in part(output, "in the script:"), output
    assert ("shuffle=True" in part(output, "in the script:")) == ("shuffle" in loader)
    assert shapes(serve(output)) == [(4, 3, 24, 24), (4,)]


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ('.decode("pil").to_tuple("jpg", "cls")', "images of a batch must have one size: begin transform.jpg with a step"),
        ('.decode(mine).to_tuple("cls")', ".decode(mine) is code: feedd decodes images"),
        ('.map(change).to_tuple("cls")', ".map(change) is code that runs for each sample"),
        ('.decode("pil").to_tuple("jpg", "cls").map_tuple(augment)', "augment is code: process the field jpg in the loop"),
        ('.decode().to_tuple("json", "cls")', "json comes as the bytes of the file"),
        ('.select(good).to_tuple("cls")', ".select(good) is code that runs for each sample"),
        ('.to_tuple("__key__", "cls")', "__key__ is not a member of the shards"),
        ('.to_tuple(*names)', "*names does not show the names of members"),
        ('.to_tuple("cls").batched(4)', "the dataset makes batches of 4, and the loader batches of these"),
    ],
)  # fmt: skip
def test_steps_that_are_not_carried_over(tmp_path, shards, steps, said):
    status, output = doctor(tmp_path, web(shards, steps))
    assert status == 1 and said in part(output, "cannot be converted:"), output


# ---- DataPipeline --------------------------------------------------------------------------------------------------

STAGES = """wds.SimpleShardList("SHARDS"), wds.shuffle(100), wds.split_by_node, wds.split_by_worker,
    wds.tarfile_to_samples(handler=wds.warn_and_continue), wds.shuffle(1000), wds.decode("pil"),
    wds.rename(image="jpg;png", label="cls"), wds.map_dict(image=to), wds.to_tuple("image", "label"),
    wds.batched(4, partial=False)"""


def pipeline(shards, made, loader="wds.WebLoader(dataset, batch_size=None, num_workers=4)"):
    return web(shards, "", loader).replace(f'wds.WebDataset("{shards}")', made).replace("SHARDS", shards)


@pytest.mark.parametrize(
    ("made", "loader"),
    [
        (f"wds.DataPipeline({STAGES})", None),
        (f"wds.DataPipeline([{STAGES}])", None),
        (f"wds.DataPipeline({STAGES}).with_epoch(1000)", None),
        (f"wds.DataPipeline(*[{STAGES}])", "wds.WebLoader(dataset, batch_size=None).unbatched().shuffle(10).batched(4)"),
        (f"None\nstages = [{STAGES.replace('wds.decode', 'wds.filters.decode')}]\ndataset = wds.DataPipeline(*stages)", None),
        (f"None\nstages = [wds.ResampledShards('SHARDS')]\nstages.extend([{STAGES.partition(', ')[2]}])\n"
         "dataset = wds.DataPipeline(*stages)", None),
    ],
)  # fmt: skip
def test_a_pipeline(tmp_path, shards, made, loader):
    text = pipeline(shards, made, loader) if loader else pipeline(shards, made)
    status, output = doctor(tmp_path, text)
    assert status == 0, output
    call = part(output, "in the script:")
    assert "shuffle=True" in call and "batch_size=4" in call and ("drop_last=True" in call) == (loader is None), output
    notes = part(output, "to know:")
    assert "wds.split_by_node is left out: ranks are detected automatically" in notes
    assert ("ResampledShards is left out" in notes) == ("Resampled" in made)
    assert "handler= becomes on_error = skip" in notes and "on_error = skip" in part(output, "in feedd.conf:")
    assert shapes(serve(output)) == [(4, 3, 24, 24), (4,)]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ('wds.DataPipeline(wds.tarfile_to_samples(), wds.to_tuple("cls"))', "the pipeline does not show its shards"),
        ('wds.DataPipeline(wds.SimpleShardList("SHARDS"), wds.to_tuple("cls"), wds.map(change))',
         "wds.map(change) is code that runs for each sample"),
        ('wds.DataPipeline(wds.SimpleShardList("SHARDS"), change, wds.to_tuple("cls"))', "change is code that runs for each"),
        ('wds.DataPipeline(wds.SimpleShardList("SHARDS"), *mine)', "*mine does not show the stages of the pipeline"),
    ],
)  # fmt: skip
def test_stages_that_are_not_carried_over(tmp_path, shards, made, said):
    status, output = doctor(tmp_path, pipeline(shards, made, "wds.WebLoader(dataset, batch_size=4)"))
    assert status == 1 and said in part(output, "cannot be converted:"), output


def test_stages_that_depend_on_the_run(tmp_path, shards):
    """As in open_clip. The stages of the first case are shown, and said to be those of one case."""
    text = f"""import webdataset as wds
def data(args, is_train):
    stages = [wds.SimpleShardList("{shards}")]
    if is_train:
        stages.extend([wds.shuffle(100), wds.tarfile_to_samples()])
    else:
        stages.extend([wds.split_by_worker, wds.tarfile_to_samples()])
    stages.extend([wds.to_tuple("cls"), wds.batched(args.batch_size, partial=not is_train)])
    return wds.WebLoader(wds.DataPipeline(*stages), batch_size=None)
"""
    status, output = doctor(tmp_path, text)
    assert status == 1, output
    assert "line 9: which stages the pipeline has depends on the run: those if is_train are shown" in output
    assert "field.cls = i64 @ cls" in output and "shuffle=True, batch_size=args.batch_size" in output
