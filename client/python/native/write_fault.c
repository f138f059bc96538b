#include "client/python/native/write_fault.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define PLACES   4096
#define TRIES    64
#define RESERVED 1 // `from` of a place that is being written
#if defined(__x86_64__)
#define PAGE_FAULT 14 // the number of that trap
#endif

static const char message[] =
    "feedd: this process wrote to a batch, which is read-only memory: use copy=True in the DataLoader, or "
    "tensor.clone(), before changing it in place\n";

// ---- The memory of the batches in hand ---------------------------------------------------------------------

// Read by the handler, so there is no lock. Writers are write_fault_add and write_fault_remove; `from` is 0 for a free
// place, and its release in write_fault_add pairs with the acquire in is_in_batch.
static struct { _Atomic uintptr_t from, end; } places[PLACES];
static _Atomic uint32_t next_place;

int write_fault_add(const void *memory, size_t bytes) {
    for (int i = 0; i < TRIES; i++) {
        uint32_t place = atomic_fetch_add_explicit(&next_place, 1, memory_order_relaxed) % PLACES;
        uintptr_t empty = 0;
        if (!atomic_compare_exchange_strong(&places[place].from, &empty, RESERVED))
            continue;
        atomic_store_explicit(&places[place].end, (uintptr_t)memory + bytes, memory_order_relaxed);
        atomic_store_explicit(&places[place].from, (uintptr_t)memory, memory_order_release);
        return (int)place;
    }
    return -1;
}

void write_fault_remove(int place) {
    if (place >= 0)
        atomic_store_explicit(&places[place].from, 0, memory_order_release);
}

static bool is_in_batch(uintptr_t address) {
    for (uint32_t i = 0; i < PLACES; i++) {
        uintptr_t from = atomic_load_explicit(&places[i].from, memory_order_acquire);
        if (from > RESERVED && address >= from && address < atomic_load(&places[i].end) &&
            atomic_load(&places[i].from) == from)
            return true;
    }
    return false;
}

// ---- The handler -------------------------------------------------------------------------------------------

static struct sigaction previous; // written before the handler is installed
static _Atomic uintptr_t last_explained;

// The address of a forbidden access, or 0. A handler that was installed after ours, as faulthandler's may be, passes a
// fault on with raise(): then the address is no longer in `info`, but the kernel still shows it with the registers.
static uintptr_t forbidden_address(const siginfo_t *info, const ucontext_t *context) {
    if (info->si_code == SEGV_ACCERR)
        return (uintptr_t)info->si_addr;
    if (info->si_code != SI_TKILL || info->si_pid != getpid())
        return 0;
#if defined(__x86_64__)
    if (context->uc_mcontext.gregs[REG_TRAPNO] == PAGE_FAULT)
        return (uintptr_t)context->uc_mcontext.gregs[REG_CR2];
#elif defined(__aarch64__)
    return context->uc_mcontext.fault_address;
#endif
    (void)context;
    return 0;
}

// After this returns, a fault repeats and meets the default action with its registers as they were. A signal that was
// sent does not repeat, so it is sent again.
static void leave_to_default(int signal_number, siginfo_t *info) {
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(signal_number, &standard, NULL);
    if (info->si_code > 0)
        return;
    if (syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), signal_number, info) < 0)
        raise(signal_number);
}

static void pass_on(int signal_number, siginfo_t *info, void *context) {
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    bool has_information = previous.sa_flags & SA_SIGINFO;
    if (!has_information && previous.sa_handler == SIG_IGN && info->si_code <= 0)
        return;
    if (!has_information && (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN)) {
        leave_to_default(signal_number, info);
        return;
    }
    if (previous.sa_flags & (int)SA_RESETHAND)
        sigaction(signal_number, &standard, NULL);
    if (has_information)
        previous.sa_sigaction(signal_number, info, context);
    else
        previous.sa_handler(signal_number);
}

static void on_fault(int signal_number, siginfo_t *info, void *context) {
    int saved = errno;
    uintptr_t address = forbidden_address(info, context);
    // Once for a fault that repeats because the next handler returns.
    if (address && is_in_batch(address) && atomic_exchange(&last_explained, address) != address)
        (void)!write(STDERR_FILENO, message, sizeof message - 1);
    errno = saved;
    pass_on(signal_number, info, context);
}

static void install(void) {
    const char *without = getenv("FEEDD_NO_FAULT_HANDLER");
    if (without && *without && strcmp(without, "0") != 0)
        return;
    if (sigaction(SIGSEGV, NULL, &previous) < 0)
        return;
    struct sigaction ours = {.sa_sigaction = on_fault, .sa_mask = previous.sa_mask};
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (previous.sa_flags & (SA_NODEFER | SA_RESTART));
    sigaction(SIGSEGV, &ours, NULL);
}

void write_fault_watch(void) {
    static pthread_once_t installed = PTHREAD_ONCE_INIT;
    pthread_once(&installed, install);
}
