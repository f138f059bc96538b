"""What messages say beyond what is wrong: the word that was meant, and what to write instead."""

import harness


def refused(format, *parts, **options):
    with harness.Instance() as instance:
        instance.add_dataset("x", format=format, **options)
        done = instance.check()
        assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, done
        for part in parts:
            assert part in done.stderr, f"no {part!r} in {done.stderr!r}"


def test_paths_that_a_shell_would_expand():
    whole = "is not expanded here: write the whole path"
    refused("folder", "No such file or directory; ~ " + whole, path="~/photos")
    refused("tar", "No such file or directory; ~ " + whole, path="~/s-0.tar", field_x="bytes")
    refused("tar", "No such file or directory; ~ " + whole, path="~/s-*.tar", field_x="bytes")
    refused("tar", '-*.tar", wanted at least one; braces are not', path="s-{0,1}-*.tar", field_x="bytes")
    refused("folder", "; variables such as $HOME are not expanded here: write the whole path", path="$DATA/photos")
    refused("tar", "; braces are not expanded here: write a pattern with * or ?", path="/data/s-{0..7}.tar", field_x="bytes")
    refused("npy", "No such file or directory\n", field_x="/data/none.npy")


def test_types_of_fields():
    """Where bytes are meant, "byte" does not suggest u8."""
    for format, path in (("tar", "s-*.tar"), ("folder", "."), ("parquet", "*.parquet")):
        refused(format, 'unknown type "byte"; perhaps you mean "bytes"', path=path, field_x="byte")
        refused(format, 'unknown type "len"; perhaps you mean "length"', path=path, field_x="len @ file")
        refused(format, 'unknown type "int"; perhaps you mean "i32"', path=path, field_x="int")


def test_a_path_where_fields_have_the_files():
    refused("npy", "] path: found in a dataset of format npy, wanted with format ", "its files are those of its fields",
            path="x.npy", field_x="x.npy")  # fmt: skip


def test_commands_of_feedctl():
    with harness.Instance() as instance:
        for wanted, said in (("stat", "no command stat; perhaps you mean stats: "), ("shwo", "; perhaps you mean show: "),
                             ("xyz", "no command xyz: see feedctl --help")):  # fmt: skip
            done = instance.ctl(wanted, check=False)
            assert done.returncode == 2 and said in done.stderr, done
        done = instance.ctl("show", "numbers", "one", check=False)
        assert done.returncode == 2 and "sample one: a whole number is wanted\n" in done.stderr, done
