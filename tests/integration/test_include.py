"""`include`: datasets in files of their own, in the order of their names; messages name the file that a line is in."""

import os

import consumer
import harness

DATASET = "[dataset {name}]\nformat = records\npath = {path}\nrecord_bytes = 16\nfield.x = u8[16] @ 0\n"


def include(instance, pattern="datasets.d/*.conf", **files):
    """Writes feedd.conf with a pattern, and these files into datasets.d."""
    instance.write_config(f"[feedd]\nsocket = {instance.socket}\ninclude = {pattern}\n")
    folder = instance.directory / "datasets.d"
    folder.mkdir(exist_ok=True)
    (instance.directory / "numbers.bin").write_bytes(bytes(16 * 100))
    for name, text in files.items():
        (folder / f"{name}.conf").write_text(text, encoding="ascii")
    return folder


def refuse(instance, *parts, status=os.EX_CONFIG):
    done = instance.check()
    assert done.returncode == status and not done.stdout, done
    assert all(str(part) in done.stderr for part in parts), f"not {parts} in {done.stderr!r}"
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_files_come_in_the_order_of_their_names():
    with harness.Instance() as instance:
        texts = {str(i): DATASET.format(name=f"d{i}", path="../numbers.bin") for i in (2, 10, 1)}
        folder = include(instance, **texts)
        (folder / "4.conf.bak").write_text("[broken", encoding="ascii")
        done = instance.check()
        assert done.returncode == 0, done.stderr
        names = [line.split(":")[0] for line in done.stdout.splitlines() if "format records" in line]
        assert names == ["d1", "d10", "d2"], done.stdout


def test_a_view_may_be_of_a_dataset_in_another_file():
    with harness.Instance() as instance:
        include(instance, a="[view half]\nof = whole\nsamples = 0..50\n", b=DATASET.format(name="whole", path="../numbers.bin"))
        assert "half" in instance.check().stdout


def test_no_files_and_no_folder():
    with harness.Instance() as instance:
        include(instance, pattern="nowhere/*.conf")
        assert instance.check().returncode == 0
        include(instance)
        assert "0 datasets" in instance.check().stdout


def test_a_folder_whose_name_looks_like_a_pattern():
    with harness.Instance() as instance:
        odd = instance.directory / "a[b]*c"
        odd.mkdir()
        instance.config = odd / "feedd.conf"
        instance.write_config(f"[feedd]\nsocket = {instance.socket}\ninclude = more.conf\n")
        (odd / "numbers.bin").write_bytes(bytes(1600))
        (odd / "more.conf").write_text(DATASET.format(name="odd", path="numbers.bin"), encoding="ascii")
        assert "odd: format records" in instance.check().stdout


def test_messages_name_the_file_and_the_line():
    with harness.Instance() as instance:
        folder = include(instance, a=DATASET.format(name="x", path="../numbers.bin"), b="\n[dataset y]\nformat = recods\n")
        refuse(instance, f"{folder}/b.conf:3: [dataset y] format")
        include(instance, b="[dataset x]\n")
        refuse(instance, f"{folder}/b.conf:1: [dataset x]", f"line 1 of {folder}/a.conf")
        include(instance, b="[feedd]\nloaders = 2\n")
        refuse(instance, f"{folder}/b.conf:1: found [feedd]", instance.config)
        include(instance, b="[mix m]\nsource.x = 1\nsource.gone = 2\nepoch_samples = 9\n")
        refuse(instance, f"{folder}/b.conf:3: [mix m] source.gone")
        include(instance, b=DATASET.format(name="y", path="../gone.bin"))
        refuse(instance, f"{folder}/b.conf:3: [dataset y] path", "gone.bin", status=1)


def test_a_file_that_is_not_there():
    with harness.Instance() as instance:
        include(instance, pattern="gone.conf")
        refuse(instance, f"{instance.config}:3: [feedd] include: there is no file", "gone.conf")


def test_what_is_not_a_file():
    """Not even if reading it would take forever."""
    for make in (os.mkdir, os.mkfifo):
        with harness.Instance() as instance:
            make(include(instance) / "a.conf")
            refuse(instance, "datasets.d/a.conf: found something that is not a file")


def test_a_folder_that_cannot_be_read():
    """Root may read all of them, so root checks as another user."""
    with harness.Instance() as instance:
        folder = include(instance)
        instance.directory.chmod(0o711)
        folder.chmod(0o300)
        user = ["--user", "nobody"] if os.geteuid() == 0 else []
        done = instance.program(harness.BUILD / "feedd", "--config", instance.config, "--check", *user, check=False)
        folder.chmod(0o700)
        assert done.returncode == os.EX_CONFIG, done
        assert f"{instance.config}:3: [feedd] include: {folder} cannot be listed" in done.stderr, done.stderr


def test_reload_sees_new_files():
    with harness.Instance() as instance:
        include(instance, a=DATASET.format(name="first", path="../numbers.bin"))
        instance.start()
        include(instance, b=DATASET.format(name="second", path="../numbers.bin"))
        assert "dataset second: added" in instance.ctl("reload").stdout
        assert len(consumer.read(instance, "second", 10)) == 10
        include(instance, b="[dataset second]\n")
        done = instance.ctl("reload", check=False)
        assert done.returncode == 1 and "datasets.d/b.conf:1: [dataset second] format" in done.stderr, done
        assert len(consumer.read(instance, "second", 10)) == 10
