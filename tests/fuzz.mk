# make fuzz builds the targets of tests/fuzz with libFuzzer and the address and undefined-behaviour sanitizers, in
# $(BUILD)/fuzz, and runs each for SECONDS. FUZZFLAGS='--only session' and the like: see tests/fuzz/run.py --help.

FUZZ_CC      ?= clang
FUZZFLAGS    ?=
, := ,
# Unlike gcc, clang calls a variable unused that is only there to be released at the end of its scope.
FUZZ_CFLAGS  := -O1 -g -fsanitize=fuzzer-no-link -fno-sanitize-recover=all -Wno-unused-variable
FUZZ_SECONDS  = $(if $(filter file,$(origin SECONDS)),20,$(SECONDS))
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,$(BUILD)/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))

# Functions that a target replaces: tests/fuzz/wrapped.h.
HOSTILE_WRAPS      := monotonic_ns clock_nanosleep ppoll connect_socket
FUZZ_WRAPS_client  := $(HOSTILE_WRAPS)
FUZZ_WRAPS_ctl     := $(HOSTILE_WRAPS) ctl_complain
FUZZ_WRAPS_stats   := monotonic_ns nanosleep
FUZZ_WRAPS_gpu_image := engine_queue_submit
FUZZ_WRAPS_session := monotonic_ns uv_queue_work task_start task_leave process_start process_stop process_kill process_watch \
                      process_release closer_take closer_take_memory closer_take_socket log_write \
                      turn_clock_enter turn_clock_leave

fuzz:
	$(Q)tools/install-dependencies.sh build fuzz
	+$(Q)$(again) BUILD=$(BUILD)/fuzz CC='$(FUZZ_CC)' SANITIZE=address,undefined CFLAGS='$(FUZZ_CFLAGS)' WERROR= fuzz-programs
	$(Q)tests/fuzz/run.py --build $(BUILD)/fuzz --seconds $(FUZZ_SECONDS) --jobs $(JOBS) $(FUZZFLAGS)
fuzz-programs: $(FUZZ_TARGETS)

$(FUZZ_TARGETS): $(BUILD)/%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(BUILD)/libdaemon.a $(BUILD)/libctl.a $(BUILD)/libclient.a
	$(call say,LINK,$@)
	$(Q)$(LINK) -fsanitize=fuzzer $(addprefix -Wl$(,)--wrap=,$(FUZZ_WRAPS_$*)) -o $@ $^ \
	    $(call libs,$(PKGS_DAEMON) $(PKGS_CTL)) $(optional_libs) -lm

.PHONY: fuzz fuzz-programs
