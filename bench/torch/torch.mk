# make bench-torch: torch's DataLoader and feedd side by side, what of it needs no GPU. make bench-torch-gpu: all of it,
# on this machine's. TORCHFLAGS='--only 1,4 --quick' and the like: see bench/torch/run.py --help. They write JSON under
# bench/results; make bench-torch-pictures draws what is there.

TORCHFLAGS   ?=
TORCH_PYTHON ?= $(BUILD)/venv/bin/python

bench-torch: python-torch
	+$(Q)$(again) all
	$(Q)$(TORCH_PYTHON) bench/torch/run.py --build $(BUILD) --device cpu $(TORCHFLAGS)
bench-torch-gpu: python-torch
	+$(Q)$(again) all
	$(Q)$(TORCH_PYTHON) bench/torch/run.py --build $(BUILD) --device cuda:0 $(TORCHFLAGS)
bench-torch-pictures: python-torch
	$(Q)$(TORCH_PYTHON) bench/torch/draw.py

.PHONY: bench-torch bench-torch-gpu bench-torch-pictures
