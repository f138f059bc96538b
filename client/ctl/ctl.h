// What the commands of feedctl share. Each command is an int cmd_NAME(ctl, count, arguments) that gets its own name as
// arguments[0] and returns an exit code.
#ifndef FEEDD_CLIENT_CTL_CTL_H
#define FEEDD_CLIENT_CTL_CTL_H

// Exit codes of every command.
enum {
    CTL_OK = 0,
    CTL_FAILED = 1,
    CTL_USAGE = 2
};

struct ctl {
    const char *socket; // chosen by --socket, $FEEDD_SOCKET or the default
};

#endif
