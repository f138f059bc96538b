"""Completion for zsh."""

OPTIONS = r"""#compdef @NAME@
# @HEADER@

_arguments @OPTIONS@
"""

COMMANDS = r"""#compdef @NAME@
# @HEADER@

_@FUNCTION@_ask() { # COMMAND KEY...
    local key expression=''
    for key in "${@:2}"; do
        expression+=@ASK@
    done
    local -a found
    found=(${(f)"$(_call_program names @NAME@ $socket $1 --json 2>/dev/null | sed -n $expression)"})
    compadd -a found
}

_@FUNCTION@() {
    local curcontext=$curcontext state line
    typeset -A opt_args
    local -a commands socket
    commands=(
@COMMANDS@
    )
    _arguments -C @OPTIONS@ '1:command:->command' '*::argument:->argument' && return
    # The options of the command replace these in opt_args.
    socket=(${(v)opt_args[(I)-s|--socket]})
    [[ -z $socket ]] || socket=(--socket $socket)
    case $state in
    command) _describe command commands ;;
    argument)
        case $line[1] in
@CASES@
        esac
        ;;
    esac
}

_@FUNCTION@ "$@"
"""

KINDS = {
    "DATASET": "dataset: _@FUNCTION@_ask datasets name",
    "FEED": "feed: _@FUNCTION@_ask feeds id name",
    "FILE": "file:_files",
}


def quote(text, colons=True):
    text = text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace("'", "'\\''")
    return text.replace(":", "\\:") if colons else text


def option_words(option):
    value = ""
    if option.argument:
        value = f":{quote(option.argument.lower())}:{'_files' if option.is_file else ' '}"
    text = f"[{quote(option.text)}]{value}'"
    equals = "=" if option.argument else ""
    if not option.short:
        return f"'--{option.long}{equals}{text}"
    plus = "+" if option.argument else ""
    names = f"-{option.short}{plus},--{option.long}{equals}"
    return f"'(-{option.short} --{option.long})'{{{names}}}'{text}"


def case(command):
    places = []
    for place in range(len(command.arguments)):
        kind = KINDS.get(command.takes(place), f"{command.takes(place).lower()}: ")
        places.append(f"'{place + 1}::{kind}'")
    words = " ".join([*map(option_words, command.options), *places])
    return f"        {command.name}) _arguments {words} ;;"


def completion(program):
    options = " ".join(map(option_words, program.options))
    lines = [f"        '{command.name}:{quote(command.summary)}'" for command in program.commands]
    return program.fill(COMMANDS if lines else OPTIONS, "zsh", OPTIONS=options, COMMANDS="\n".join(lines),
                        CASES="\n".join(map(case, program.commands)))  # fmt: skip
