// Closes descriptors off the loop. Closing the last reference to a descriptor can block for as long as its owner likes:
// a socket with SO_LINGER, a file of a FUSE server, a file on a dead NFS server. It also frees what nobody else uses,
// and for a large ring that takes long. One thread does it, created when it is first needed. The supervisor has two:
// one for descriptors that clients sent, and one for its own, which clients must not hold up.
//
// What is bounded of the descriptors that clients sent, and how:
// - Received descriptors: a session is never read again after its first, so it hands over FDPASS_MOST at most, and a
//   user whose descriptors are still being closed gets no new session that is read.
// - Sockets: only those with descriptors in their receive queue are queued; closing others cannot block, and is done
//   at once. So users that send none never wait for users that do. The kernel allows a user as many descriptors in
//   flight as RLIMIT_NOFILE says, so there are at most that many such sockets.
// - Transfer processes, which may have been taken over, have an account each, beyond all users (closer_account). One
//   that sends what it should not is never read again, and no other takes its place while many are being closed.
// - In total: at CLOSER_MOST the listener stops accepting until there is room (closer_is_full).
#ifndef FEEDD_DAEMON_SUPERVISOR_CLOSER_H
#define FEEDD_DAEMON_SUPERVISOR_CLOSER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CLOSER_MOST 4096u

// Of the transfer process of the GPU with that record in the statistics.
static inline uid_t closer_account(uint32_t record) {
    return (uid_t)-2 - record;
}

struct closer;

// NULL: out of memory.
struct closer *closer_open(void);

// Starts the thread now, not when it is first needed and the limit on tasks may have been reached.
void closer_prepare(struct closer *closer);

// Does not wait: what is still being closed is left to the thread, or to the end of this process.
void closer_leave(struct closer *closer);

// Takes over descriptors that came from that user, and sets *count to 0.
void closer_take(struct closer *closer, uid_t user, int *fds, uint32_t *count);

// The same for descriptors of a shared-memory object, of which that many bytes are charged to that user. All of its
// memory is freed through the first one before it is closed, even if other processes have the object mapped or open:
// they read zeros.
void closer_take_memory(struct closer *closer, uid_t user, int *fds, uint32_t *count, uint64_t bytes);

// How many bytes on account of that user, or CLOSER_ANYBODY, are still to be given back. NULL: none.
#define CLOSER_ANYBODY ((uid_t)-1)
uint64_t closer_bytes(struct closer *closer, uid_t user);

// Closes a session's socket and sets it to -1: at once if there is no descriptor in its receive queue, else in the
// thread. The connection ends now in either case.
void closer_take_socket(struct closer *closer, uid_t user, int *socket);

// How many descriptors that came from that user are still being closed. NULL: none.
uint32_t closer_count(struct closer *closer, uid_t user);

// Whether to accept no more connections for now.
bool closer_is_full(struct closer *closer);

#endif
