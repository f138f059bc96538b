"""feedd --check as the user that will run the daemon, and what it says of a wrong command line."""

import contextlib
import os
import shutil

import data
import harness


@contextlib.contextmanager
def seen_by_nobody():
    """An instance that user nobody can check, with data in a separate folder."""
    if os.geteuid() != 0:
        harness.skip("only root can check as another user")
    with harness.Instance() as instance:
        data.add_records(instance, samples=10, size=8)
        (instance.directory / "private").mkdir()
        path = instance.directory / "private/numbers.bin"
        data.write_records(path, samples=10, size=8)
        path.chmod(0o644)
        instance.datasets["numbers"]["path"] = path
        sockets = instance.directory / "sockets"
        sockets.mkdir()
        sockets.chmod(0o777)
        instance.settings["socket"] = sockets / "feedd.sock"
        instance.directory.chmod(0o711)
        instance.write_config()
        instance.config.chmod(0o644)
        instance.nobody = shutil.copy(harness.BUILD / "feedd", instance.directory)
        yield instance


def check_as(instance, *options):
    return instance.program(instance.nobody, "--config", instance.config, "--check", *options, check=False)


def test_check_as_the_user_that_will_read():
    with seen_by_nobody() as instance:
        (instance.directory / "private").chmod(0o755)
        done = check_as(instance, "--user", "nobody")
        assert done.returncode == 0 and "checked as user nobody" in done.stdout, done


def test_check_names_the_folder_that_is_in_the_way():
    with seen_by_nobody() as instance:
        private = instance.directory / "private"
        private.chmod(0o700)
        assert check_as(instance).returncode == 0, "root can read everything"
        done = check_as(instance, "--user=nobody")
        assert done.returncode == 1 and f"{private} is not searchable by user nobody" in done.stderr, done
        instance.datasets["numbers"]["path"] = private / "*.bin"
        instance.write_config()
        done = check_as(instance, "--user=nobody")
        assert done.returncode == 1 and f"{private} is not readable by user nobody" in done.stderr, done


def test_check_names_what_a_link_leads_to():
    with seen_by_nobody() as instance:
        private = instance.directory / "private"
        private.chmod(0o700)
        link = instance.directory / "link"
        link.symlink_to("private")
        instance.datasets["numbers"]["path"] = link / "numbers.bin"
        instance.write_config()
        done = check_as(instance, "--user=nobody")
        assert done.returncode == 1 and f"{private} is not searchable by user nobody" in done.stderr, done


def test_check_names_the_file_that_cannot_be_read():
    with seen_by_nobody() as instance:
        (instance.directory / "private").chmod(0o755)
        path = instance.datasets["numbers"]["path"]
        path.chmod(0o600)
        done = check_as(instance, "--user=nobody")
        assert done.returncode == 1 and f"{path} is not readable by user nobody" in done.stderr, done


def test_check_names_the_part_of_a_tree_that_cannot_be_read():
    with seen_by_nobody() as instance:
        private = instance.directory / "private"
        private.chmod(0o755)
        (private / "cats").mkdir()
        (private / "cats/0").write_bytes(b"cat")
        (private / "cats").chmod(0o700)
        instance.datasets["numbers"] = {"format": "folder", "path": private}
        instance.write_config()
        done = check_as(instance, "--user=nobody")
        assert done.returncode == 1 and f"{private}/cats is not readable by user nobody" in done.stderr, done


def test_check_wants_a_folder_that_can_be_written():
    with seen_by_nobody() as instance:
        (instance.directory / "private").chmod(0o755)
        (instance.directory / "sockets").chmod(0o755)
        done = check_as(instance, "--user=nobody")
        assert done.returncode == 1 and "sockets is not writable by user nobody" in done.stderr, done


def test_user_that_does_not_exist():
    with harness.Instance() as instance:
        instance.write_config()
        command = [harness.BUILD / "feedd", "--config", instance.config]
        done = instance.program(*command, "--check", "--user=no-such-user", check=False)
        assert done.returncode == 1 and "no-such-user" in done.stderr, done
        done = instance.program(*command, "--user=root", check=False)
        assert done.returncode == 2 and "--check" in done.stderr, done


def test_configuration_without_its_option():
    with harness.Instance() as instance:
        instance.write_config()
        done = instance.program(harness.BUILD / "feedd", instance.config, check=False)
        assert done.returncode == 2 and f"--config {instance.config}" in done.stderr, done


def test_what_the_daemon_would_not_start_with_again():
    """Both exit with EX_CONFIG, so that the service manager leaves it at that; a file that is missing may still come."""
    with harness.Instance() as instance:
        fields = {"field_x": "u8[8] @ 0", "field_y": "u8[4] @ 6"}
        instance.add_dataset("broken", format="records", path="/nonexistent.bin", record_bytes=10, **fields)
        instance.write_config()
        line = instance.config.read_text().splitlines().index("field.y = u8[4] @ 6") + 1
        for check in ((), ("--check",)):
            done = instance.program(harness.BUILD / "feedd", "--config", instance.config, *check, check=False)
            assert done.returncode == os.EX_CONFIG, done
            assert f"{instance.config}:{line}: [dataset broken] field.y: found offset 6, wanted 8" in done.stderr, done
        instance.datasets["broken"]["field.y"] = "u8[2] @ 8"
        instance.write_config()
        for check in ((), ("--check",)):
            done = instance.program(harness.BUILD / "feedd", "--config", instance.config, *check, check=False)
            assert done.returncode == 1 and "/nonexistent.bin" in done.stderr, done
