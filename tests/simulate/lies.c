#include "tests/simulate/lies.h"

#include <errno.h>

#include "shm/ring_words.h"

static void tell(const struct transfer *transfer, struct transfer_report lie) {
    snprintf(lie.text, sizeof lie.text, "a lie");
    sim_trace("transfer process of %s: lies: report %u of pool %u", transfer->uuid, lie.kind, lie.pool);
    control_send(transfer->control_fd, &lie, sizeof lie, NULL, 0);
}

static void damage(struct device_ring *pool) {
    const struct ring_header *header = pool->ring.header;
    uint32_t slot = (uint32_t)sim_below(header->slot_count);
    sim_trace("a transfer process writes nonsense into slot %u of pool %u", slot, pool->id);
    atomic_store(&ring_chunks(&pool->ring, slot)[0], sim_random() | 0x80); // no state
}

void lies_tell(struct transfer *transfer) {
    struct device_ring *pool = LIST_FIRST(&transfer->pools);
    uint32_t id = pool ? pool->id : 1;
    if (!sim_fault(plan.lies))
        return;
    switch (sim_below(8)) {
    case 0:
        tell(transfer, (struct transfer_report){.kind = TRANSFER_POOL_REFUSED, .pool = id, .code = -ENOMEM});
        return;
    case 1:
        tell(transfer, (struct transfer_report){.kind = TRANSFER_CONSUMER_REFUSED,
                                                .pool = id,
                                                .code = -EIO,
                                                .consumer = (uint32_t)sim_below(3)});
        return;
    case 2:
        tell(transfer, (struct transfer_report){.kind = TRANSFER_LAGGING,
                                                .pool = id,
                                                .waited_ns = sim_random(),
                                                .consumer = (uint32_t)sim_below(70)});
        return;
    case 3: // nothing that there is
        tell(transfer, (struct transfer_report){.kind = (uint32_t)sim_between(1, 12), .pool = id + 1000});
        return;
    case 4: // without the memory, or once more
        tell(transfer,
             (struct transfer_report){.kind = TRANSFER_POOL_OPEN, .pool = id, .memory_bytes = sim_random()});
        return;
    case 5:
        tell(transfer, (struct transfer_report){.kind = TRANSFER_READY, .pool = id});
        return;
    case 6: // without the memory, or refused, whether or not the slot was to grow
        tell(transfer, (struct transfer_report){
                           .kind = (uint32_t)sim_between(TRANSFER_SLOT_GROWN, TRANSFER_GROWTH_REFUSED),
                           .pool = id,
                           .code = -EIO,
                           .slot = (uint32_t)sim_below(3),
                           .memory_bytes = sim_random()});
        return;
    default:
        if (pool)
            damage(pool);
    }
}
