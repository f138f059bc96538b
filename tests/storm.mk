# make storm runs a daemon and consumers for SECONDS while everything is killed, paused and denied; make soak runs a steady
# load for MINUTES while consumers come and go. Flags: see tests/storm/storm.py --help and tests/storm/soak.py --help.

STORM_SECONDS = $(if $(filter file,$(origin SECONDS)),60,$(SECONDS))
MINUTES      ?= 60
STORMFLAGS   ?=
SOAKFLAGS    ?=

$(BUILD)/tests/storm_consumer: $(call objects,$(wildcard tests/storm/storm_*.c)) $(BUILD)/libfeed.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $^ $(call libs,$(PKGS_CLIENT)) -lm
$(BUILD)/tests/soak_churn: $(BUILD)/obj/tests/storm/soak_churn.o $(BUILD)/libfeed.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $^ $(call libs,$(PKGS_CLIENT))
integration-programs: $(BUILD)/tests/storm_consumer $(BUILD)/tests/soak_churn

storm:
	$(Q)tools/install-dependencies.sh build check
	+$(Q)$(again) all integration-programs
	$(Q)FEEDD_TEST_BUILD=$(BUILD) tests/storm/storm.py --seconds $(STORM_SECONDS) --seed $(or $(SEED),1) $(STORMFLAGS)
soak:
	$(Q)tools/install-dependencies.sh build check
	+$(Q)$(again) all integration-programs
	$(Q)FEEDD_TEST_BUILD=$(BUILD) tests/storm/soak.py --minutes $(MINUTES) $(SOAKFLAGS)

# Kills loader processes on one ring for SECONDS per case; make check does the same for two seconds.
SECONDS ?= 60
ring-storm: $(BUILD)/tests/test_ring_processes
	$(Q)RING_STORM_SECONDS=$(SECONDS) $<

.PHONY: storm soak ring-storm
