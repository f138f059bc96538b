# make check-model searches the models in tests/model with spin, as they are and with each old defect put back.
# make check-litmus runs the litmus tests there. Debian does not package herd7, so this is not part of CI: give its path with HERD=.

HERD       ?= herd7
HERDFLAGS  ?=
MODELFLAGS ?=

check-model:
	$(Q)tools/install-dependencies.sh build model
	$(Q)tests/model/check.py --jobs $(JOBS) $(MODELFLAGS)

check-litmus:
	$(Q)tests/model/litmus.py --herd '$(HERD)' $(HERDFLAGS)

# GenMC on the ring's own code, and the client's and the transfer process's. Debian does not package GenMC either; give the
# path of the program that you built, with GENMC=. Without one, this says how to build it and fails.
GENMC      ?= genmc
GENMCFLAGS ?=

check-genmc: $(BUILD)/gen/feed.pb-c.h
	$(Q)tests/model/genmc.py --genmc '$(GENMC)' --build '$(BUILD)' --jobs $(JOBS) $(GENMCFLAGS)

.PHONY: check-model check-litmus check-genmc
