# make python: the Python package as a wheel in $(BUILD)/wheel, unpacked in $(BUILD)/python, and installed into the virtual
# environment $(BUILD)/venv, in which the tests run. make python-torch: PyTorch into that environment too; make python-peers: and what
# the figures with photographs need. PYTHON= takes another interpreter.

PYTHON ?= python3
VENV   := $(BUILD)/venv
WHEEL  := $(BUILD)/wheel
# The sources of the wheel. The Makefile has its version and the list of libfeed's files.
WHEEL_SOURCES := Makefile $(BASE_SOURCES) $(SHM_SOURCES) $(GPU_SOURCES) $(PROTO_SOURCES) $(CLIENT_SOURCES) \
    $(filter-out client/python/feedd client/python/native,$(wildcard client/python/* client/python/native/* \
    client/python/feedd/*.py* client/python/feedd/doctor/*.py base/*.h order/*.h shm/*.h shm/*.def gpu/*.h gpu/*.cu gpu/*.def proto/*.h proto/*.proto client/*.h client/lib/*.h))
in_venv = PATH='$(abspath $(VENV))/bin':"$$PATH"

python: $(VENV)/feedd.done
python-torch: $(VENV)/feedd.done $(VENV)/torch.done
python-peers: python-torch $(VENV)/peers.done

$(VENV)/python.done $(VENV)/torch.done $(VENV)/peers.done $(VENV)/pictures.done: $(VENV)/%.done: DEPENDENCIES tools/make-venv.sh
	$(Q)tools/install-dependencies.sh build python
	$(call say,VENV,$* in $(VENV))
	$(Q)PYTHON='$(PYTHON)' tools/make-venv.sh $(VENV) $*
	$(Q)touch $@
$(VENV)/torch.done: $(VENV)/python.done
$(VENV)/peers.done $(VENV)/pictures.done: $(VENV)/torch.done
# Training frameworks have their own versions of much.
$(BUILD)/frameworks/venv.done: DEPENDENCIES tools/make-venv.sh
	$(Q)tools/install-dependencies.sh build python
	$(call say,VENV,frameworks in $(BUILD)/frameworks/venv)
	$(Q)PYTHON='$(PYTHON)' tools/make-venv.sh $(BUILD)/frameworks/venv frameworks
	$(Q)touch $@

# Only one wheel is kept, because its version does not identify its content.
$(WHEEL)/done: $(WHEEL_SOURCES) $(VENV)/python.done $(CUDA_FOUND)
	$(call say,WHEEL,client/python)
	$(Q)rm -rf $(WHEEL) $(BUILD)/python && mkdir -p $(WHEEL) $(BUILD)/obj
	$(Q)$(in_venv) CC='$(CC)' python -m pip wheel -qq \
	    --disable-pip-version-check --no-index --no-deps --no-build-isolation --wheel-dir '$(abspath $(WHEEL))' \
	    --config-settings build-dir='$(abspath $(BUILD))/obj/wheel' --config-settings setup-args=-Dtoolkit='$(or $(cuda_home),none)' ./client/python
	$(Q)$(in_venv) python -m zipfile -e $(WHEEL)/feedd-*.whl $(BUILD)/python
	$(Q)touch $@
$(VENV)/feedd.done: $(WHEEL)/done
	$(Q)$(in_venv) python -m pip install -qq --disable-pip-version-check --no-index --no-deps --force-reinstall $(WHEEL)/*.whl
	$(Q)touch $@

.PHONY: python python-torch python-peers
