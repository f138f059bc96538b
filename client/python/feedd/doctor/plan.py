"""What to write instead of a DataLoader: sections of feedd.conf, a call, and remarks about lines."""

import ast
import re
from dataclasses import dataclass, field

WIDTH = 120  # Longer lines of feedd.conf are continued, if they can be.


@dataclass
class Plan:
    name: str = "data"  # The dataset's name.
    sections: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)  # The arguments of feedd.DataLoader after the dataset's name.
    cannot: list[tuple[int, str]] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)
    given: str = ""  # The first argument, if it is not the dataset's name.
    at: ast.AST | None = field(default=None, compare=False)  # The call that makes the loader.
    batch_size: str = ""  # The size of batches that the dataset itself makes.
    # How an image is stored: "encoded", "pixels", "planes" ([C,H,W]), or "" for no image.
    image: str = ""

    def refuse(self, line: int, text: str) -> None:
        if (line, text) not in self.cannot:
            self.cannot.append((line, text))

    def note(self, line: int, text: str) -> None:
        if (line, text) not in self.notes:
            self.notes.append((line, text))

    def say(self, name: str, value: str) -> None:
        """Adds an argument unless it is already there."""
        if not self.says(name):
            self.arguments.append(f"{name}={value}")

    def says(self, name: str) -> bool:
        return any(one.startswith(f"{name}=") for one in self.arguments)

    def section(self, *lines: str, kind: str = "dataset", name: str = "") -> None:
        self.sections.append("\n".join([f"[{kind} {name or self.name}]", *lines]))

    def add(self, line: str) -> None:
        """Adds to the latest section, if its dataset could be recognised."""
        if self.sections:
            self.sections[-1] += f"\n{line}"


def continued(line: str) -> str:
    """Breaks a long list of steps after commas, but never within a path."""
    key, equals, steps = line.partition(" = ")
    if not key.startswith("transform.") or len(line) <= WIDTH:
        return line
    lines = [f"{key}{equals}"]
    for step in steps.replace(", ", ",\n").splitlines():
        if len(lines[-1]) + len(step) > WIDTH:
            lines[-1] = lines[-1].rstrip()
            lines.append("    ")
        lines[-1] += f"{step} "
    return "\n".join(lines).rstrip()


def valid_name(text: str) -> str:
    """Makes a dataset's name from a variable's."""
    text = re.sub(r"^(data|dataset|ds)_(?=.)", "", text.rpartition(".")[2])
    short = re.sub(r"_?(dataset|data|ds|set|loader|dataloader|dl)$", "", text.rpartition(".")[2])
    return re.sub(r"[^A-Za-z0-9._-]", "-", short) or "data"
