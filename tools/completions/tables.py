"""What a program says of itself with --describe-options: its commands, and what they and it take."""

import dataclasses
import pathlib
import subprocess

# Asks a daemon: COMMAND KEY...: the values of these keys in the objects of its JSON, not in what they hold.
ASK = r'''"s/^    \"$key\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p;"'''
FILES = ("FILE", "PATH")  # what the names of such values begin with


@dataclasses.dataclass
class Option:
    long: str
    short: str
    argument: str
    text: str

    @property
    def names(self):
        return [f"--{self.long}", *([f"-{self.short}"] if self.short else [])]

    @property
    def is_file(self):
        return self.argument.startswith(FILES)


@dataclasses.dataclass
class Command:
    name: str
    summary: str
    arguments: list
    options: list

    def takes(self, place):
        """What stands there: DATASET, FEED, FILE or something that cannot be completed."""
        if not self.arguments:
            return ""
        word = self.arguments[min(place, len(self.arguments) - 1)]
        # An optional number comes before it.
        following = self.arguments[place + 1 : place + 2]
        return following[0] if word == "INTERVAL" and following else word


@dataclasses.dataclass
class Program:
    name: str
    options: list
    commands: list

    def fill(self, text, shell, **values):
        values["HEADER"] = f"Completion of {self.name} for {shell}. Made by tools/make-completions.py."
        values |= {"NAME": self.name, "FUNCTION": self.name.replace("-", "_"), "ASK": ASK}
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        return text


# argp adds them.
HELP = Option("help", "", "", "print help")
VERSION = Option("version", "", "", "print the version")


def describe(program, *command):
    lines = subprocess.run([program, *command, "--describe-options"], capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t") for line in lines.splitlines()]
    options = [Option(*row[1:]) for row in rows if row[0] == "option"]
    arguments = next(row[1] for row in rows if row[0] == "arguments")
    words = [word.strip("[].") for word in arguments.split()]
    return [row[1:] for row in rows if row[0] == "command"], words, options


def read_program(path):
    names, _, options = describe(path)
    commands = []
    for name, summary in names:
        _, arguments, own = describe(path, name)
        commands.append(Command(name, summary, arguments, [*own, HELP]))
    return Program(pathlib.Path(path).name, [*options, HELP, VERSION], commands)
