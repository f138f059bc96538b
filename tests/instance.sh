# shellcheck shell=sh
# A private feedd for shell scripts: source this file, then
#   instance_make                 creates the directory $instance; then write $instance/feedd.conf, with socket = s
#   instance_start                starts $BUILD/feedd and waits until its socket accepts connections
#   instance_stop                 stops it cleanly and checks that nothing is left; false if something is
#   instance_remove               kills what is left and removes the directory; for a trap
# FEEDD_SOCKET is set for every client. Only processes that this instance started are examined or killed.

: "${BUILD:=build}"

instance_make() {
    # Not under $TMPDIR or the source tree: the path of a socket has room for 107 bytes.
    instance=$(mktemp -d /tmp/feedd.XXXXXX)
    instance_pid=
    FEEDD_SOCKET=$instance/s
    export FEEDD_SOCKET
    find /dev/shm -mindepth 1 2>/dev/null | sort >"$instance/shm.before"
}

# The processes of feedd's session except zombies, one per line: feedd, its children, and theirs.
instance_processes() {
    [ -n "$instance_pid" ] || return 0
    cat /proc/[0-9]*/stat 2>/dev/null | sed 's/^\([0-9]*\) (.*) /\1 /' |
        awk -v session="$instance_pid" '$5 == session && $2 != "Z" { print $1 }'
}

# True while feedd itself runs (a zombie does not).
instance_runs() {
    instance_processes | grep -qx "$instance_pid"
}

instance_start() {
    setsid "$BUILD/feedd" --config "$instance/feedd.conf" </dev/null >"$instance/log" 2>&1 &
    instance_pid=$!
    instance_tries=0
    until [ -S "$FEEDD_SOCKET" ] && "$BUILD/feedctl" status >/dev/null 2>&1; do
        instance_tries=$((instance_tries + 1))
        if [ "$instance_tries" -gt 200 ] || ! kill -0 "$instance_pid" 2>/dev/null; then
            echo "feedd did not start; it said:" >&2
            cat "$instance/log" >&2
            return 1
        fi
        sleep 0.05
    done
}

# instance_gone COMMAND...: waits at most 3 s until the command prints nothing.
instance_gone() {
    instance_tries=0
    while [ -n "$("$@")" ]; do
        instance_tries=$((instance_tries + 1))
        [ "$instance_tries" -le 60 ] || return 1
        sleep 0.05
    done
}

# Names in /dev/shm that were not there before. Rings never have one; a name there would outlive every process.
instance_shm() {
    find /dev/shm -mindepth 1 2>/dev/null | sort | comm -13 "$instance/shm.before" - | grep feed || true
}

instance_stop() {
    instance_left=0
    kill -TERM "$instance_pid" || instance_left=1
    instance_tries=0
    while instance_runs; do
        instance_tries=$((instance_tries + 1))
        if [ "$instance_tries" -gt 300 ]; then
            echo "feedd did not stop within 15 s" >&2
            return 1
        fi
        sleep 0.05
    done
    instance_status=0
    wait "$instance_pid" || instance_status=$?
    if [ "$instance_status" -ne 0 ]; then
        echo "feedd ended with status $instance_status; it said:" >&2
        cat "$instance/log" >&2
        instance_left=1
    fi
    if ! instance_gone instance_processes; then
        echo "processes are left: $(instance_processes | tr '\n' ' ')" >&2
        instance_left=1
    fi
    if ! instance_gone instance_shm; then
        echo "left in /dev/shm: $(instance_shm | tr '\n' ' ')" >&2
        instance_left=1
    fi
    if [ -e "$FEEDD_SOCKET" ]; then
        echo "the socket is left: $FEEDD_SOCKET" >&2
        instance_left=1
    fi
    return "$instance_left"
}

instance_remove() {
    for instance_process in $(instance_processes); do
        kill -KILL "$instance_process" 2>/dev/null || true
    done
    if [ -n "$instance_pid" ]; then
        wait "$instance_pid" 2>/dev/null || true
    fi
    rm -rf "$instance"
}
