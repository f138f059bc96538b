# make mutate makes small mistakes in shm/, order/ and the supervisor's delivery, one at a time, and counts how many the unit tests
# notice. SHARE=0.05 of all of them, chosen by SEED; MUTATEFLAGS='--only shm/ring.c' and the like: see tests/mutate/mutate.py --help.

SHARE       ?= 0.05
MUTATEFLAGS ?=

mutate:
	$(Q)tools/install-dependencies.sh build check
	$(Q)CC='$(CC)' tests/mutate/mutate.py --build $(BUILD) --share $(SHARE) --seed $(or $(SEED),1) $(MUTATEFLAGS)

.PHONY: mutate
