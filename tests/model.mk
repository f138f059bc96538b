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

# And GenMC on the ring's own code: give the path of the program that you built, with LLVM 14, with GENMC=.
check-genmc:
	$(Q)tests/model/genmc.py --genmc '$(GENMC)' $(GENMCFLAGS)

.PHONY: check-model check-litmus check-genmc
