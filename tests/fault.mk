# make check-fault lets every allocation and every system call of feedd and libfeed fail once, each in a run of its own.
#   SAMPLE=150          so many faults, from every role and phase; SEED=2 chooses others
#   SECONDS=60          begins no run later than that
#   FAULT='uring loader attach pread64 3 EIO'   only this one; words may be left out, and - stands for any
# FAULTFLAGS='--list' and the like: see tests/fault/run.py --help.

SAMPLE       ?= 0
FAULT        ?=
FAULTFLAGS   ?=
FAULT_SECONDS = $(if $(filter file,$(origin SECONDS)),0,$(SECONDS))

check-fault:
	$(Q)tools/install-dependencies.sh build check
	+$(Q)$(again) all integration-programs fault-programs
	$(Q)tests/fault/run.py --build $(BUILD) --jobs $$((2 * $(JOBS))) --sample $(SAMPLE) --seconds $(FAULT_SECONDS) \
	    --seed $(or $(SEED),1) $(FAULTFLAGS) $(FAULT)
fault-programs: $(BUILD)/tests/inject $(BUILD)/tests/failing_alloc.so

$(BUILD)/tests/inject: $(BUILD)/obj/tests/fault/inject.o
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $^
# Preloaded into feedd and consumers.
$(BUILD)/tests/failing_alloc.so: $(BUILD)/obj/tests/fault/failing_alloc.o
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -shared -o $@ $^

.PHONY: check-fault fault-programs
