"""Completion for bash."""

WORDS = r"""# @HEADER@

# Bash splits words at = and :, and replaces only what follows the last of them. This sets words, up to that of the cursor, as
# the program gets them; current, of which a value is wanted; previous, the word or option before it; lead, what precedes the
# value in its word; kept, what bash keeps of the word.
_@FUNCTION@_words() {
    local rest=${COMP_LINE#*"${COMP_WORDS[0]}"} part=${COMP_WORDS[COMP_CWORD]} blanks word i
    words=("${COMP_WORDS[0]}") lead=''
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]} blanks=${rest%%[![:blank:]]*}
        rest=${rest#"$blanks"}
        if [[ $blanks || $word${COMP_WORDS[i - 1]} == *[\<\>]* ]]; then
            words+=("$word")
        else
            words[-1]+=$word
        fi
        rest=${rest#"$word"}
    done
    current=${words[-1]} previous=${words[-2]}
    [[ $part == *[!=:]* ]] || part=''
    kept=${current%"$part"}
    if [[ $current == --*=* ]]; then
        previous=${current%%=*} lead=${current%%=*}= current=${current#*=}
    fi
}

_@FUNCTION@_reply() { # what compgen finds with these arguments
    mapfile -t COMPREPLY < <(compgen -P "$lead" "$@" -- "$current")
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
}

_@FUNCTION@_files() {
    compopt -o filenames 2>/dev/null
    _@FUNCTION@_reply -f
}
"""

# Of a program that has only options.
OPTIONS = r"""
_@FUNCTION@() {
    local words=() current previous lead kept
    _@FUNCTION@_words
    COMPREPLY=()
    if [[ " @FILES@ " == *" $previous "* || $previous == *[\<\>]* ]]; then
        _@FUNCTION@_files
    elif [[ " @VALUES@ " != *" $previous "* ]]; then
        _@FUNCTION@_reply -W '@OPTIONS@'
    fi
}

complete -F _@FUNCTION@ @NAME@
"""

COMMANDS = r"""
_@FUNCTION@_ask() { # COMMAND KEY...: the values of these keys in the objects of its JSON, not in what they hold
    local key expression=''
    for key in "${@:2}"; do
        expression+=@ASK@
    done
    @NAME@ "${socket[@]}" "$1" --json 2>/dev/null | sed -n "$expression"
}

_@FUNCTION@() {
    local words=() current previous lead kept
    local socket=() command='' place=0 kinds='-' options='' files='' values='' i last
    _@FUNCTION@_words
    last=$((${#words[@]} - 1))
    for ((i = 1; i < last; i++)); do
        case ${words[i]} in
        -s | --socket) socket=(--socket "${words[++i]}") ;;
        --socket=* | -s*) socket=("${words[i]}") ;;
        -*) ;;
        *)
            command=${words[i]}
            break
            ;;
        esac
    done
    # What each command takes: options, of which some have values, of which some are files; and other words.
    case $command in
@CASES@
    esac
    for ((i++; i < last; i++)); do
        if [[ " $values " == *" ${words[i]} "* ]]; then
            ((i++))
        elif [[ ${words[i]} != -* ]]; then
            ((place++))
        fi
    done
    COMPREPLY=()
    if [[ " $files " == *" $previous "* || $previous == *[\<\>]* ]]; then
        _@FUNCTION@_files
        return
    fi
    [[ $lead || " $values " == *" $previous "* ]] && return
    read -r -a kinds <<<"$kinds"
    ((place < ${#kinds[@]})) || place=$((${#kinds[@]} - 1))
    case $current:${kinds[place]} in
    -*) _@FUNCTION@_reply -W "$options" ;;
    *:COMMAND) _@FUNCTION@_reply -W "@COMMANDS@ $options" ;;
    *:DATASET) _@FUNCTION@_reply -W "$(_@FUNCTION@_ask datasets name)" ;;
    *:FEED) _@FUNCTION@_reply -W "$(_@FUNCTION@_ask feeds id name)" ;;
    *:FILE) _@FUNCTION@_files ;;
    *) _@FUNCTION@_reply -W "$options" ;;
    esac
}

complete -F _@FUNCTION@ @NAME@
"""


def kinds_of(command):
    return " ".join(command.takes(place) for place in range(len(command.arguments)))


def words_of(options):
    """Their long names, all names of those with values, and of those whose values are files."""
    def names(chosen):
        return " ".join(name for option in chosen for name in option.names)

    return (" ".join(f"--{option.long}" for option in options), names(option for option in options if option.argument),
            names(option for option in options if option.is_file))  # fmt: skip


def case(pattern, options, kinds):
    long, values, files = words_of(options)
    return (
        f"    {pattern})\n        kinds='{kinds or '-'}' options='{long}'\n"
        f"        values='{values}' files='{files}'\n        ;;"
    )


def completion(program):
    if not program.commands:
        long, values, files = words_of(program.options)
        return program.fill(WORDS + OPTIONS, "bash", OPTIONS=long, VALUES=values, FILES=files)
    cases = [case("''", program.options, "COMMAND")]
    cases += [case(command.name, command.options, kinds_of(command)) for command in program.commands]
    return program.fill(WORDS + COMMANDS, "bash", CASES="\n".join(cases),
                        COMMANDS=" ".join(command.name for command in program.commands))  # fmt: skip
