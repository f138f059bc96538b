# feedd: see README.md for what the targets do. Everything that is built goes to $(BUILD).
#   make            the programs and libraries        make check        every test
#   make demo       a tour with Fashion-MNIST         make bench        measurements against limits
#   make python     the Python package as a wheel     make check-torch  its tests with PyTorch
#   make bundle     one archive that needs nothing else installed
#   make wheel      the Python package with feedd and feedctl in it
#   make pictures   those in docs/pictures             make check-prometheus   a Prometheus scrapes feedd-exporter
#   make bench-gpu  measurements of delivery to a GPU
#   make fuzz       made-up inputs for everything that reads what others wrote
#   make check-fault   every allocation and every system call fails once
#   make simulate   the daemon and its clients on a virtual clock, one scenario per seed
#   make storm      kills and pauses everything, again and again
# Variables: BUILD= SANITIZE=address,undefined|thread  CC=  CFLAGS=  V=1  DESTDIR=  PREFIX=  WERROR=1
#   CUDA_HOME=  a CUDA toolkit, 11.7 or newer. Only its headers and nvcc are used; without a toolkit they are fetched from
#               PyPI (CUDA_HOME=fetch: always). CUDA=0 builds without GPU support. Nothing is linked with CUDA: programs look
#               for the driver at run time.

BUILD    ?= build
PREFIX   ?= /usr/local
VERSION  := 0.1.0
CC       ?= cc
CFLAGS   ?= -O2 -g
SANITIZE ?=
WERROR   ?=

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' '$(1)' '$(2)')

PKGS_DAEMON := liburing libuv inih libprotobuf-c libxxhash liblz4 libzstd libjpeg libpng libwebp zlib
PKGS_CLIENT := libprotobuf-c
PKGS_CTL    := jansson ncursesw tinfo libxxhash libpng zlib liblz4 libzstd
PKGS_EXPORTER := libmicrohttpd
pkg = $(shell pkg-config --cflags $(1) 2>/dev/null)
libs = $(shell pkg-config --libs $(1) 2>/dev/null)
# What the daemon uses where it is there.
optional_libs = $(if $(HAVE_SYSTEMD),$(call libs,libsystemd)) $(if $(HAVE_SECCOMP),$(call libs,libseccomp))
HAVE_SYSTEMD = $(shell pkg-config --exists libsystemd 2>/dev/null && echo 1)
HAVE_MICROHTTPD = $(shell pkg-config --exists libmicrohttpd 2>/dev/null && echo 1)
HAVE_SECCOMP = $(shell pkg-config --exists libseccomp 2>/dev/null && echo 1)
# Whether libinih's line limit is a variable.
HAVE_INI_MAX_LINE := $(shell printf '#include <ini.h>\nint *most = &ini_max_line;\n' | \
                       $(CC) $(call pkg,inih) -fsyntax-only -x c - 2>/dev/null && echo 1)

# $(CUDA_FOUND) contains the folder of CUDA's headers, or nothing. Fetched headers go to CUDA_HEADERS, which builds in
# other folders share.
CUDA      ?= 1
CUDA_HOME ?= $(shell client/python/cuda.sh auto)
export CUDA_HEADERS ?= $(BUILD)/cuda
CUDA_FOUND := $(BUILD)/cuda.found
cuda_home   = $(shell cat $(CUDA_FOUND))
CUDA_FLAGS  = $(if $(cuda_home),-DHAVE_CUDA=1 $(if $(filter-out /usr,$(cuda_home)),-isystem $(cuda_home)/include))

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 -Wpointer-arith \
            -Wwrite-strings -Wundef -Wno-missing-field-initializers $(if $(WERROR),-Werror)
# Floating-point results must have the same bits on every machine: no fused multiply-add.
EXACT := -ffp-contract=off
# GCC 12's address sanitizer, when it detects uses after return, aligns locals to 32 bytes at most, and an aligned move of
# 64 bytes then faults. So the assembler, if it can, makes aligned moves unaligned; other builds, with which tests run too,
# keep them. Clang 14 aligns such locals, and refuses the option.
UNALIGNED := -Wa,-muse-unaligned-vector-move
sanitize = -fsanitize=$(1) -fno-omit-frame-pointer $(if $(findstring address,$(1)),$(shell \
           $(CC) $(UNALIGNED) -c -x c -o /dev/null /dev/null 2>/dev/null && echo '$(UNALIGNED)'))
SANITIZING := $(if $(SANITIZE),$(call sanitize,$(SANITIZE)))
FLAGS = -std=gnu11 -D_GNU_SOURCE -DFEEDD_VERSION='"$(VERSION)"' -I. -I$(BUILD)/gen \
        -isystem third_party/nanoarrow/src -isystem third_party/flatcc/include -fPIC -fvisibility=hidden -pthread \
        $(EXACT) $(WARNINGS) $(SANITIZING) \
        $(if $(HAVE_SYSTEMD),-DHAVE_SYSTEMD=1) $(if $(HAVE_SECCOMP),-DHAVE_SECCOMP=1) \
        $(if $(HAVE_INI_MAX_LINE),-DHAVE_INI_MAX_LINE=1)
LINK = $(CC) $(CFLAGS) -pthread $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(LDFLAGS)

# Each folder is a component made of all its .c files, except the main programs named here.
BASE_SOURCES   := $(sort $(wildcard base/*.c order/*.c))
SHM_SOURCES    := $(sort $(wildcard shm/*.c))
BLOCK_SOURCES  := $(sort $(wildcard parquet/*.c block/*.c))
GPU_SOURCES    := $(sort $(wildcard gpu/*.c))
PROTO_SOURCES  := $(sort $(wildcard proto/*.c))
CLIENT_SOURCES := $(sort $(wildcard client/lib/*.c))
CTL_SOURCES    := $(sort $(wildcard client/ctl/*.c client/ctl/*/*.c))
EXPORTER_SOURCES := $(sort $(wildcard client/exporter/*.c))
DAEMON_SOURCES := $(sort $(filter-out daemon/main.c,$(wildcard daemon/*.c daemon/*/*.c daemon/*/*/*.c)))
VENDORED_SOURCES := third_party/flatcc/src/runtime/verifier.c
UNIT_TESTS     := $(sort $(wildcard tests/unit/test_*.c))
BENCH_SOURCES  := $(sort $(wildcard bench/bench_*.c))

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
GENERATED := $(BUILD)/gen/feed.pb-c.c

# Without libmicrohttpd there is no exporter.
all: $(BUILD)/feedd $(BUILD)/feedctl $(if $(HAVE_MICROHTTPD),$(BUILD)/feedd-exporter) $(BUILD)/libfeed.so $(BUILD)/libfeed.a

$(BUILD)/gen/feed.pb-c.c: proto/feed.proto
	$(call say,PROTOC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)protoc-c --c_out=$(@D) --proto_path=proto feed.proto
$(BUILD)/gen/feed.pb-c.h: $(BUILD)/gen/feed.pb-c.c

$(BUILD)/obj/%.o: %.c | $(BUILD)/gen/feed.pb-c.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(FLAGS) $(call pkg,$(PKGS_DAEMON) $(PKGS_CTL)) $(CFLAGS) -MMD -MP -c -o $@ $<

# Determined in every run, but written only when the result changes. Several makes may do that at once.
$(CUDA_FOUND): FORCE
	$(Q)mkdir -p $(@D)
	$(Q)new=$@.$$$$; CUDA_HOME='$(CUDA_HOME)' PYTHON='$(PYTHON)' \
	    client/python/cuda.sh $(if $(filter 0,$(CUDA)),none,auto) '$(abspath $(CUDA_HEADERS))' >"$$new" || exit; \
	    if cmp -s "$$new" $@; then rm "$$new"; else mv "$$new" $@; fi
FORCE:

# Only these files are compiled with CUDA's headers.
$(call objects,$(wildcard gpu/gpu_cuda*.c) tests/unit/test_gpu.c): $(CUDA_FOUND)
$(call objects,$(wildcard gpu/gpu_cuda*.c)): FLAGS += $(CUDA_FLAGS)
$(call objects,tests/unit/test_gpu.c): FLAGS += $(filter -D%,$(CUDA_FLAGS))

# The kernel that finishes images, for each architecture from sm_70 on that this nvcc knows, and as PTX for those to come.
# Without nvcc (NVCC=none: without any), the file is empty, and images are decoded on the CPU. $(NVCC_FOUND) has its path, or
# nothing.
NVCC_FOUND := $(BUILD)/nvcc.found
nvcc        = $(shell cat $(NVCC_FOUND))
FINISH     := $(BUILD)/gen/finish.fatbin
$(NVCC_FOUND): $(CUDA_FOUND) FORCE
	$(Q)home='$(cuda_home)'; found='$(NVCC)'; [ -n "$$home" ] || found=none; \
	    if [ -z "$$found" ] && [ -x "$$home/bin/nvcc" ]; then found=$$home/bin/nvcc; fi; \
	    [ -n "$$found" ] || found=$$(command -v nvcc) || found=none; \
	    [ "$$found" != none ] || found=; \
	    if [ -n "$$home" ] && [ -z "$$found" ]; then \
	        echo 'This builds without the kernel of `decode gpu`, as there is no nvcc: loaders will decode.' >&2; fi; \
	    [ -e $@ ] && [ "$$(cat $@)" = "$$found" ] || printf '%s\n' "$$found" >$@
$(FINISH): gpu/finish.cu gpu/finish_math.h shm/image_record.h tools/finish-kernel.sh $(NVCC_FOUND)
	$(if $(nvcc),$(call say,NVCC,$<))
	$(Q)mkdir -p $(@D)
	$(Q)$(if $(nvcc),tools/finish-kernel.sh '$(nvcc)' $< $@,: >$@)
$(call objects,gpu/gpu_cuda.c gpu/gpu_cuda_finish.c): $(FINISH)
$(call objects,gpu/gpu_cuda.c gpu/gpu_cuda_finish.c): \
    FLAGS += $(if $(nvcc),-DHAVE_FINISH=1 -DFINISH_FATBIN='"$(abspath $(FINISH))"')

$(BUILD)/obj/gen/feed.pb-c.o: $(BUILD)/gen/feed.pb-c.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(FLAGS) -w $(call pkg,$(PKGS_CLIENT)) $(CFLAGS) -MMD -MP -c -o $@ $<

# Our warnings are not for code of other projects.
$(call objects,$(VENDORED_SOURCES)): FLAGS += -w

COMMON_OBJECTS := $(call objects,$(BASE_SOURCES) $(SHM_SOURCES) $(GPU_SOURCES) $(PROTO_SOURCES)) $(BUILD)/obj/gen/feed.pb-c.o

define archive
	$(call say,AR,$@)
	$(Q)rm -f $@
	$(Q)ar qcs $@ $^
endef

# All of libfeed with its internal names, for feedctl, tests and benchmarks.
$(BUILD)/libclient.a: $(call objects,$(CLIENT_SOURCES)) $(COMMON_OBJECTS)
	$(archive)
# What applications link to: a single object with only the public names global, so that the others cannot clash with
# the application's. LIBFEED_TAKES: an archive to include, for systems without libprotobuf-c.
$(BUILD)/obj/libfeed.o: $(call objects,$(CLIENT_SOURCES)) $(COMMON_OBJECTS)
	$(Q)$(CC) -r -nostdlib -o $@ $^ $(LIBFEED_TAKES)
	$(Q)objcopy --localize-hidden $(if $(LIBFEED_TAKES),--wildcard --localize-symbol='protobuf_c_*') $@
$(BUILD)/libfeed.a: $(BUILD)/obj/libfeed.o
	$(archive)
$(BUILD)/libdaemon.a: $(call objects,$(DAEMON_SOURCES) $(BLOCK_SOURCES) $(VENDORED_SOURCES)) $(COMMON_OBJECTS)
	$(archive)
$(BUILD)/libctl.a: $(call objects,$(filter-out client/ctl/feedctl.c,$(CTL_SOURCES)) $(BLOCK_SOURCES))
	$(archive)

$(BUILD)/libfeed.so.0: $(call objects,$(CLIENT_SOURCES)) $(COMMON_OBJECTS) client/lib/libfeed.map
	$(call say,LINK,$@)
	$(Q)$(LINK) -shared -Wl,-soname,libfeed.so.0 -Wl,--version-script=client/lib/libfeed.map -o $@ \
	    $(filter %.o,$^) $(call libs,$(PKGS_CLIENT))
$(BUILD)/libfeed.so: $(BUILD)/libfeed.so.0
	$(Q)ln -sf libfeed.so.0 $@

$(BUILD)/feedd: $(BUILD)/obj/daemon/main.o $(BUILD)/libdaemon.a
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(call libs,$(PKGS_DAEMON)) $(optional_libs) -lm

$(BUILD)/feedctl: $(BUILD)/obj/client/ctl/feedctl.o $(BUILD)/libctl.a $(BUILD)/libclient.a
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(call libs,$(PKGS_CLIENT) $(PKGS_CTL)) -lm

$(BUILD)/feedd-exporter: $(call objects,$(EXPORTER_SOURCES)) $(BUILD)/libctl.a $(BUILD)/libclient.a
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(call libs,$(PKGS_EXPORTER)) $(if $(HAVE_SECCOMP),$(call libs,libseccomp)) -lm

$(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(BUILD)/libclient.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $^ $(call libs,$(PKGS_CLIENT) liburing jansson) -lm

# Those that measure parts of the daemon, or do in a loop what loaders do.
$(addprefix $(BUILD)/bench/,$(patsubst bench/%.c,%,$(filter bench/bench_image_%.c bench/bench_places.c,$(BENCH_SOURCES)))): \
  $(BUILD)/bench/%: $(BUILD)/obj/bench/%.o $(BUILD)/libdaemon.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $^ $(call libs,$(PKGS_DAEMON)) $(optional_libs) -lm

$(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.o $(BUILD)/libdaemon.a $(BUILD)/libctl.a $(BUILD)/libclient.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $^ $(call libs,$(PKGS_DAEMON) $(PKGS_CTL) cmocka) $(optional_libs) -lm

# Programs that the integration tests run besides feedd and feedctl.
$(BUILD)/tests/%: $(BUILD)/obj/tests/integration/%.o $(BUILD)/libfeed.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $^ $(call libs,$(PKGS_CLIENT))

# This one queues work on streams of the simulated GPU, which is not part of libfeed's interface.
$(BUILD)/tests/streams: $(BUILD)/obj/tests/integration/streams.o $(BUILD)/libclient.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $^ $(call libs,$(PKGS_CLIENT))

# This one is a part of the daemon by itself.
$(BUILD)/tests/image_dump: $(BUILD)/obj/tests/integration/image_dump.o $(BUILD)/libdaemon.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $^ $(call libs,$(PKGS_DAEMON)) $(optional_libs) -lm

# Restricts feedd as its unit does.
$(BUILD)/tests/restrict: $(BUILD)/obj/tests/integration/restrict.o
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $^ $(call libs,libseccomp)

# Resizes images that a test sends.
$(BUILD)/tests/resizer: $(BUILD)/obj/tests/integration/resizer.o $(BUILD)/libdaemon.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $^ $(call libs,$(PKGS_DAEMON)) $(optional_libs) -lm

# Preloaded into feedd.
$(BUILD)/tests/%.so: $(BUILD)/obj/tests/integration/%.o
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -shared -o $@ $^ -ldl

# Loaded by a unit test.
$(BUILD)/tests/fake_nvjpeg.so: $(BUILD)/obj/tests/unit/fake_nvjpeg.o
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -shared -o $@ $^

$(BUILD)/tests/test_peer_groups: LINK += -Wl,--wrap=malloc,--wrap=getsockopt
$(BUILD)/tests/test_transfer_images: LINK += -Wl,--wrap=jpeg_read_raw_data

$(BUILD)/tests/test_nvjpeg: | $(BUILD)/tests/fake_nvjpeg.so

$(BUILD)/bench/%.so: $(BUILD)/obj/bench/%.o
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -shared -o $@ $^ -ldl

# Loaded by the tests that compare operations on pixels with torchvision's.
$(BUILD)/tests/image_operations.so: $(BUILD)/obj/tests/python/image_operations.o $(BUILD)/libdaemon.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -shared -o $@ $^ -lm

# feedd with loaders and transfer processes that play one that has been taken over.
$(BUILD)/tests/hostile_feedd: $(BUILD)/obj/daemon/main.o $(BUILD)/obj/tests/integration/hostile_loader.o $(BUILD)/obj/tests/integration/hostile_transfer.o $(BUILD)/libdaemon.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -Wl,--wrap=control_send -o $@ $^ $(call libs,$(PKGS_DAEMON)) $(optional_libs) -lm

unit: $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(UNIT_TESTS))
integration-programs: $(addprefix $(BUILD)/tests/,consumer streams resizer failing_epoll.so slow_open.so hostile_feedd image_dump attempts.so failing_decoder.so scarce_decoder.so injection.so $(if $(HAVE_SECCOMP),restrict))
bench-programs: $(patsubst bench/%.c,$(BUILD)/bench/%,$(BENCH_SOURCES)) $(BUILD)/bench/slow_reads.so

# ---- Tests -----------------------------------------------------------------------------------------------------

JOBS ?= $(shell nproc)
# Parallel unless the caller gave -j.
again = $(MAKE) --no-print-directory $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(JOBS))
# TESTFLAGS='--only unit/test_ring*' and the like: see tests/run.py --help.
TESTFLAGS ?=

check:
	$(Q)tools/install-dependencies.sh build check python
	+$(Q)$(again) all unit integration-programs python
	$(Q)python3 tests/run.py --build $(BUILD) --jobs $(JOBS) $(TESTFLAGS)
# The tests of the Python package again, with PyTorch; fails if PyTorch is not available.
check-torch:
	$(Q)tools/install-dependencies.sh build check python
	+$(Q)$(again) all python-torch $(BUILD)/tests/image_operations.so
	$(Q)python3 tests/run.py --build $(BUILD) --jobs $(JOBS) --torch $(TESTFLAGS)
# The programs of docs/frameworks.md, in Lightning, Accelerate, transformers, Ray and torchrun, which it installs.
check-frameworks:
	$(Q)tools/install-dependencies.sh build check python
	+$(Q)$(again) all python $(BUILD)/frameworks/venv.done
	$(Q)python3 tests/run.py --build $(BUILD) --jobs $(JOBS) --slowness 2 --frameworks $(TESTFLAGS)
# The tests that depend on where batches are delivered, on a GPU of this machine. Fails if there is none.
GPU ?= cuda:0
check-gpu:
	$(Q)tools/install-dependencies.sh build check python
	+$(Q)$(again) all unit integration-programs python
	$(Q)python3 tests/run.py --build $(BUILD) --jobs $(JOBS) --slowness 4 --device $(GPU) $(TESTFLAGS)
check-asan:
	$(Q)tools/install-dependencies.sh build check
	+$(Q)$(again) BUILD=$(BUILD)/asan SANITIZE=address,undefined all unit integration-programs
	$(Q)python3 tests/run.py --build $(BUILD)/asan --jobs $(JOBS) --slowness 4 $(TESTFLAGS)
# The thread sanitizer sees one process, so this runs the unit tests, in which threads stand in for processes. It needs an
# address space that is not randomised (setarch -R).
check-tsan:
	$(Q)tools/install-dependencies.sh build check
	+$(Q)$(again) BUILD=$(BUILD)/tsan SANITIZE=thread unit
	$(Q)python3 tests/run.py --build $(BUILD)/tsan --jobs $(JOBS) --slowness 10 --unit --wrap 'setarch -R' $(TESTFLAGS)

# Checks that a machine without a CUDA toolkit builds with GPU support, and that one without a network too builds without it.
check-cuda-headers:
	$(Q)BUILD='$(BUILD)/no-toolkit' MAKE='$(MAKE)' tests/cuda-headers.sh

# Checks what we declare of nvJPEG against NVIDIA's header.
check-nvjpeg-header: $(CUDA_FOUND)
	$(Q)BUILD='$(BUILD)/nvjpeg' CUDA='$(cuda_home)' CC='$(CC)' tests/nvjpeg-header.sh

# Debian's Prometheus scrapes the exporter, and promtool checks the text. Downloads the package, but does not install it.
check-prometheus: all $(BUILD)/tests/consumer
	$(Q)tools/install-dependencies.sh build check
	$(Q)tests/check_prometheus.py --build $(BUILD)

# Loaders, then transfer processes, that write anything anywhere they can, for SECONDS each; make check does the same for
# eight seconds.
hostile: $(BUILD)/feedctl $(BUILD)/tests/consumer $(BUILD)/tests/hostile_feedd
	$(Q)HOSTILE_SECONDS=$(SECONDS) python3 tests/run.py --build $(BUILD) --jobs 1 --only 'integration/test_hostile_loader*'

# Whether one user's questions leave another user's consumer its share. Needs a quiet machine.
fairness: ROUNDS ?= 5
fairness: all
	$(Q)FAIRNESS_ROUNDS=$(ROUNDS) python3 tests/integration/runner.py --build $(BUILD) --jobs 1 --show tests/integration/test_fairness.py

# ---- Demo and measurements -------------------------------------------------------------------------------------

demo:
	$(Q)tools/install-dependencies.sh build demo
	+$(Q)$(again) all
	$(Q)BUILD=$(BUILD) tests/demo.sh
# BENCHFLAGS='--only host.grants' and the like: see bench/run.py --help.
bench:
	$(Q)tools/install-dependencies.sh build bench
	+$(Q)$(again) all bench-programs
	$(Q)bench/run.py --build $(BUILD) $(BENCHFLAGS)
# The pictures in docs/pictures, of programs that run: seven minutes, and some 150 MB of downloads besides PyTorch.
# PICTURES='screens dashboard timelines' are all.
pictures:
	$(Q)tools/install-dependencies.sh build python pictures
	+$(Q)$(again) all $(BUILD)/tests/consumer python-torch $(VENV)/pictures.done
	$(Q)tools/make-pictures.py $(BUILD) docs/pictures $(PICTURES)
# Everything that any target needs.
dependencies:
	$(Q)tools/install-dependencies.sh build demo check python lint bench fuzz

clean:
	$(Q)rm -rf $(BUILD)

include bench/gpu/gpu.mk
include bench/torch/torch.mk
include tests/lint.mk
include tests/fuzz.mk
include tests/fault.mk
include tests/simulate.mk
include tests/storm.mk
include tests/model.mk
include tests/mutate.mk
include tools/install.mk
include tools/python.mk
include tools/bundle.mk

.PHONY: FORCE all unit integration-programs bench-programs check check-torch check-frameworks check-gpu check-asan check-tsan check-cuda-headers check-nvjpeg-header check-prometheus hostile fairness demo bench pictures dependencies clean
.DELETE_ON_ERROR:
.SECONDARY:

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
