# make lint: every check of the text, with no finding allowed. One stamp a file, so that a second run looks only at what
# has changed; $(BUILD)/lint holds them. make format writes the layout that lint asks for.

LINT         := $(BUILD)/lint
LINT_SOURCES := $(sort $(wildcard base/*.c order/*.c shm/*.c gpu/*.c proto/*.c client/*.c client/*/*.c client/*/*/*.c daemon/*.c daemon/*/*.c daemon/*/*/*.c bench/*.c bench/*/*.c tests/*/*.c))
LINT_HEADERS := $(sort $(wildcard base/*.h order/*.h shm/*.h gpu/*.h proto/*.h client/*.h client/*/*.h client/*/*/*.h daemon/*.h daemon/*/*.h daemon/*/*/*.h bench/*.h bench/*/*.h tests/*/*.h))
# Bash where they say so; completion files are sourced by bash.
LINT_SCRIPTS := $(sort $(wildcard tools/*.sh tools/deb/* tools/bundle/check tools/bundle/check-gpu tools/bundle/bench-gpu tools/bundle/bench-torch-gpu tools/bundle/bench.sh tests/*.sh tests/*/*.sh bench/*.sh client/ctl/*.bash client/python/*.sh .ci/run))
LINT_MANUALS := $(sort $(wildcard client/*.[1-8] client/ctl/*.[1-8] daemon/*.[1-8])) $(BUILD)/man/feedd.conf.5

# Suppressed: memleak, because cppcheck does not know cleanup attributes; uninitvar, because it takes the address of an
# output for a read of it (the compiler and clang-tidy look for both); the version test of generated code, whose macros
# stand in a system header that cppcheck does not read.
CPPCHECK = cppcheck --quiet --inline-suppr --std=c11 --enable=warning,performance,portability --error-exitcode=1 \
            --suppress=missingIncludeSystem --suppress=memleak --suppress=uninitvar \
            --suppress='preprocessorErrorDirective:*/gen/*' --include=/usr/include/$(shell $(CC) -print-multiarch)/sys/queue.h \
            -D__linux__ -D__x86_64__ -D_GNU_SOURCE -I. -I$(BUILD)/gen
# -fanalyzer of gcc 12 loses track of pointers stored through a cast and of cleanup attributes, and then calls them leaked;
# LeakSanitizer (make check-asan) looks for leaks. Its null-dereference takes any NULL that a function can return for one that
# it does return here; clang-tidy's core.NullDereference asks for a path.
ANALYZE := -fanalyzer -Wno-analyzer-malloc-leak -Wno-analyzer-fd-leak -Wno-analyzer-null-dereference -Werror

lint_stamps = $(patsubst %,$(LINT)/%.$(1),$(LINT_SOURCES))

lint:
	$(Q)tools/install-dependencies.sh build check python lint
	+$(Q)$(again) -k lint-sources lint-layout lint-scripts lint-manuals lint-tree
	@echo 'lint: no findings'
lint-sources: $(call lint_stamps,tidy) $(call lint_stamps,cppcheck)

# The example includes <feed.h>, as a program does that is compiled where libfeed is installed.
$(LINT)/client/example.c.o $(LINT)/client/example.c.tidy: FLAGS += -Iclient

# The Python package's module, for Python's limited API, whose tables of names are not constant. Its headers are not read by
# cppcheck, which takes the macros for what they stand for.
PYTHON_MODULE := $(wildcard client/python/native/*.c)
PYTHON_FLAGS = -DPy_LIMITED_API=0x030A0000 -Wno-write-strings \
    -isystem $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')
$(foreach source,$(PYTHON_MODULE),$(LINT)/$(source).o $(LINT)/$(source).tidy): FLAGS += $(PYTHON_FLAGS)
$(foreach source,$(PYTHON_MODULE),$(LINT)/$(source).cppcheck): CPPCHECK += -DPy_BEGIN_ALLOW_THREADS= -DPy_END_ALLOW_THREADS= -DPy_RETURN_NONE='return NULL'

# With CUDA's headers, as they are compiled; cppcheck does not read them, so that it looks at what is written here alone.
$(foreach source,$(wildcard gpu/gpu_cuda*.c),$(LINT)/$(source).o): $(CUDA_FOUND)
$(foreach source,$(wildcard gpu/gpu_cuda*.c),$(LINT)/$(source).o $(LINT)/$(source).tidy): FLAGS += $(CUDA_FLAGS)
$(foreach source,$(wildcard gpu/gpu_cuda*.c),$(LINT)/$(source).cppcheck): CPPCHECK += $(filter -D%,$(CUDA_FLAGS)) -DCUDA_VERSION=12000

# The compiler's own analysis comes first: its dependency file is what the other two stamps go by.
$(LINT)/%.c.o: %.c | $(BUILD)/gen/feed.pb-c.c
	$(call say,ANALYZE,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(FLAGS) $(call pkg,$(PKGS_DAEMON) $(PKGS_CTL)) -O2 $(ANALYZE) -MMD -MP -c -o $@ $<
$(LINT)/%.c.tidy: %.c $(LINT)/%.c.o .clang-tidy tests/.clang-tidy
	$(call say,TIDY,$<)
	$(Q)clang-tidy --quiet $< -- $(FLAGS) -Wno-unknown-warning-option $(call pkg,$(PKGS_DAEMON) $(PKGS_CTL)) \
	    >$@.txt 2>&1 || { cat $@.txt; exit 1; }
	$(Q)touch $@
$(LINT)/%.c.cppcheck: %.c $(LINT)/%.c.o
	$(call say,CHECK,$<)
	$(Q)$(CPPCHECK) $<
	$(Q)touch $@

lint-layout:
	$(call say,FORMAT,$(words $(LINT_SOURCES) $(LINT_HEADERS)) files)
	$(Q)clang-format --dry-run -Werror $(LINT_SOURCES) $(LINT_HEADERS)
lint-scripts:
	$(call say,SHELL,$(LINT_SCRIPTS))
	$(Q)shellcheck $(LINT_SCRIPTS)
lint-manuals: $(LINT_MANUALS)
	$(call say,MANDOC,$(LINT_MANUALS))
	$(Q)mandoc -T lint -W warning $(LINT_MANUALS)
lint-tree:
	$(call say,TREE,tests/tidy.py)
	$(Q)python3 tests/tidy.py --self-test
	$(Q)python3 tests/tidy.py

format:
	$(Q)clang-format -i $(LINT_SOURCES) $(LINT_HEADERS)

.PHONY: lint lint-sources lint-layout lint-scripts lint-manuals lint-tree format
-include $(shell find $(LINT) -name '*.d' 2>/dev/null)
