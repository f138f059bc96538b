# make mutate makes small mistakes in shm/, order/ and the supervisor's delivery, one at a time, and counts how many the tests
# notice. SHARE=0.05 of all of them, chosen by SEED; MUTATEFLAGS='--only shm/ring.c' and the like: see tests/mutate/mutate.py --help.

SHARE       ?= 0.05
MUTATEFLAGS ?=

# In a folder of its own, without debug information: a mutant that compiles to the same code is none.
mutate:
	$(Q)tools/install-dependencies.sh build check
	+$(Q)$(again) BUILD=$(BUILD)/mutate/asan CUDA=0 WERROR= CFLAGS='-O1 -g0' SANITIZE=address,undefined unit
	+$(Q)$(again) BUILD=$(BUILD)/mutate CUDA=0 WERROR= CFLAGS='-O2 -g0' mutate-there

# How to compile one file and to link one program, for tests/mutate/programs.py.
mutate-there: export MUTATE_COMPILE = $(CC) $(FLAGS) $(call pkg,$(PKGS_DAEMON) $(PKGS_CTL)) $(CFLAGS)
mutate-there: export MUTATE_SANITIZE = $(call sanitize,address$(,)undefined)
mutate-there: export MUTATE_LINK = $(LINK)
mutate-there: export MUTATE_LIBS = $(call libs,$(PKGS_DAEMON) $(PKGS_CTL) cmocka) $(optional_libs) -lm
mutate-there: export MUTATE_SIMULATE_WRAPS = $(addprefix -Wl$(,)--wrap=,$(SIMULATE_WRAPS))
mutate-there: unit $(BUILD)/simulate
	$(Q)python3 tests/mutate/mutate.py --build $(BUILD) --jobs $(JOBS) --share $(SHARE) --seed $(or $(SEED),1) $(MUTATEFLAGS)

.PHONY: mutate mutate-there
