# make simulate runs the daemon and its clients on a virtual clock, SEEDS scenarios of them; SEED=N replays one and tells
# what happens in it. SIMULATEFLAGS='--all' and the like: see tests/simulate/simulate.c.

SEEDS         ?= 100000
SEED          ?=
DEFECT        ?=
SIMULATEFLAGS ?=

# Functions that the simulation replaces.
SIMULATE_WRAPS := monotonic_ns clock_nanosleep ppoll connect_socket sendmsg recvmsg shutdown uv_queue_work task_start task_leave \
                  process_start process_hand_over process_stop process_kill process_watch process_release syscall config_load \
                  closer_take closer_take_memory closer_take_socket log_write turn_clock_enter turn_clock_leave \
                  memory_limit_read statvfs posix_fallocate setmntent memfd_create pwrite pipe2 getpid \
                  host_stream_start host_stream_queue host_stream_drain host_stream_end gpu_close \
                  mmap munmap ring_claim ring_chunk_done gpu_copy_in gpu_write_words device_wake member_fail \
                  ring_dispatch_copy ring_take_sleeper delivery_release abandoned_leave ring_unmap frame_writer_free \
                  user_put kept_take ring_grow ring_allocate ring_recover leases_still_ours served_feed_gather delivery_join \
                  budget_grow batch_places_compute ring_places_publish bad_samples_hear brought_hold \
                  window_order_open window_order_samples sampler_open places_await batch_samples_bytes batch_places_commit \
                  ring_batch_end pool_growth_count pool_growth_give

SIMULATE_OBJECTS := $(call objects,$(sort $(wildcard tests/simulate/*.c)))

# First, that a seed does the same every time.
simulate:
	$(Q)tools/install-dependencies.sh build
	+$(Q)$(again) $(BUILD)/simulate
	$(Q)$(if $(SEED)$(DEFECT),,$(BUILD)/simulate --twice 200 --jobs $(JOBS))
	$(Q)$(BUILD)/simulate $(if $(SEED),--seed $(SEED) -v,--seeds $(SEEDS) --jobs $(JOBS)) \
	    $(if $(DEFECT),--defect $(DEFECT)) $(SIMULATEFLAGS)

$(BUILD)/simulate: $(SIMULATE_OBJECTS) $(BUILD)/libdaemon.a $(BUILD)/libclient.a
	$(call say,LINK,$@)
	$(Q)$(LINK) $(addprefix -Wl$(,)--wrap=,$(SIMULATE_WRAPS)) -o $@ $^ $(call libs,$(PKGS_DAEMON)) \
	    $(optional_libs) -lm

.PHONY: simulate
