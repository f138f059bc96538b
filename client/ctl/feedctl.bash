# Completion of feedctl for bash; datasets and feeds are asked of the daemon.

_feedctl_ask() { # COMMAND KEY...: the values of these keys in the objects of its JSON, not in what they hold
    local socket=() i key expression=''
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        -s | --socket) socket=(--socket "${COMP_WORDS[i + 1]}") ;;
        esac
    done
    for key in "${@:2}"; do
        expression+="s/^    \"$key\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p;"
    done
    feedctl "${socket[@]}" "$1" --json 2>/dev/null | sed -n "$expression"
}

_feedctl() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local commands="status datasets feeds clients stats show read index errors pack loaders reload drain"
    local command='' i words=''
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
    COMPREPLY=()
    case $previous in
    -s | --socket)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    --output | -o)
        # For stats, -o is --once.
        if [[ $command == show ]]; then
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
        fi
        ;;
    --field | --values | -f)
        return
        ;;
    --batch-size | --seed | --epoch | --epochs | --batches | --rank | --world-size | --local-world-size | --wait-for | \
        --max-lag | --prefetch | --ring | --device | --device-world-size | --resume | --timeout | --work | --share | --client-name | --count | --shard-size | \
        -b | -e | -n)
        return
        ;;
    esac
    case $command in
    "") words="$commands --socket --help --version" ;;
    status | datasets | feeds | clients) words="--json --help" ;;
    reload | drain) words="--help" ;;
    errors)
        words="--json --help"
        [[ $current == -* ]] || words=$(_feedctl_ask datasets name)
        ;;
    index)
        words="--quiet --help"
        [[ $current == -* ]] || words=$(_feedctl_ask datasets name)
        ;;
    pack)
        words="--shard-size --seed --force --json --quiet --help"
        if [[ $current != -* && $previous == pack ]]; then
            words=$(_feedctl_ask datasets name)
        elif [[ $current != -* ]]; then
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
        fi
        ;;
    loaders)
        words="--help auto"
        [[ $current == -* || $previous != loaders ]] || words=$(_feedctl_ask feeds id name)
        ;;
    stats)
        words="--once --json --latency --count --help"
        [[ $current == -* ]] || words=$(_feedctl_ask feeds id name)
        ;;
    show)
        words="--field --values --output --epoch --seed --shuffle --draw --json --help"
        # The arguments that follow the dataset are numbers.
        [[ $current == -* ]] || words=$(_feedctl_ask datasets name)
        ;;
    read)
        words="--batch-size --shuffle --seed --drop-last --resume --batches --epochs --timeout --share --wait-for
            --max-lag --rank --world-size --local-world-size --prefetch --ring --device --device-world-size --verify --digest
            --indices --work --client-name --quiet --help"
        [[ $current == -* ]] || words=$(_feedctl_ask datasets name)
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _feedctl feedctl
