"""The command. Exit status: 0 if everything can be converted, 1 if something cannot, 2 without a DataLoader."""

import argparse
import ast
import os
import shutil
import sys
import textwrap

from .loaders import LOADERS, plan_of
from .places import Place, places_of
from .plan import Plan
from .script import Script, read


def _width() -> int:
    """Of a terminal's lines, or of COLUMNS; 0 for a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() or os.environ.get("COLUMNS") else 0


def _lines(findings: list[tuple[int, str]]) -> list[str]:
    """Only remarks are folded: the lines of feedd.conf and of the script are there to be copied."""
    lines, width = [f"    line {line}: {text}" for line, text in sorted(findings)], _width()
    if not width:
        return lines
    return [textwrap.fill(line, max(width, 30), subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False)
            for line in lines]  # fmt: skip


def report(place: Place, plan: Plan, before: set[str]) -> list[str]:
    """``before``: the sections printed so far."""
    assigned = f"{place.name} = " if place.name and not place.seen else ""
    said = [f"line {place.call.lineno}: {assigned}{' '.join(ast.unparse(place.call).split())}"]
    said[0] += f" ({place.seen})" if place.seen else ""
    if plan.sections:
        new = [section for section in plan.sections if section not in before]
        before.update(new)
        if new:
            said += ["  in feedd.conf:", *(f"    {line}" for section in new for line in [*section.splitlines(), ""])]
            said.pop()
        else:
            said += [f"  in feedd.conf: {plan.sections[-1].splitlines()[0]}, as above"]
        shown = ", ".join([plan.given or f'"{plan.name}"', *plan.arguments])
        said += ["  in the script:", f"    {assigned}feedd.DataLoader({shown})"]
    for title, findings in (("cannot be converted:", plan.cannot), ("to know:", plan.notes)):
        if findings:
            said += [f"  {title}", *_lines(findings)]
    return said


def _planned(script: Script) -> list[tuple[Place, Plan]]:
    """Gives each dataset a name of its own."""
    taken: dict[str, str] = {}
    found = []

    def plan(place: Place, name: str) -> Plan:
        made = plan_of(script, place.call, place.name, name)
        for number in range(2, 100):
            sections = "\n".join(made.sections)
            if not sections or taken.setdefault(made.name, sections) == sections:
                break
            made = plan_of(script, place.call, place.name, name, number)
        return made

    for cases in places_of(script, LOADERS):
        alike = [plan_of(script, one.call, "", "data") for one in cases]
        if all(one == alike[0] for one in alike):
            first = cases[0] if len(cases) == 1 else Place(cases[0].call, "")
            found.append((first, plan(first, "")))
            continue
        found += [(one, plan(one, one.name)) for one in cases]
    return found


def _hint(script: Script) -> str:
    """Other places where the script may make its loaders, or its batches."""
    for call in script.calls:
        if script.called(call).startswith("ffcv.") and script.called(call).endswith(".Loader"):
            return (f"; line {call.lineno} makes a loader of FFCV: declare the files that its .beton was written from in"
                    " feedd.conf, with the pipelines as steps (docs/images.md), and make a feedd.DataLoader there")  # fmt: skip
        if script.called(call) == "numpy.memmap":
            return (f"; line {call.lineno} maps a file: if it holds tokens, a dataset with format = tokens, and with length ="
                    " the block size, has a window of them as each sample (docs/data.md), for a feedd.DataLoader")  # fmt: skip
        if script.called(call) in ("timm.data.create_loader", "timm.data.loader.create_loader"):
            return (f"; line {call.lineno} asks timm for one: call feedd.DataLoader there, with timm's transforms as steps"
                    " (docs/images.md)")  # fmt: skip
        if script.called(call).startswith(("transformers.", "trl.")) and script.called(call).endswith("Trainer"):
            return (f"; line {call.lineno} makes a Trainer, which makes its own loaders: docs/frameworks.md, \"The Hugging Face"
                    " Trainer\", says how to give it feedd's")  # fmt: skip
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m feedd.doctor", description="Reads a PyTorch script without running it, and"
                                     " says what to write for feedd in place of each DataLoader.",
                                     epilog="Exit status: 0 if everything can be converted, 1 if something cannot, 2 if the"
                                     " script has no DataLoader or cannot be read.")  # fmt: skip
    parser.add_argument("script", help="path of the script")
    path = parser.parse_args().script
    try:
        with open(path, encoding="utf-8") as file:
            script = read(file.read())
    except OSError as error:
        print(f"{path}: {error.strerror}", file=sys.stderr)
        return 2
    except (SyntaxError, ValueError, RecursionError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 2
    try:
        plans, before = _planned(script), set[str]()
    except RecursionError:
        print(f"{path}: what its loaders are made of is nested too deeply", file=sys.stderr)
        return 2
    if not plans:
        print(f"{path}: found no DataLoader of PyTorch{_hint(script)}", file=sys.stderr)
        return 2
    print("\n\n".join("\n".join(report(place, plan, before)) for place, plan in plans))
    return 1 if any(plan.cannot for _, plan in plans) else 0


if __name__ == "__main__":
    sys.exit(main())
