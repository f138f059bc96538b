#include "daemon/loader/read/fault_guard.h"

#include <errno.h>
#include <signal.h>
#include <ucontext.h>

#include "base/sizes.h"

_Thread_local struct fault_guard fault_guard;

static const int guarded_signals[] = {SIGBUS, SIGSEGV};
static struct sigaction earlier[COUNT_OF(guarded_signals)];
static uint32_t users;

static void on_fault(int number, siginfo_t *info, void *context) {
    uint64_t distance = (uint64_t)((const volatile uint8_t *)info->si_addr - fault_guard.start);
    if (fault_guard.start && info->si_code > 0 && distance < fault_guard.bytes) {
        fault_guard.start = NULL;
        // As a return would: sigsetjmp saved no mask, to be cheap.
        pthread_sigmask(SIG_SETMASK, &((const ucontext_t *)context)->uc_sigmask, NULL);
        siglongjmp(fault_guard.escape, 1);
    }
    // Not ours: the instruction runs again and meets the previous handler.
    for (size_t i = 0; i < COUNT_OF(guarded_signals); i++)
        if (guarded_signals[i] == number)
            sigaction(number, &earlier[i], NULL);
}

int fault_guard_open(void) {
    if (users > 0) {
        users++;
        return 0;
    }
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < COUNT_OF(guarded_signals); i++)
        if (sigaction(guarded_signals[i], &action, &earlier[i]) < 0)
            return -errno;
    users = 1;
    return 0;
}

void fault_guard_close(void) {
    if (--users > 0)
        return;
    for (size_t i = 0; i < COUNT_OF(guarded_signals); i++)
        sigaction(guarded_signals[i], &earlier[i], NULL);
}
