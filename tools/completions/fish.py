"""Completion for fish."""

COMMANDS = r"""# @HEADER@

function __@FUNCTION@_words # the command and what follows it, without options
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

function __@FUNCTION@_in --argument-names command # whether that is the command; '': there is none yet
    set -l words (__@FUNCTION@_words)
    test "$words[1]" = "$command"
end

function __@FUNCTION@_ask # COMMAND KEY...
    set -l expression ''
    for key in $argv[2..-1]
        set expression $expression"s/^    \"$key\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p;"
    end
    set -l words (commandline -opc)
    set -l socket
    for i in (seq (count $words))
        switch $words[$i]
            case -s --socket
                set socket --socket $words[(math $i + 1)]
            case '--socket=*' '-s*'
                set socket $words[$i]
        end
    end
    @NAME@ $socket $argv[1] --json 2>/dev/null | sed -n "$expression" | string match -v ''
end

complete -c @NAME@ -f
@LINES@
"""

OPTIONS = r"""# @HEADER@

complete -c @NAME@ -f
@LINES@
"""

KINDS = {"DATASET": "-a '(__@FUNCTION@_ask datasets name)'", "FEED": "-a '(__@FUNCTION@_ask feeds id name)'", "FILE": "-F"}


def quote(text):
    return text.replace("\\", "\\\\").replace("'", "\\'")


def words_of(option):
    short = f" -s {option.short}" if option.short else ""
    value = "" if not option.argument else " -r -F" if option.is_file else " -x"
    return f"-l {option.long}{short}{value} -d '{quote(option.text)}'"


def command_lines(commands):
    """The commands, where there is none yet, and what each takes."""
    lines = [f"complete -c @NAME@ -n \"__@FUNCTION@_in ''\" -a {command.name} -d '{quote(command.summary)}'"
             for command in commands]  # fmt: skip
    for command in commands:
        lines += [f"complete -c @NAME@ -n \"__@FUNCTION@_in '{command.name}'\" {words_of(option)}"
                  for option in command.options]  # fmt: skip
        kinds = {command.takes(place) for place in range(len(command.arguments))}
        lines += [f"complete -c @NAME@ -n '__@FUNCTION@_in {command.name}' {KINDS[kind]}"
                  for kind in sorted(kinds) if kind in KINDS]  # fmt: skip
    return lines


def completion(program):
    if not program.commands:
        lines = [f"complete -c @NAME@ {words_of(option)}" for option in program.options]
        return program.fill(OPTIONS.replace("@LINES@", "\n".join(lines)), "fish")
    lines = [f"complete -c @NAME@ -n \"__@FUNCTION@_in ''\" {words_of(option)}" for option in program.options]
    return program.fill(COMMANDS.replace("@LINES@", "\n".join([*lines, *command_lines(program.commands)])), "fish")
