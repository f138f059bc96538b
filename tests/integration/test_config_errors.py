"""Wrong configurations and wrong files: one clear sentence, a non-zero exit status, and nothing half-started."""

import contextlib
import os
import shutil
import socket

import data
import harness


def complain(instance, *parts, status=1):
    """feedd --check has to refuse: that status, nothing on standard output, and every part in its message."""
    done = instance.check()
    said = f"status {done.returncode}, stdout {done.stdout!r}, stderr {done.stderr!r}"
    assert done.returncode == status, said
    assert not done.stdout, said
    for part in parts:
        assert str(part) in done.stderr, f"no {str(part)!r} in: {said}"
    assert len(done.stderr.splitlines()) == 1, f"more than one sentence: {said}"
    assert not instance.socket.exists() and not instance.stats.exists(), "half-started"


def refuse_text(text, *parts, line=None):
    """The same for a configuration given as text; the message has to name file and line."""
    with harness.Instance() as instance:
        instance.write_config(text)
        where = f"{instance.config}:{line}" if line else instance.config
        complain(instance, where, *parts, status=os.EX_CONFIG)


def refuse_dataset(write, *parts, status=1, **options):
    """The same for one dataset whose files write(directory) makes; {directory} in an option is replaced."""
    with harness.Instance() as instance:
        write(instance.directory)
        options = {key: str(value).replace("{directory}", str(instance.directory)) for key, value in options.items()}
        instance.add_dataset("broken", **options)
        complain(instance, "broken", *parts, status=status)


def nothing(_):
    pass


# ---- The text ------------------------------------------------------------------------------------------------


def test_good_configuration_is_accepted():
    with harness.Instance() as instance:
        data.add_records(instance)
        done = instance.check()
        assert done.returncode == 0, done.stderr
        assert "numbers" in done.stdout and "1000" in done.stdout, done.stdout
        assert f"{instance.config}: OK: 1 dataset would be served on {instance.socket}\n" in done.stdout, done.stdout
        assert not instance.socket.exists() and not instance.stats.exists(), "--check must start nothing"


def test_no_such_file():
    with harness.Instance() as instance:
        done = instance.program(harness.BUILD / "feedd", "--config", "/nonexistent/feedd.conf", "--check", check=False)
        assert done.returncode == os.EX_CONFIG and "/nonexistent/feedd.conf" in done.stderr, done


def test_unreadable_file():
    with harness.Instance() as instance:
        instance.write_config("[feedd]\n")
        instance.config.chmod(0)
        options = {"user": "nobody"} if os.geteuid() == 0 else {}  # root may read everything
        instance.directory.chmod(0o711)
        feedd = shutil.copy(harness.BUILD / "feedd", instance.directory)
        done = instance.program(feedd, "--config", instance.config, "--check", check=False, **options)
        assert done.returncode == os.EX_CONFIG and str(instance.config) in done.stderr and "ermission" in done.stderr, done


def test_directory_instead_of_a_file():
    with harness.Instance() as instance:
        instance.config.mkdir()
        complain(instance, instance.config, status=os.EX_CONFIG)


def test_unknown_key():
    refuse_text("[feedd]\nlog_level = info\nloadres = 4\n", "loadres", line=3)


def test_unknown_key_of_a_dataset():
    refuse_text("[dataset d]\nformat = idx\nrecord_size = 4\n", "record_size", line=3)


def test_key_of_another_format():
    refuse_text("[dataset d]\nformat = idx\nfield.x = /x\nrecord_bytes = 4\n", "record_bytes", "idx", line=4)


def test_unknown_section():
    refuse_text("[feed]\nloaders = 4\n", "[feed]", "[feedd]", line=1)


def test_unknown_format():
    refuse_text("[dataset d]\nformat = zarr\npath = /x\n", "zarr", "records", line=2)


def test_missing_format():
    refuse_text("[dataset d]\npath = /x\n", "format", "[dataset d]")


def test_missing_key_of_a_format():
    refuse_text("[dataset d]\nformat = tokens\npath = /x\ndtype = u16\n", "length", "[dataset d]")


def test_number_that_is_none():
    refuse_text("[feedd]\nloaders = four\n", "loaders", "four", line=2)


def test_number_with_a_tail():
    refuse_text("[feedd]\nloaders = 4x\n", "loaders", "4x", line=2)


def test_number_out_of_range():
    refuse_text("[feedd]\nloaders = 0\n", "loaders", "0", "64", line=2)


def test_negative_number():
    refuse_text("[feedd]\nqueue_depth = -1\n", "queue_depth", "-1", line=2)


def test_number_beyond_64_bits():
    refuse_text("[feedd]\nring_memory = 99999999999999999999\n", "ring_memory", line=2)


def test_size_whose_unit_overflows():
    refuse_text("[feedd]\nring_memory = 99999999999999T\n", "ring_memory", line=2)


def test_unknown_unit():
    refuse_text("[feedd]\nring_memory = 4Q\n", "ring_memory", "4Q", line=2)


def test_word_that_is_no_choice():
    refuse_text("[feedd]\nio = fast\n", "io", "fast", "mapped", line=2)


def test_yes_or_no():
    refuse_text("[dataset d]\nformat = idx\nfield.x = /x\nio_direct = maybe\n", "io_direct", "maybe", line=4)


def test_key_given_twice():
    refuse_text("[feedd]\nloaders = 2\nloaders = 4\n", "loaders", line=3)


def test_dataset_given_twice():
    text = "[dataset d]\nformat = idx\nfield.x = /x\n"
    refuse_text(text + text, "d")


def test_dataset_without_a_name():
    refuse_text("[dataset ]\nformat = idx\n", "dataset")


def test_dataset_with_a_name_too_long():
    refuse_text(f"[dataset {'n' * 64}]\nformat = idx\nfield.x = /x\n", "63")


def test_line_that_is_no_setting():
    refuse_text("[feedd]\nloaders\n", "loaders", line=2)


def test_section_that_does_not_end():
    refuse_text("[feedd\nloaders = 4\n", line=1)


def test_setting_before_any_section():
    refuse_text("loaders = 4\n", "loaders", line=1)


def test_socket_path_too_long():
    refuse_text(f"[feedd]\nsocket = /{'s' * 120}\n", "socket", "107", line=2)


# ---- The files -----------------------------------------------------------------------------------------------


def test_missing_data_file():
    refuse_dataset(nothing, "/nonexistent.bin", format="records", path="/nonexistent.bin", record_bytes=4,
                   field_x="u8[4] @ 0")  # fmt: skip


def test_pattern_that_matches_nothing():
    refuse_dataset(nothing, "*.bin", format="records", path="{directory}/*.bin", record_bytes=4,
                   field_x="u8[4] @ 0")  # fmt: skip


def test_size_that_does_not_divide():
    refuse_dataset(lambda at: (at / "a.bin").write_bytes(b"x" * 1001), "a.bin", "1001", "10",
                   format="records", path="{directory}/a.bin", record_bytes=10, field_x="u8[10] @ 0")  # fmt: skip


def test_empty_data_file():
    refuse_dataset(lambda at: (at / "a.bin").write_bytes(b""), "a.bin",
                   format="records", path="{directory}/a.bin", record_bytes=10, field_x="u8[10] @ 0")  # fmt: skip


def test_data_file_that_is_a_directory():
    refuse_dataset(lambda at: (at / "a.bin").mkdir(), "a.bin",
                   format="records", path="{directory}/a.bin", record_bytes=10, field_x="u8[10] @ 0")  # fmt: skip


def test_data_file_that_is_a_fifo():
    """Opening it must not wait for a writer that never comes."""
    refuse_dataset(lambda at: os.mkfifo(at / "a.bin"), "a.bin",
                   format="records", path="{directory}/a.bin", record_bytes=10, field_x="u8[10] @ 0")  # fmt: skip


def refuse_records(*parts, **fields):
    options = {"format": "records", "path": "/nonexistent", "record_bytes": 10}
    refuse_dataset(nothing, "feedd.conf:", *parts, status=os.EX_CONFIG, **options, **fields)


def test_field_beyond_its_record():
    refuse_records("field.x", "10", field_x="u8[8] @ 3")


def test_fields_that_overlap():
    refuse_records("field.y", "offset 6", "8 or more", field_x="u8[8] @ 0", field_y="u8[4] @ 6")


def test_field_of_an_unknown_type():
    refuse_records("u7", field_x="u7[8] @ 0")


def test_types_by_the_names_of_others():
    refuse_records("field.x", 'unknown dtype "uint8"; perhaps you mean "u8"', field_x="uint8[8] @ 0")
    refuse_records("field.x", 'unknown dtype "torch.float32"; perhaps you mean "f32"', field_x="torch.float32[2] @ 0")
    refuse_text("[dataset d]\nformat = tokens\npath = /x\nlength = 4\ndtype = uint16\n",
                'unknown dtype "uint16"; perhaps you mean "u16"', line=5)  # fmt: skip


def test_field_of_a_shape_that_is_none():
    refuse_records("field.x", field_x="u8[8 @ 0")


def test_field_of_a_shape_that_overflows():
    refuse_records("field.x", field_x="f64[4294967295,4294967295,4294967295] @ 0")


def refuse_idx(content, *parts):
    refuse_dataset(lambda at: (at / "x.idx").write_bytes(content), "x.idx", *parts,
                   format="idx", field_x="{directory}/x.idx")  # fmt: skip


def test_idx_with_another_magic():
    refuse_idx(b"\x1f\x8b\x08\x00" + b"x" * 100)


def test_idx_header_that_is_cut():
    refuse_idx(b"\0\0\x08\x03\0\0")


def test_idx_with_an_unknown_type():
    refuse_idx(b"\0\0\x07\x01\0\0\0\x04" + b"x" * 4)


def test_idx_header_that_lies():
    refuse_idx(b"\0\0\x08\x02\0\0\0\x0a\0\0\0\x0a" + b"x" * 99, "99", "100")


def test_idx_with_a_shape_that_overflows():
    refuse_idx(b"\0\0\x08\x04" + b"\xff\xff\xff\xff" * 4 + b"x" * 100)


def test_idx_fields_of_unequal_length():
    def write(at):
        data.write_idx(at / "x.idx", (10, 2), bytes(20))
        data.write_idx(at / "y.idx", (9,), bytes(9))

    refuse_dataset(write, "10", "9", format="idx", field_x="{directory}/x.idx", field_y="{directory}/y.idx")


def refuse_npy(write, *parts):
    refuse_dataset(lambda at: write(at / "x.npy"), "x.npy", *parts, format="npy", field_x="{directory}/x.npy")


def test_npz():
    refuse_npy(lambda path: path.write_bytes(b"PK\x03\x04" + b"x" * 200), "npz file", "save each of its arrays")


def test_npy_header_that_is_cut():
    refuse_npy(lambda path: path.write_bytes(b"\x93NUMPY\x01\x00\xf0\x00{'descr'"))


def test_npy_header_length_that_lies():
    refuse_npy(lambda path: path.write_bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr': '<f4'"))


def test_npy_in_fortran_order():
    refuse_npy(lambda path: data.write_npy(path, "<f4", (10, 3), bytes(120), fortran=True), "ortran")


def test_npy_in_big_endian_order():
    refuse_npy(lambda path: data.write_npy(path, ">f4", (10, 3), bytes(120)), ">f4")


def test_npy_of_objects():
    refuse_npy(lambda path: data.write_npy(path, "|O", (10,), bytes(80)), "Python objects", "save numpy.stack(array)")


def test_npy_that_is_cut():
    refuse_npy(lambda path: data.write_npy(path, "<f4", (10, 3), bytes(119)))


def test_npy_of_no_dimension():
    refuse_npy(lambda path: data.write_npy(path, "<f4", (), bytes(4)))


def test_npy_with_a_shape_that_overflows():
    refuse_npy(lambda path: data.write_npy(path, "<f8", (1 << 40, 1 << 40), bytes(80)))


def test_npy_of_an_unknown_version():
    refuse_npy(lambda path: data.write_npy(path, "<f4", (10, 3), bytes(120), version=(9, 0)))


def test_tokens_fewer_than_a_window():
    refuse_dataset(lambda at: (at / "t.bin").write_bytes(bytes(20)), "t.bin",
                   format="tokens", path="{directory}/t.bin", dtype="u16", length=64)  # fmt: skip


def test_tokens_that_do_not_divide():
    refuse_dataset(lambda at: (at / "t.bin").write_bytes(bytes(2001)), "t.bin", "2001",
                   format="tokens", path="{directory}/t.bin", dtype="u16", length=64)  # fmt: skip


# ---- The place to run in -------------------------------------------------------------------------------------


def refuse_to_start(instance, *parts):
    """feedd itself, not --check: it ends soon with status 1 and a sentence."""
    done = instance.program(harness.BUILD / "feedd", "--config", instance.config, check=False)
    assert done.returncode == 1, done
    for part in parts:
        assert str(part) in done.stderr, f"no {str(part)!r} in {done.stderr!r}"


def test_second_daemon_on_the_socket():
    with harness.Instance() as instance:
        data.add_records(instance)
        instance.start()
        refuse_to_start(instance, instance.socket)
        assert instance.stats.exists(), "the second daemon took the statistics of the first away"
        with instance.client() as session:
            session.hello()
        assert instance.check().returncode == 0, "a running daemon must not make --check fail"


def test_stale_socket_is_replaced():
    with harness.Instance() as instance:
        data.add_records(instance)
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as stale:
            stale.bind(str(instance.socket))
        instance.start()
        with instance.client() as session:
            session.hello()


def test_file_in_the_place_of_the_socket():
    with harness.Instance() as instance:
        data.add_records(instance)
        instance.write_config()
        instance.socket.write_text("precious")
        refuse_to_start(instance, instance.socket)
        assert instance.socket.read_text() == "precious"
        done = instance.check()
        assert done.returncode == 1 and "[feedd] socket: " in done.stderr and "is not a socket" in done.stderr, done


def test_directory_of_the_socket_missing():
    with harness.Instance() as instance:
        data.add_records(instance)
        instance.settings["socket"] = instance.directory / "missing" / "feedd.sock"
        instance.write_config()
        refuse_to_start(instance, "missing")
        complain(instance, f"{instance.config}:2: [feedd] socket: ", "missing", "No such file")


def test_unknown_socket_group():
    with harness.Instance(socket_group="no-such-group-here") as instance:
        data.add_records(instance)
        instance.write_config()
        refuse_to_start(instance, "no-such-group-here")
        complain(instance, instance.config, ": [feedd] socket_group: ", "no-such-group-here")


def test_killed_daemon_is_followed_by_a_new_one():
    """Leftovers of SIGKILL (socket, statistics file) do not prevent a start."""
    with harness.Instance() as instance:
        data.add_records(instance)
        instance.start()
        instance.kill()
        instance.process = None
        instance.start()
        with instance.client() as session:
            session.hello()
