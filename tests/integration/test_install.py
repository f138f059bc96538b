"""What `make install` puts where, that it works from there, and that `make uninstall` takes it away again."""

import re
import shutil
import subprocess
import sys

import data
import harness

SANITIZERS = ["-fsanitize=address,undefined"] if harness.BUILD.name == "asan" else []


IS_BUNDLE = (harness.BUILD / "bundle").is_file()


def make(*arguments):
    if IS_BUNDLE:
        harness.skip("a bundle is not installed: it has no objects to build from")
    done = subprocess.run(
        ["make", "-C", harness.ROOT, f"BUILD={harness.BUILD}", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def files_below(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


def compile_example(instance, source, *flags):
    program = instance.directory / "example"
    instance.program("cc", "-Wall", "-Werror", "-o", program, source, *flags, *SANITIZERS)
    return program


def run_example(instance, program, **environment):
    data.add_records(instance, "numbers", samples=1000, size=64)
    instance.start()
    done = instance.program(program, "numbers", environment=environment)
    assert done.stdout, done


@harness.limit(120)
def test_installed_tree_works():
    with harness.Instance() as instance:
        prefix = instance.directory / "prefix"
        make("install", f"PREFIX={prefix}")
        installed = files_below(prefix)
        for name in ("bin/feedd", "bin/feedctl", "include/feed.h", "lib/libfeed.so", "lib/libfeed.so.0", "lib/libfeed.a",
                     "lib/pkgconfig/libfeed.pc", "share/man/man8/feedd.8", "share/man/man5/feedd.conf.5",
                     "share/man/man1/feedctl.1", "share/man/man8/feedd-exporter.8", "bin/feedd-exporter",
                     "share/doc/feedd/feedd-dashboard.json", "lib/systemd/system/feedd-exporter.service",
                     "lib/systemd/system/feedd-exporter@.service",
                     "share/man/man3/libfeed.3", "etc/feedd/feedd.conf",
                     "lib/systemd/system/feedd.service", "lib/systemd/system/feedd.socket", "lib/sysusers.d/feedd.conf",
                     "lib/tmpfiles.d/feedd.conf"):  # fmt: skip
            assert name in installed, f"{name} is missing of {sorted(installed)}"
        readme = (prefix / "share/doc/feedd/README.md").read_text()
        for name in re.findall(r"`(docs/[a-z]+\.md)`", readme):
            assert f"share/doc/feedd/{name}" in installed, f"{name} is missing of {sorted(installed)}"
        for program in ("feedctl", "feedd", "feedd-exporter"):
            for name in (f"bash-completion/completions/{program}", f"zsh/site-functions/_{program}",
                         f"fish/vendor_completions.d/{program}.fish"):  # fmt: skip
                assert f"share/{name}" in installed, f"{name} is missing of {sorted(installed)}"
        unit = (prefix / "lib/systemd/system/feedd.service").read_text()
        assert f"ExecStart={prefix}/bin/feedd --config {prefix}/etc/feedd/feedd.conf" in unit, unit
        each = (prefix / "lib/systemd/system/feedd@.service").read_text()
        assert f"--config {prefix}/etc/feedd/%i.conf" in each and "feedd@%i.socket" in each, each
        exporters = [(prefix / f"lib/systemd/system/feedd-exporter{at}.service").read_text() for at in ("", "@")]
        assert "--socket /run/feedd@%i/feedd.sock" in exporters[1], exporters[1]
        assert not re.search("@[A-Z_]+@", unit + each + "".join(exporters))
        assert "@" not in (prefix / "lib/pkgconfig/libfeed.pc").read_text()

        config = prefix / "etc/feedd/feedd.conf"
        text = config.read_text().replace("socket_group = feed ", f"socket = {instance.socket} ")
        config.write_text(text)
        done = instance.program(prefix / "bin/feedd", "--config", config, "--check")
        assert "0 datasets" in done.stdout, done
        example = prefix / "share/doc/feedd/examples/example.c"
        search = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
        flags = instance.program("pkg-config", "--cflags", "--libs", "libfeed", environment=search).stdout.split()
        program = compile_example(instance, example, *flags)
        run_example(instance, program, LD_LIBRARY_PATH=str(prefix / "lib"))


@harness.limit(120)
def test_staged_tree_and_uninstall():
    with harness.Instance() as instance:
        stage = instance.directory / "stage"
        make("install", f"DESTDIR={stage}", "PREFIX=/usr")
        config = stage / "etc/feedd/feedd.conf"
        config.write_text("# an administrator's own\n")
        make("install", f"DESTDIR={stage}", "PREFIX=/usr")
        assert config.read_text() == "# an administrator's own\n", "feedd.conf was overwritten"
        assert "ExecStart=/usr/bin/feedd " in (stage / "usr/lib/systemd/system/feedd.service").read_text()
        make("uninstall", f"DESTDIR={stage}", "PREFIX=/usr")
        assert files_below(stage) == {"etc/feedd/feedd.conf"}, files_below(stage)


@harness.limit(240)
def test_debian_packages():
    """What is in them, and that the Python package works from there. make check-systemd installs them."""
    if not shutil.which("dh"):
        harness.skip("there is no debhelper")
    if SANITIZERS or not (harness.BUILD / "python").is_dir():
        harness.skip("this build has no Python package")
    with harness.Instance() as instance:
        make("deb")
        root, depends = instance.directory / "root", {}
        for package in (harness.BUILD / "packages").glob("*.deb"):
            instance.program("dpkg-deb", "-x", package, root)
            depends[package.name.split("_")[0]] = instance.program("dpkg-deb", "-f", package, "Depends").stdout
        assert depends.keys() == {"feedd", "libfeed0", "libfeed-dev", "python3-feedd"}, depends
        for package, wanted in {"feedd": "libuv1", "libfeed0": "libprotobuf-c1", "libfeed-dev": "libfeed0 (= ",
                                "python3-feedd": "python3:any (>= 3.10~)"}.items():  # fmt: skip
            assert wanted in depends[package], depends
        installed = files_below(root)
        for name in ("usr/bin/feedd", "usr/include/feed.h", "usr/share/bash-completion/completions/feedd-exporter",
                     "usr/share/zsh/vendor-completions/_feedd", "usr/lib/python3/dist-packages/feedd/__init__.py",
                     "usr/lib/python3/dist-packages/feedd/_feed.abi3.so"):  # fmt: skip
            assert name in installed, f"{name} is missing from {sorted(installed)}"
        assert not [name for name in installed if "__pycache__" in name or name.endswith("RECORD")], installed
        data.add_records(instance, "numbers", samples=1000, size=64)
        instance.start()
        script = "import feedd; from feedd._feed import Feed; Feed('numbers', 10); print(feedd.__file__)"
        packages = str(root / "usr/lib/python3/dist-packages")
        said = instance.program(sys.executable, "-c", script, environment={"PYTHONPATH": packages}).stdout
        assert said.startswith(packages), said


def test_example_against_the_static_library():
    with harness.Instance() as instance:
        # That of a bundle has libprotobuf-c in it.
        flags = [] if IS_BUNDLE else instance.program("pkg-config", "--libs", "libprotobuf-c").stdout.split()
        include = f"-I{harness.ROOT / 'client'}"
        source = harness.ROOT / "client/example.c"
        program = compile_example(instance, source, include, harness.BUILD / "libfeed.a", *flags)
        run_example(instance, program)


def test_version_and_help():
    with harness.Instance() as instance:
        for name in ("feedd", "feedctl"):
            version = instance.program(harness.BUILD / name, "--version")
            assert version.stdout.startswith(f"{name} ") and "0." in version.stdout, version
            usage = instance.program(harness.BUILD / name, "--help")
            assert name in usage.stdout and not usage.stderr, usage
            wrong = instance.program(harness.BUILD / name, "--no-such-option", check=False)
            assert wrong.returncode == 2 and wrong.stderr and not wrong.stdout, wrong


def test_help_config_lists_every_option():
    with harness.Instance() as instance:
        text = instance.program(harness.BUILD / "feedd", "--help-config").stdout
        table = (harness.ROOT / "daemon/config/options.def").read_text()
        keys = [line.split("(")[1].split(",")[0] for line in table.splitlines() if line.startswith(("FEEDD_", "DATASET_"))]
        assert len(keys) > 20, keys
        for key in keys:
            assert f"    {key} = " in text, f"{key} is not in feedd --help-config"


def test_libraries_show_the_public_names_alone():
    """Whatever else a library defined could clash with a name of the program that links to it."""
    wanted = set(re.findall(r"^\s+(feed_\w+);", (harness.ROOT / "client/lib/libfeed.map").read_text(), re.MULTILINE))
    header = (harness.ROOT / "client/feed.h").read_text()
    declared = set(re.findall(r"^(?:int|int64_t|void|const .*?|size_t) ?\*?(feed_\w+)\(", header, re.MULTILINE))
    assert wanted == declared, f"feed.h and libfeed.map differ in {wanted ^ declared}"
    with harness.Instance() as instance:
        for library, options in (("libfeed.a", ["-g"]), ("libfeed.so", ["-D"])):
            lines = instance.program("nm", *options, "--defined-only", harness.BUILD / library).stdout.splitlines()
            names = {line.split()[2].split("@")[0] for line in lines if len(line.split()) == 3 and " A " not in line}
            assert names == wanted, f"{library} and libfeed.map differ in {names ^ wanted}"
