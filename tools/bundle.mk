# make bundle: one archive for machines without these libraries and without a package mirror. Everything except the C library
# is linked in, and the tests and measurements are included. Its users read tools/bundle/README.

BUNDLE        := $(BUILD)/bundle
BUNDLE_NAME    = feedd-$(VERSION)-linux-$(shell uname -m)
BUNDLE_LIBS   := uring uv inih protobuf-c xxhash lz4 zstd jpeg webp jansson ncursesw tinfo png16 z seccomp

# Without libsystemd, which has no static version, and the exporter, whose libmicrohttpd needs a dozen more. The run path is for libcmocka, which has none either and is included.
bundle:
	$(Q)tools/install-dependencies.sh build check python bench
	$(Q)tools/static-libraries.sh $(BUNDLE)/static $(BUNDLE_LIBS)
	+$(Q)$(again) BUILD=$(BUNDLE) HAVE_SYSTEMD= HAVE_MICROHTTPD= LDFLAGS="-L$(BUNDLE)/static -Wl,-rpath,'\$$\$$ORIGIN/../lib'" \
	    LIBFEED_TAKES=$(BUNDLE)/static/libprotobuf-c.a all unit integration-programs bench-programs bench-gpu-programs
	+$(Q)$(again) python
	$(Q)tools/make-bundle.sh $(BUNDLE) $(BUILD)/python $(BUILD)/$(BUNDLE_NAME).tar.gz

check-bundle: bundle
	$(Q)$(in_venv) tests/bundle.sh $(BUILD)/$(BUNDLE_NAME).tar.gz

.PHONY: bundle check-bundle
