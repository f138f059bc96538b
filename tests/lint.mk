# make lint runs every static check, and no findings are allowed. $(BUILD)/lint has one stamp per file and check, so a
# second run looks only at what has changed. make format applies the layout that lint requires.

LINT         := $(BUILD)/lint
LINT_SOURCES := $(sort $(wildcard base/*.c order/*.c shm/*.c parquet/*.c block/*.c gpu/*.c proto/*.c client/*.c client/*/*.c client/*/*/*.c daemon/*.c daemon/*/*.c daemon/*/*/*.c bench/*.c bench/*/*.c tests/*/*.c))
LINT_HEADERS := $(sort $(wildcard base/*.h order/*.h shm/*.h parquet/*.h block/*.h gpu/*.h proto/*.h client/*.h client/*/*.h client/*/*/*.h daemon/*.h daemon/*/*.h daemon/*/*/*.h bench/*.h bench/*/*.h tests/*/*.h))
# Bash if their first line says so.
LINT_SCRIPTS := $(sort $(wildcard tools/*.sh tools/deb/feedd.p* systemd/close-socket tools/bundle/check tools/bundle/check-gpu tools/bundle/bench-gpu tools/bundle/bench-torch-gpu tools/bundle/bench.sh tools/bundle/storm tests/*.sh tests/*/*.sh bench/*.sh client/python/*.sh .ci/run))
LINT_PYTHON   = $(sort $(shell find bench client tests tools -name '*.py'))
LINT_MANUALS := $(sort $(wildcard client/*.[1-8] client/*/*.[1-8] daemon/*.[1-8])) $(BUILD)/man/feedd.conf.5

# Suppressed: memleak, because cppcheck does not know cleanup attributes; uninitvar, because it treats taking the address
# of an output as reading it (the compiler and clang-tidy check for both); the version test in generated code, whose
# macros are defined in a system header that cppcheck does not read.
CPPCHECK = cppcheck --quiet --inline-suppr --std=c11 --enable=warning,performance,portability --error-exitcode=1 \
            --suppress=missingIncludeSystem --suppress=memleak --suppress=uninitvar \
            --suppress='preprocessorErrorDirective:*/gen/*' --include=/usr/include/$(shell $(CC) -print-multiarch)/sys/queue.h \
            -D__linux__ -D__x86_64__ -D_GNU_SOURCE -I. -I$(BUILD)/gen
# gcc 12's -fanalyzer loses track of pointers that are stored through a cast and of cleanup attributes, and reports leaks;
# LeakSanitizer (make check-asan) finds real ones. Its null-dereference check assumes that a function that can return NULL
# does so here; clang-tidy's core.NullDereference needs a path.
ANALYZE := -fanalyzer -Wno-analyzer-malloc-leak -Wno-analyzer-fd-leak -Wno-analyzer-null-dereference -Werror

# How many states clang's analyzer looks at per function, if not 225,000, which take most of the time of `make lint`.
NODES :=
TIDY_NODES = $(if $(NODES),-Xclang -analyzer-config -Xclang max-nodes=$(NODES))

lint_stamps = $(patsubst %,$(LINT)/%.$(1),$(2))
# Tests run under the sanitizers (make check-asan); looking for paths through them would take half of all the time.
ANALYZED := $(filter-out tests/%,$(LINT_SOURCES))
$(LINT)/tests/%.c.o: ANALYZE := -Werror

lint:
	$(Q)tools/install-dependencies.sh build check python lint
	+$(Q)$(again) -k lint-sources lint-layout lint-scripts lint-python lint-models lint-manuals lint-tree
	@echo 'lint: no findings'
lint-sources: $(call lint_stamps,tidy,$(LINT_SOURCES)) $(call lint_stamps,cppcheck,$(ANALYZED))

# The example includes <feed.h>, like any program that is compiled against an installed libfeed.
$(LINT)/client/example.c.o $(LINT)/client/example.c.tidy: FLAGS += -Iclient

# The Python package's module uses Python's limited API, whose tables of names are not const. cppcheck does not read
# Python's headers, so the macros are defined for it here.
PYTHON_MODULE := $(wildcard client/python/native/*.c)
PYTHON_FLAGS = -DPy_LIMITED_API=0x030A0000 -Wno-write-strings \
    -isystem $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')
$(foreach source,$(PYTHON_MODULE),$(LINT)/$(source).o $(LINT)/$(source).tidy): FLAGS += $(PYTHON_FLAGS)
$(foreach source,$(PYTHON_MODULE),$(LINT)/$(source).cppcheck): CPPCHECK += -DPy_BEGIN_ALLOW_THREADS= -DPy_END_ALLOW_THREADS= -DPy_RETURN_NONE='return NULL'

# GCC's analyzer takes the number of a vector's words for their width.
$(LINT)/order/order_kernels.c.o: ANALYZE += -Wno-analyzer-shift-count-overflow

# Analyzed with CUDA's headers, as they are compiled; cppcheck does not read those and checks only our own code.
$(foreach source,$(wildcard gpu/gpu_cuda*.c),$(LINT)/$(source).o): $(CUDA_FOUND)
$(foreach source,$(wildcard gpu/gpu_cuda*.c),$(LINT)/$(source).o $(LINT)/$(source).tidy): FLAGS += $(CUDA_FLAGS)
$(foreach source,$(wildcard gpu/gpu_cuda*.c),$(LINT)/$(source).cppcheck): CPPCHECK += $(filter -D%,$(CUDA_FLAGS)) -DCUDA_VERSION=12000

# The compiler's analysis comes first: the other two stamps depend on its dependency file.
$(LINT)/%.c.o: %.c | $(BUILD)/gen/feed.pb-c.c
	$(call say,ANALYZE,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(FLAGS) $(call pkg,$(PKGS_DAEMON) $(PKGS_CTL)) -O2 $(ANALYZE) -MMD -MP -c -o $@ $<
$(LINT)/%.c.tidy: %.c $(LINT)/%.c.o .clang-tidy tests/.clang-tidy
	$(call say,TIDY,$<)
	$(Q)clang-tidy --quiet $< -- $(FLAGS) -Wno-unknown-warning-option $(TIDY_NODES) $(call pkg,$(PKGS_DAEMON) $(PKGS_CTL)) \
	    >$@.txt 2>&1 || { cat $@.txt; exit 1; }
	$(Q)touch $@
$(LINT)/%.c.cppcheck: %.c $(LINT)/%.c.o
	$(call say,CHECK,$<)
	$(Q)$(CPPCHECK) $<
	$(Q)touch $@

lint-layout:
	$(call say,FORMAT,$(words $(LINT_SOURCES) $(LINT_HEADERS)) files)
	$(Q)clang-format --dry-run -Werror $(LINT_SOURCES) $(LINT_HEADERS)
lint-scripts: $(BUILD)/completion/feedctl.bash
	$(call say,SHELL,$(LINT_SCRIPTS))
	$(Q)shellcheck $(LINT_SCRIPTS)
	$(Q)shellcheck --shell=bash $(BUILD)/completion/*.bash
# Unused imports and undefined names.
lint-python:
	$(call say,PYTHON,$(words $(LINT_PYTHON)) files)
	$(Q)pyflakes3 $(LINT_PYTHON)
# So that machines without GenMC notice when its harnesses no longer compile.
lint-models: $(BUILD)/gen/feed.pb-c.c
	$(call say,MODELS,tests/model/genmc.py)
	$(Q)tests/model/genmc.py --compiler '$(CC)' --build '$(BUILD)' --jobs $(JOBS)
lint-manuals: $(LINT_MANUALS)
	$(call say,MANDOC,$(LINT_MANUALS))
	$(Q)mandoc -T lint -W warning $(LINT_MANUALS)
lint-tree:
	$(call say,TREE,tests/tidy.py)
	$(Q)python3 tests/tidy.py --self-test
	$(Q)python3 tests/tidy.py

format:
	$(Q)clang-format -i $(LINT_SOURCES) $(LINT_HEADERS)

.PHONY: lint lint-sources lint-layout lint-scripts lint-python lint-models lint-manuals lint-tree format
-include $(shell find $(LINT) -name '*.d' 2>/dev/null)
