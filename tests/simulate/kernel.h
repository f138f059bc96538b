// What clients on a GPU do there: each batch is used by a kernel on one of the client's streams, which looks at its
// bytes when it begins and when it ends, and is released behind the kernel.
#ifndef FEEDD_TESTS_SIMULATE_KERNEL_H
#define FEEDD_TESTS_SIMULATE_KERNEL_H

#include "tests/simulate/client.h"

struct kernel;

// The client has attached: its streams.
void kernels_begin(struct client *client);

// It has taken this batch.
void kernels_launch(struct client *client, const struct held *held);

// Gives the batch back, in one of the ways that there are: what feed_batch_release returns.
int kernels_release(struct client *client, const struct held *held);

// ---- For streams -------------------------------------------------------------------------------------------

// The function that stands for a kernel in a stream. Nobody calls it.
void kernel_run(void *kernel);

// It begins or ends; true: it has ended, and is freed.
bool kernel_step(struct kernel *kernel);

// How long until then.
uint64_t kernel_ns(const struct kernel *kernel);

// It will not run.
void kernel_drop(struct kernel *kernel);

#endif
