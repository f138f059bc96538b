# make install DESTDIR= PREFIX=, make uninstall, make deb. Paths in the units and in libfeed.pc follow PREFIX.
# make check-systemd: the packages under a systemd that boots in a container.

BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR    ?= $(PREFIX)/share
LIBEXECDIR ?= $(PREFIX)/libexec
# Everything stays below a private prefix, so that root is not needed.
SYSCONFDIR ?= $(if $(filter /usr /usr/local,$(PREFIX)),/etc,$(PREFIX)/etc)
SYSTEMDDIR ?= $(PREFIX)/lib

fill = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@BINDIR@|$(BINDIR)|g' -e 's|@LIBDIR@|$(LIBDIR)|g' \
           -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|g' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|g' \
           -e 's|@LIBEXECDIR@|$(LIBEXECDIR)|g' -e 's|@VERSION@|$(VERSION)|g'

# What the service has where feedd@.service, of a daemon per job or tenant, has the instance's.
the_service   = -e 's|@UNIT@|feedd|g' -e 's|@CONFIG@|feedd.conf|g' -e 's|@FOLDER@|feedd|g' -e 's|@OF_INSTANCE@||g'
each_instance = -e 's|@UNIT@|feedd@%i|g' -e 's|@CONFIG@|%i.conf|g' -e 's|@FOLDER@|feedd@%i|g' -e 's|@OF_INSTANCE@| (%i)|g'

# The option list comes from the program's own table.
$(BUILD)/man/feedd.conf.5: daemon/feedd.conf.5.in $(BUILD)/feedd
	$(call say,MAN,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BUILD)/feedd --help-config-man >$@.options
	$(Q)sed -e '/^@OPTIONS@$$/{r $@.options' -e 'd}' $< >$@

# What shells complete comes from the program's own tables too.
COMPLETION := $(BUILD)/completion
# Where Debian's packages put it, and everybody else.
ZSH_FOLDER  = $(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)
COMPLETED  := $(addprefix $(BUILD)/,feedctl feedd $(if $(HAVE_MICROHTTPD),feedd-exporter))
$(COMPLETION)/feedctl.bash: $(COMPLETED) tools/make-completions.py $(wildcard tools/completions/*.py)
	$(call say,SHELLS,$(COMPLETION))
	$(Q)python3 -B tools/make-completions.py $(COMPLETION) $(COMPLETED)

define completion_files
644 $(COMPLETION)/$(1).bash $(DATADIR)/bash-completion/completions/$(1)
644 $(COMPLETION)/_$(1) $(DATADIR)/zsh/$(ZSH_FOLDER)/_$(1)
644 $(COMPLETION)/$(1).fish $(DATADIR)/fish/vendor_completions.d/$(1).fish
endef

# What install puts where: MODE FILE TARGET. Templates, which end in .in, are filled in.
define installed_files
755 $(BUILD)/feedd $(BINDIR)/feedd
755 $(BUILD)/feedctl $(BINDIR)/feedctl
$(if $(HAVE_MICROHTTPD),$(exporter_files))
644 $(BUILD)/libfeed.so.0 $(LIBDIR)/libfeed.so.0
644 $(BUILD)/libfeed.a $(LIBDIR)/libfeed.a
644 client/feed.h $(INCLUDEDIR)/feed.h
644 client/lib/libfeed.pc.in $(LIBDIR)/pkgconfig/libfeed.pc
644 daemon/feedd.8 $(DATADIR)/man/man8/feedd.8
644 $(BUILD)/man/feedd.conf.5 $(DATADIR)/man/man5/feedd.conf.5
644 client/ctl/feedctl.1 $(DATADIR)/man/man1/feedctl.1
644 client/libfeed.3 $(DATADIR)/man/man3/libfeed.3
$(call completion_files,feedctl)
$(call completion_files,feedd)
755 systemd/close-socket $(LIBEXECDIR)/feedd/close-socket
644 systemd/feedd.service.in $(SYSTEMDDIR)/systemd/system/feedd.service
644 systemd/feedd.service.in $(SYSTEMDDIR)/systemd/system/feedd@.service
644 systemd/feedd.socket $(SYSTEMDDIR)/systemd/system/feedd.socket
644 systemd/feedd@.socket $(SYSTEMDDIR)/systemd/system/feedd@.socket
644 systemd/feedd.sysusers $(SYSTEMDDIR)/sysusers.d/feedd.conf
644 systemd/feedd.tmpfiles $(SYSTEMDDIR)/tmpfiles.d/feedd.conf
644 systemd/feedd.conf $(DATADIR)/doc/feedd/examples/feedd.conf
644 systemd/feedd-dashboard.json $(DATADIR)/doc/feedd/feedd-dashboard.json
644 client/example.c $(DATADIR)/doc/feedd/examples/example.c
644 README.md $(DATADIR)/doc/feedd/README.md
644 docs/data.md $(DATADIR)/doc/feedd/docs/data.md
644 docs/monitoring.md $(DATADIR)/doc/feedd/docs/monitoring.md
644 docs/frameworks.md $(DATADIR)/doc/feedd/docs/frameworks.md
644 docs/gpu.md $(DATADIR)/doc/feedd/docs/gpu.md
644 docs/images.md $(DATADIR)/doc/feedd/docs/images.md
644 docs/packed.md $(DATADIR)/doc/feedd/docs/packed.md
644 docs/pictures/dashboard.png $(DATADIR)/doc/feedd/docs/pictures/dashboard.png
644 docs/pictures/stats.png $(DATADIR)/doc/feedd/docs/pictures/stats.png
644 docs/pictures/top.png $(DATADIR)/doc/feedd/docs/pictures/top.png
644 docs/pictures/top-narrow.png $(DATADIR)/doc/feedd/docs/pictures/top-narrow.png
644 docs/pictures/timeline.png $(DATADIR)/doc/feedd/docs/pictures/timeline.png
644 docs/pictures/timeline-torch.png $(DATADIR)/doc/feedd/docs/pictures/timeline-torch.png
644 docs/profiling.md $(DATADIR)/doc/feedd/docs/profiling.md
644 docs/pytorch.md $(DATADIR)/doc/feedd/docs/pytorch.md
endef
define exporter_files
$(call completion_files,feedd-exporter)
755 $(BUILD)/feedd-exporter $(BINDIR)/feedd-exporter
644 client/exporter/feedd-exporter.8 $(DATADIR)/man/man8/feedd-exporter.8
644 systemd/feedd-exporter.service.in $(SYSTEMDDIR)/systemd/system/feedd-exporter.service
644 systemd/feedd-exporter.service.in $(SYSTEMDDIR)/systemd/system/feedd-exporter@.service
endef
export installed_files

# An administrator's feedd.conf is never overwritten.
install: all $(BUILD)/man/feedd.conf.5 $(COMPLETION)/feedctl.bash
	$(Q)printf '%s\n' "$$installed_files" | while read -r mode file target; do \
	    case $$file:$$target in \
	    :*) ;; \
	    *.in:*@.service) install -d "$(DESTDIR)$${target%/*}" && $(fill) $(each_instance) "$$file" >"$(DESTDIR)$$target" && \
	        chmod "$$mode" "$(DESTDIR)$$target" ;; \
	    *.in:*) install -d "$(DESTDIR)$${target%/*}" && $(fill) $(the_service) "$$file" >"$(DESTDIR)$$target" && \
	        chmod "$$mode" "$(DESTDIR)$$target" ;; \
	    *) install -D -m "$$mode" "$$file" "$(DESTDIR)$$target" ;; \
	    esac || exit 1; done
	$(Q)ln -sf libfeed.so.0 '$(DESTDIR)$(LIBDIR)/libfeed.so'
	$(Q)install -d -m 755 '$(DESTDIR)$(SYSCONFDIR)/feedd/datasets.d'
	$(Q)test -e '$(DESTDIR)$(SYSCONFDIR)/feedd/feedd.conf' || \
	    install -D -m 644 systemd/feedd.conf '$(DESTDIR)$(SYSCONFDIR)/feedd/feedd.conf'

# Removes what install put there, except feedd.conf.
uninstall:
	$(Q)printf '%s\n' "$$installed_files" | while read -r mode file target; do \
	    [ -z "$$target" ] || rm -f "$(DESTDIR)$$target"; done
	$(Q)rm -f '$(DESTDIR)$(LIBDIR)/libfeed.so'
	$(Q)rmdir -p --ignore-fail-on-non-empty '$(DESTDIR)$(DATADIR)/doc/feedd/examples' \
	    '$(DESTDIR)$(DATADIR)/doc/feedd/docs/pictures' '$(DESTDIR)$(LIBEXECDIR)/feedd' 2>/dev/null || true

# feedd, libfeed0, libfeed-dev, and python3-feedd for the Python of the system, in $(BUILD)/packages.
deb:
	$(Q)tools/install-dependencies.sh build package python
	+$(Q)$(again) all python
	$(Q)MAKE='$(MAKE) --no-print-directory' tools/make-deb.sh '$(BUILD)' '$(VERSION)' '$(BUILD)/python'

# Boots a container, so it needs root. SYSTEMDFLAGS="--only '*drain*'" runs some of the tests.
SYSTEMDFLAGS ?=
check-systemd:
	$(Q)tools/install-dependencies.sh systemd
	+$(Q)$(MAKE) --no-print-directory deb >$(BUILD)/deb.log 2>&1 || { cat $(BUILD)/deb.log; exit 1; }
	$(Q)tests/systemd/check.py --build $(BUILD) $(SYSTEMDFLAGS)

.PHONY: install uninstall deb check-systemd
