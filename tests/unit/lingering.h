// A descriptor whose close() blocks for LINGER_S, unless others have it too.
#ifndef FEEDD_TESTS_UNIT_LINGERING_H
#define FEEDD_TESTS_UNIT_LINGERING_H

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define LINGER_S 2

// A TCP socket with unsent bytes. *quiet is its far end, which never reads.
static inline int lingering_socket(int *quiet) {
    static const char bytes[65536];
    const struct linger linger = {1, LINGER_S};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    *quiet = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(*quiet, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int)), 0);
    assert_int_equal(connect(*quiet, (struct sockaddr *)&address, sizeof address), 0);
    int poisoned = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    close(listener);
    while (send(poisoned, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    assert_int_equal(setsockopt(poisoned, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    return poisoned;
}

#endif
