#!/usr/bin/env python3
"""Writes what shells complete of feedctl, from the tables of its commands and options: make-completions.py FEEDCTL FOLDER.

The files are FOLDER/feedctl.bash, FOLDER/_feedctl (zsh) and FOLDER/feedctl.fish. Datasets and feeds are asked of the daemon.
"""

import dataclasses
import pathlib
import subprocess
import sys

HEADER = "Completion of feedctl for {}. Made by tools/make-completions.py."
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


HELP = Option("help", "", "", "print help")


def describe(program, *command):
    lines = subprocess.run([program, *command, "--describe-options"], capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t") for line in lines.splitlines()]
    options = [Option(*row[1:]) for row in rows if row[0] == "option"]
    arguments = next(row[1] for row in rows if row[0] == "arguments")
    words = [word.strip("[].") for word in arguments.split()]
    return [row[1:] for row in rows if row[0] == "command"], words, [*options, HELP]


def read_tables(program):
    names, _, options = describe(program)
    return [Command(name, summary, *describe(program, name)[1:]) for name, summary in names], options


# ---- bash ---------------------------------------------------------------------------------------------------

BASH = r"""# @HEADER@

_feedctl_ask() { # COMMAND KEY...: the values of these keys in the objects of its JSON, not in what they hold
    local socket=() i key expression=''
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        -s | --socket) socket=(--socket "${COMP_WORDS[i + 1]}") ;;
        esac
    done
    for key in "${@:2}"; do
        expression+=@ASK@
    done
    feedctl "${socket[@]}" "$1" --json 2>/dev/null | sed -n "$expression"
}

_feedctl() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command='' place=0 kinds='' options='' files='' values='' i words=''
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        -s | --socket) ((i++)) ;;
        -*) ;;
        *)
            command=${COMP_WORDS[i]}
            break
            ;;
        esac
    done
    # What each command takes: options, of which some have values, of which some are files; and other words.
    case $command in
@CASES@
    esac
    for ((i++; i < COMP_CWORD; i++)); do
        if [[ " $values " == *" ${COMP_WORDS[i]} "* ]]; then
            ((i++))
        elif [[ ${COMP_WORDS[i]} != -* ]]; then
            ((place++))
        fi
    done
    COMPREPLY=()
    if [[ " $files " == *" $previous "* ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
    fi
    [[ " $values " == *" $previous "* ]] && return
    read -r -a kinds <<<"$kinds"
    ((place < ${#kinds[@]})) || place=$((${#kinds[@]} - 1))
    case $current:${kinds[place]} in
    -*) words=$options ;;
    *:COMMAND) words="@COMMANDS@ $options" ;;
    *:DATASET) words=$(_feedctl_ask datasets name) ;;
    *:FEED) words=$(_feedctl_ask feeds id name) ;;
    *:FILE)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    *) words=$options ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _feedctl feedctl
"""


def kinds_of(command):
    return " ".join(command.takes(place) for place in range(len(command.arguments)))


def bash_case(pattern, options, kinds):
    def names(chosen):
        return " ".join(name for option in chosen for name in option.names)

    values = [option for option in options if option.argument]
    files = [option for option in values if option.argument.startswith(FILES)]
    return (
        f"    {pattern})\n        kinds='{kinds or '-'}' options='{' '.join(f'--{option.long}' for option in options)}'\n"
        f"        values='{names(values)}' files='{names(files)}'\n        ;;"
    )


def bash(commands, options):
    cases = [bash_case("''", options, "COMMAND")]
    cases += [bash_case(command.name, command.options, kinds_of(command)) for command in commands]
    return fill(BASH, "bash", CASES="\n".join(cases), COMMANDS=" ".join(command.name for command in commands))


# ---- zsh ----------------------------------------------------------------------------------------------------

ZSH = r"""#compdef feedctl
# @HEADER@

_feedctl_ask() { # COMMAND KEY...
    local key expression=''
    for key in "${@:2}"; do
        expression+=@ASK@
    done
    local -a found
    found=(${(f)"$(_call_program names feedctl ${(kv)opt_args[(I)-s|--socket]} $1 --json 2>/dev/null | sed -n $expression)"})
    compadd -a found
}

_feedctl() {
    local curcontext=$curcontext state line
    typeset -A opt_args
    local -a commands
    commands=(
@COMMANDS@
    )
    _arguments -C @OPTIONS@ '1:command:->command' '*::argument:->argument' && return
    case $state in
    command) _describe command commands ;;
    argument)
        case $line[1] in
@CASES@
        esac
        ;;
    esac
}

_feedctl "$@"
"""

ZSH_KINDS = {
    "DATASET": "dataset: _feedctl_ask datasets name",
    "FEED": "feed: _feedctl_ask feeds id name",
    "FILE": "file:_files",
}


def zsh_quote(text, colons=True):
    text = text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace("'", "'\\''")
    return text.replace(":", "\\:") if colons else text


def zsh_option(option):
    value = ""
    if option.argument:
        value = f":{option.argument.lower()}:{'_files' if option.argument.startswith(FILES) else ' '}"
    text = f"[{zsh_quote(option.text)}]{value}'"
    equals = "=" if option.argument else ""
    if not option.short:
        return f"'--{option.long}{equals}{text}"
    plus = "+" if option.argument else ""
    names = f"-{option.short}{plus},--{option.long}{equals}"
    return f"'(-{option.short} --{option.long})'{{{names}}}'{text}"


def zsh_case(command):
    places = []
    for place in range(len(command.arguments)):
        kind = ZSH_KINDS.get(command.takes(place), f"{command.takes(place).lower()}: ")
        places.append(f"'{place + 1}::{kind}'")
    words = " ".join([*map(zsh_option, command.options), *places])
    return f"        {command.name}) _arguments {words} ;;"


def zsh(commands, options):
    lines = [f"        '{command.name}:{zsh_quote(command.summary)}'" for command in commands]
    return fill(ZSH, "zsh", COMMANDS="\n".join(lines), CASES="\n".join(map(zsh_case, commands)),
                OPTIONS=" ".join(map(zsh_option, options)))  # fmt: skip


# ---- fish ---------------------------------------------------------------------------------------------------

FISH = r"""# @HEADER@

function __feedctl_words # the command and what follows it, without options
    set -l words (commandline -opc)[2..-1]
    set -l skip no
    for word in $words
        if test $skip = yes
            set skip no
        else
            switch $word
                case -s --socket
                    set skip yes
                case '-*'
                case '*'
                    echo $word
            end
        end
    end
end

function __feedctl_in --argument-names command # whether that is the command; '': there is none yet
    set -l words (__feedctl_words)
    test "$words[1]" = "$command"
end

function __feedctl_ask # COMMAND KEY...
    set -l expression ''
    for key in $argv[2..-1]
        set expression $expression"s/^    \"$key\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p;"
    end
    set -l words (commandline -opc)
    set -l socket
    for i in (seq (count $words))
        if contains -- $words[$i] -s --socket
            set socket --socket $words[(math $i + 1)]
        end
    end
    feedctl $socket $argv[1] --json 2>/dev/null | sed -n "$expression" | string match -v ''
end

complete -c feedctl -f
@LINES@
"""

FISH_KINDS = {"DATASET": "-a '(__feedctl_ask datasets name)'", "FEED": "-a '(__feedctl_ask feeds id name)'", "FILE": "-F"}


def fish_quote(text):
    return text.replace("\\", "\\\\").replace("'", "\\'")


def fish_option(command, option):
    short = f" -s {option.short}" if option.short else ""
    value = "" if not option.argument else " -r -F" if option.argument.startswith(FILES) else " -x"
    return f"complete -c feedctl -n \"__feedctl_in '{command}'\" -l {option.long}{short}{value} -d '{fish_quote(option.text)}'"


def fish(commands, options):
    lines = [fish_option("", option) for option in options]
    for command in commands:
        what = f"-a {command.name} -d '{fish_quote(command.summary)}'"
        lines.append(f"complete -c feedctl -n \"__feedctl_in ''\" {what}")
    for command in commands:
        lines += [fish_option(command.name, option) for option in command.options]
        kinds = {command.takes(place) for place in range(len(command.arguments))}
        lines += [f"complete -c feedctl -n '__feedctl_in {command.name}' {FISH_KINDS[kind]}"
                  for kind in sorted(kinds) if kind in FISH_KINDS]  # fmt: skip
    return fill(FISH, "fish", LINES="\n".join(lines))


# ---- All ----------------------------------------------------------------------------------------------------


def fill(text, shell, **values):
    for name, value in {"HEADER": HEADER.format(shell), "ASK": ASK, **values}.items():
        text = text.replace(f"@{name}@", value)
    return text


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    commands, options = read_tables(program)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "feedctl.bash").write_text(bash(commands, options))
    (folder / "_feedctl").write_text(zsh(commands, options))
    (folder / "feedctl.fish").write_text(fish(commands, options))


if __name__ == "__main__":
    main()
