# make bench-torch compares torch's DataLoader with feedd in the experiments that need no GPU; make bench-torch-gpu runs all
# of them on this machine's GPU. TORCHFLAGS='--only 1,4 --quick' and the like: see bench/torch/run.py --help. They write
# JSON to bench/results, from which make bench-torch-pictures draws pictures. make bench-image-pictures draws the records of
# bench/run.py and bench/gpu/run.py that are kept in bench/results/images.

TORCHFLAGS   ?=
TORCH_PYTHON ?= $(BUILD)/venv/bin/python

bench-torch: python-peers
	+$(Q)$(again) all
	$(Q)$(TORCH_PYTHON) bench/torch/run.py --build $(BUILD) --device cpu $(TORCHFLAGS)
bench-torch-gpu: python-peers
	+$(Q)$(again) all
	$(Q)$(TORCH_PYTHON) bench/torch/run.py --build $(BUILD) --device cuda:0 $(TORCHFLAGS)
bench-torch-pictures: python-torch
	$(Q)$(TORCH_PYTHON) bench/torch/draw.py
bench-image-pictures: python-torch
	$(Q)$(TORCH_PYTHON) bench/draw_images.py

.PHONY: bench-torch bench-torch-gpu bench-torch-pictures bench-image-pictures
