"""What the programs that compute golden vectors have in common."""

import pathlib
import sys


def run(name, usage, make):
    """--c-vectors prints the header that make() returns; --verify FILE compares FILE with it."""
    arguments = sys.argv[1:]
    if arguments == ["--c-vectors"]:
        sys.stdout.write(make())
        return 0
    if len(arguments) == 2 and arguments[0] == "--verify":
        if pathlib.Path(arguments[1]).read_text(encoding="utf-8") == make():
            return 0
        print(f"{arguments[1]}: differs from what {name} computes", file=sys.stderr)
        return 1
    print(usage, file=sys.stderr)
    return 2
