"""The command. Exit status: 0 if everything can be carried over, 1 if something cannot, 2 if there is nothing to say."""

import argparse
import ast
import sys

from .loaders import LOADERS, plan_of
from .plan import Plan
from .script import Script, read


def _loaders(script: Script) -> list[tuple[ast.Call, str]]:
    """The calls that make loaders, and the names that these get, in the order of lines."""
    named = {id(value): name for name, all_values in script.assigned.items() for _, value, _ in all_values}
    kinds = {name for name, kind in script.classes.items() if any(script.name_of(base) in LOADERS for base in kind.bases)}
    calls = [node for node in ast.walk(script.tree) if isinstance(node, ast.Call)]
    calls = [node for node in calls if script.called(node) in LOADERS or script.called(node) in kinds]
    return sorted(((node, named.get(id(node), "")) for node in calls), key=lambda one: one[0].lineno)


def _lines(findings: list[tuple[int, str]], word: str) -> list[str]:
    return [f"    line {line}: {word}{text}" for line, text in sorted(findings)]


def report(call: ast.Call, name: str, plan: Plan) -> list[str]:
    said = [f"line {call.lineno}: {name + ' = ' if name else ''}{' '.join(ast.unparse(call).split())}"]
    if plan.sections:
        said += ["  in feedd.conf:", *(f"    {line}" for section in plan.sections for line in [*section.splitlines(), ""])]
        said.pop()
        shown = ", ".join([plan.given or f'"{plan.name}"', *plan.arguments])
        said += ["  in the script:", f"    {name + ' = ' if name else ''}feedd.DataLoader({shown})"]
    for title, findings in (("cannot be carried over:", plan.cannot), ("to know:", plan.notes)):
        if findings:
            said += [f"  {title}", *_lines(findings, "")]
    return said


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m feedd.doctor", description="Reads a PyTorch script, without running it,"
                                                                                " and says"
                                     " what to write for feedd in place of each DataLoader.")  # fmt: skip
    parser.add_argument("script")
    path = parser.parse_args().script
    try:
        with open(path, encoding="utf-8") as file:
            script = read(file.read())
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 2
    loaders = _loaders(script)
    if not loaders:
        print(f"{path}: there is no DataLoader of PyTorch here", file=sys.stderr)
        return 2
    plans = [(call, name, plan_of(script, call, name)) for call, name in loaders]
    print("\n\n".join("\n".join(report(*one)) for one in plans))
    return 1 if any(plan.cannot for _, _, plan in plans) else 0


if __name__ == "__main__":
    sys.exit(main())
