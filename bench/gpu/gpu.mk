# make bench-gpu compares what reaches a GPU with what the bus can carry. Its programs need nvcc to build but only the
# driver to run: the CUDA runtime is linked in. Without nvcc they are not built, and the target says so.

# That of a toolkit, with the CUDA runtime beside it.
GPU_NVCC := $(filter-out none,$(or $(NVCC),$(if $(filter-out 0,$(CUDA)),$(firstword \
                $(wildcard $(CUDA_HOME)/bin/nvcc) $(shell command -v nvcc 2>/dev/null)))))

# Code for current data centre GPUs, and code that older GPUs and (translated by the driver) newer ones can run.
GPU_CODE   ?= -gencode arch=compute_90,code=sm_90 -gencode arch=compute_75,code=compute_75
# Without exceptions and guarded statics, nothing from libstdc++ is needed to link.
NVCC_FLAGS := -std=c++17 -O2 -I. -Xcompiler -Wall,-Wextra,-fPIC,-D_GNU_SOURCE,-fno-exceptions,-fno-threadsafe-statics \
              $(if $(WERROR),-Werror all-warnings)
CUDA_RUNTIME = $(firstword $(wildcard $(addsuffix /libcudart_static.a,$(dir $(realpath $(GPU_NVCC)))../lib64 \
                   $(dir $(realpath $(GPU_NVCC)))../targets/$(shell uname -m)-linux/lib $(CUDA_HOME)/lib64 \
                   /usr/lib/$(shell $(CC) -print-multiarch)))) -ldl -lrt

GPU_BENCH_MAINS   := $(sort $(wildcard bench/gpu/bench_gpu_*.c))
GPU_BENCH_OBJECTS := $(call objects,$(filter-out $(GPU_BENCH_MAINS),$(sort $(wildcard bench/gpu/*.c)))) \
                     $(BUILD)/obj/bench/gpu/work_cuda.cu.o
GPU_BENCH         := $(patsubst bench/gpu/%.c,$(BUILD)/bench/%,$(GPU_BENCH_MAINS))

$(BUILD)/obj/%.cu.o: %.cu
	$(call say,NVCC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(GPU_NVCC) $(NVCC_FLAGS) $(GPU_CODE) -MMD -MP -c -o $@ $<

$(BUILD)/bench/bench_gpu_%: $(BUILD)/obj/bench/gpu/bench_gpu_%.o $(GPU_BENCH_OBJECTS) $(BUILD)/libfeed.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $^ $(call libs,$(PKGS_CLIENT)) $(CUDA_RUNTIME) -lm

$(BUILD)/obj/client/example.cu.o: NVCC_FLAGS += -Iclient
$(BUILD)/tests/example_gpu: $(BUILD)/obj/client/example.cu.o $(BUILD)/libfeed.a
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $^ $(call libs,$(PKGS_CLIENT)) $(CUDA_RUNTIME)

ifneq ($(GPU_NVCC),)
all: $(BUILD)/tests/example_gpu
bench-gpu-programs: $(GPU_BENCH) $(BUILD)/bench/bench_gen
else
bench-gpu-programs:
	@echo 'bench-gpu: nvcc was not found (CUDA_HOME=), so the GPU programs are not built'
endif

# BENCHFLAGS='--only gpu.delivered' and the like: see bench/gpu/run.py --help.
bench-gpu:
	+$(Q)$(again) $(if $(GPU_NVCC),all) bench-gpu-programs
	$(Q)$(if $(GPU_NVCC),bench/gpu/run.py --build $(BUILD) $(BENCHFLAGS))

.PHONY: bench-gpu bench-gpu-programs
