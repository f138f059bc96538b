"""The small mistakes that tests/mutate/mutate.py makes in a source file."""

import dataclasses
import hashlib
import re

OPERATORS = [
    ("comparison", r"(?<![-<>=!&|])(<=|>=|==|!=|<|>)(?![<>=])",
     {"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="]}),
    ("arithmetic", r"(?<=[\w)\]] )([-+*/%])(?= [\w(&])",
     {"+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"], "%": ["/"]}),
    ("logic", r"(&&|\|\|)", {"&&": ["||"], "||": ["&&"]}),
    ("bits", r"(?<=[\w)] )([&|])(?= [\w(~])", {"&": ["|"], "|": ["&"]}),
    ("step", r"(\+\+|--)", {"++": ["--"], "--": ["++"]}),
    ("assignment", r"( \+= | -= | \|= | &= )",
     {" += ": [" -= "], " -= ": [" += "], " |= ": [" &= "], " &= ": [" |= "]}),
    ("constant", r"(?<![\w.])(0|1|2|64)(?![\w.])", {"0": ["1"], "1": ["0", "2"], "2": ["1", "3"], "64": ["63"]}),
    ("boolean", r"\b(true|false)\b", {"true": ["false"], "false": ["true"]}),
    ("negation", r"(?<=[(\s])(!)(?=[\w(])", {"!": [""]}),
    ("order", r"\bmemory_order_(acquire|release)\b", {"acquire": ["relaxed"], "release": ["relaxed"]}),
]
STATEMENT = re.compile(r"^\s+(?!return|goto|break|continue|case|default|const|struct|uint|int|bool|char|static|\.)"
                       r"[\w>\-.\[\]*&]+(\(.*\)| [-+|&]?= .*|\+\+|--);$")
LEAVING = re.compile(r"^\s+(return( [^;]*)?|break|continue);$")


@dataclasses.dataclass(frozen=True)
class Mutant:
    path: str
    line: int
    old: str   # the line as it is, without its indentation
    what: str  # "comparison: < to <=", and "#2" if it is the second one that the line allows
    new: str   # the whole line
    occurrence: int  # of the same line in the file

    @property
    def name(self):
        """Stays the same when other lines change."""
        return f"{self.path}\t{self.old}\t{self.occurrence}\t{self.what}"

    def place(self, seed):
        """Between 0 and 1: where the mutant stands in the order that the seed gives."""
        return int(hashlib.sha256(f"{seed} {self.name}".encode()).hexdigest()[:12], 16) / 16**12

    def apply(self, text):
        lines = text.split("\n")
        lines[self.line - 1] = self.new
        return "\n".join(lines)


def code_of(line):
    """The line with strings and comments blanked, so that columns stay."""
    line = re.sub(r'"(\\.|[^"\\])*"', lambda m: '"' + " " * (len(m.group()) - 2) + '"', line)
    line = re.sub(r"/\*.*?\*/", lambda m: " " * len(m.group()), line)
    return re.sub(r"//.*$", lambda m: " " * len(m.group()), line)


def changes_of(line, code):
    """All (what, new line)."""
    for kind, pattern, others in OPERATORS:
        seen = {}
        for match in re.finditer(pattern, code):
            for other in others.get(match.group(1), []):
                what = f"{kind}: {match.group(1).strip()} to {other.strip() or 'nothing'}"
                seen[what] = seen.get(what, 0) + 1
                number = f" #{seen[what]}" if seen[what] > 1 else ""
                yield what + number, line[:match.start(1)] + other + line[match.end(1):]
    if STATEMENT.match(code) or LEAVING.match(code):
        what = "order: fence removed" if "atomic_thread_fence" in code else "statement: removed"
        yield what, re.match(r"\s*", line).group() + ";"


def mutants_of(path, text):
    """All mutants of a file, in the order of its lines."""
    found, seen = [], {}
    continued = False
    for number, line in enumerate(text.split("\n"), 1):
        code = code_of(line)
        directive = code.startswith("#") or continued
        continued = directive and line.endswith("\\")
        if directive or not code.startswith(" ") or "_Static_assert" in code:
            continue
        old = line.strip()
        seen[old] = seen.get(old, 0) + 1
        found += [Mutant(path, number, old, what, new, seen[old]) for what, new in changes_of(line, code)]
    return found
