"""What serve() says: without a program, of wrong configurations, and when its daemon finds something wrong later."""

import os

import pytest
from test_serve import PROGRAM, sections

import feedd


def test_no_program(tmp_path, monkeypatch):
    monkeypatch.setenv("FEEDD_PROGRAM", "/nonexistent/feedd")
    with pytest.raises(feedd.Error, match="no program '/nonexistent/feedd'.*FEEDD_PROGRAM"):
        with feedd.serve(sections(tmp_path / "numbers.bin")):
            pass
    monkeypatch.setenv("FEEDD_PROGRAM", __file__)
    with pytest.raises(feedd.Error, match=f"'{__file__}' is not executable: chmod"):
        feedd.serve(sections(tmp_path))
    with pytest.raises(feedd.Error, match="is a folder, not the program feedd"):
        feedd.serve(sections(tmp_path), program=os.path.dirname(__file__))
    with pytest.raises(feedd.Error, match="no program 'feed-me'"):
        with feedd.serve(sections(tmp_path / "numbers.bin"), program="feed-me"):
            pass


def test_a_program_that_is_none(tmp_path):
    script = tmp_path / "feedd"
    script.write_text("#!/bin/sh\necho this is something else; exit 3\n")
    script.chmod(0o755)
    with pytest.raises(feedd.Error, match="this is something else"):
        with feedd.serve(sections(tmp_path / "numbers.bin"), program=script):
            pass
    script.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(feedd.Error, match="status 3"):
        with feedd.serve(sections(tmp_path / "numbers.bin"), program=script):
            pass


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("[dataset a]\nformat = nonsense\n", "nonsense"), ("[dataset a]\nformat records\n", "format records"),
        ("[dataset a]\nformat = npy\nformat = idx\n", "format"), ("format = npy\n\n", "section"),
        ({"a": {"format": "npy", "field.x": "none.npy"}}, "none.npy"), ({"a": {}}, "format"),
        ({"feedd": {"loaders": 0}}, "loaders"), ("[feedd]\nnonsense = 1\n", "nonsense"),
    ],
)  # fmt: skip
def test_wrong_configurations(config, says):
    """The daemon's own sentence, and nothing is left behind."""
    with pytest.raises(feedd.Error, match=says):
        with feedd.serve(config, program=PROGRAM):
            pass
    assert "FEEDD_SOCKET" not in os.environ


def test_errors_name_what_the_user_wrote(tmp_path):
    """Not the file that was made of it, nor lines of that."""
    file = tmp_path / "mine.conf"
    file.write_text("[feedd]\nlodaers = 1\n")
    for config, name in ((file, str(file)), ({"feedd": {"lodaers": 1}}, "the argument of serve()")):
        with pytest.raises(feedd.Error, match="loaders") as raised:
            feedd.serve(config, program=PROGRAM)
        assert str(raised.value).startswith(f"feedd does not start: {name}: ")
        assert "info:" not in str(raised.value) and "error:" not in str(raised.value)


def test_errors_of_the_daemon_at_work_name_what_the_user_wrote(tmp_path):
    """Indices are built while it runs. Files that the user's own includes are the user's, too."""
    (tmp_path / "shard.tar").write_bytes(b"x" * 10240)
    wrong = {"format": "tar", "path": str(tmp_path / "shard.tar"), "field.x": "bytes"}
    section = "".join(f"{key} = {value}\n" for key, value in wrong.items())
    (tmp_path / "more.conf").write_text(f"[dataset more]\n{section}")
    (tmp_path / "mine.conf").write_text(f"; mine\n[feedd]\ninclude = more.conf\n[dataset wrong]\n{section}")
    mine, ours = tmp_path / "mine.conf", "the argument of serve()"
    text = mine.read_text().replace("more.conf", str(tmp_path / "more.conf"))
    for config, name in ((mine, mine), (text, ours), ({"feedd": {"include": tmp_path / "more.conf"}, "wrong": wrong}, ours)):
        with feedd.serve(config, program=PROGRAM) as service:
            for dataset, place in (("wrong", name), ("more", f"{tmp_path / 'more.conf'}:3")):
                with pytest.raises(feedd.Error) as raised:
                    feedd.DataLoader(dataset, 1, framework="numpy")
                said = f"{place}: [dataset {dataset}] path: {tmp_path / 'shard.tar'}: found no tar header at offset 0"
                assert f"the index of dataset {dataset} could not be built: {said}" in str(raised.value), raised.value
                assert said in service.log()
            assert "/feedd.conf" not in service.log()


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"a": "x.npy"}, r"\[dataset a\] is 'x.npy'"), ({"a": {"path": ["x"]}}, r"path of \[dataset a\] is \['x'\]"),
        ({"a": {"path": None}}, "is None"),
    ],
)  # fmt: skip
def test_values_of_another_kind(config, says):
    with pytest.raises(TypeError, match=says):
        feedd.serve(config, program=PROGRAM)


def test_a_file_that_is_not_there():
    with pytest.raises(FileNotFoundError):
        with feedd.serve("none.conf", program=PROGRAM):
            pass
