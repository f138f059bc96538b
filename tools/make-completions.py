#!/usr/bin/env python3
"""Writes what shells complete, from the programs' own tables of commands and options: make-completions.py FOLDER PROGRAM...

Of each program, the files are FOLDER/NAME.bash, FOLDER/_NAME (zsh) and FOLDER/NAME.fish. Datasets and feeds are asked of the
daemon.
"""

import pathlib
import sys

from completions import bash, fish, tables, zsh


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for path in sys.argv[2:]:
        program = tables.read_program(path)
        (folder / f"{program.name}.bash").write_text(bash.completion(program))
        (folder / f"_{program.name}").write_text(zsh.completion(program))
        (folder / f"{program.name}.fish").write_text(fish.completion(program))


if __name__ == "__main__":
    main()
