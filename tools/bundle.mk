# make bundle: one archive for machines without these libraries and without a package mirror. Everything except the C library
# is linked in, and the tests and measurements are included. Its users read tools/bundle/README.

BUNDLE        := $(BUILD)/bundle
BUNDLE_NAME    = feedd-$(VERSION)-linux-$(shell uname -m)
BUNDLE_LIBS   := uring uv inih protobuf-c xxhash lz4 zstd jpeg webp jansson ncursesw tinfo png16 z seccomp

# Without libsystemd, which has no static version, and the exporter, whose libmicrohttpd needs a dozen more.
bundle_make = $(again) BUILD=$(BUNDLE) HAVE_SYSTEMD= HAVE_MICROHTTPD= LIBFEED_TAKES=$(BUNDLE)/static/libprotobuf-c.a
bundle-programs:
	$(Q)tools/install-dependencies.sh build
	$(Q)tools/static-libraries.sh $(BUNDLE)/static $(BUNDLE_LIBS)
	+$(Q)$(bundle_make) LDFLAGS=-L$(BUNDLE)/static $(BUNDLE)/feedd $(BUNDLE)/feedctl

# The run path is for libcmocka, which has no static version either and is included.
bundle: bundle-programs
	$(Q)tools/install-dependencies.sh build check python bench
	+$(Q)$(bundle_make) LDFLAGS="-L$(BUNDLE)/static -Wl,-rpath,'\$$\$$ORIGIN/../lib'" \
	    all unit integration-programs bench-programs bench-gpu-programs
	+$(Q)$(again) python
	$(Q)tools/make-bundle.sh $(BUNDLE) $(BUILD)/python $(BUILD)/$(BUNDLE_NAME).tar.gz

# make wheel: the Python package with these feedd and feedctl in it.
wheel: bundle-programs python
	$(Q)$(in_venv) python tools/make-wheel.py $(WHEEL)/feedd-*.whl $(BUNDLE) $(BUILD)
# In an environment of its own, for each of these Pythons: the oldest one too, where it is.
PYTHONS ?= $(PYTHON) $(shell python3.10 -c '' 2>/dev/null && echo python3.10)
check-wheel: wheel
	$(Q)tests/wheel.sh $(BUILD)/feedd-$(VERSION)-cp310-abi3-manylinux_2_34_$(shell uname -m).whl $(PYTHONS)

check-bundle: bundle
	$(Q)$(in_venv) tests/bundle.sh $(BUILD)/$(BUNDLE_NAME).tar.gz

.PHONY: bundle bundle-programs check-bundle wheel check-wheel
