# SPDX-License-Identifier: MIT
# Presets are ours and replaced at each install; qwenrun.ini is there to be edited, so an existing one
# stays, and only one that is still as shipped is removed.
confdir = $(sysconfdir)/qwenrun
dist_conf_DATA = conf/tiny.ini conf/b70-strict.ini conf/b70.ini conf/b70-plain.ini conf/cpu.ini conf/ci.ini
EXTRA_DIST += conf/qwenrun.ini
install-data-local:
	@$(MKDIR_P) '$(DESTDIR)$(confdir)'
	@if test -e '$(DESTDIR)$(confdir)/qwenrun.ini'; then \
	    echo "  KEEP     $(DESTDIR)$(confdir)/qwenrun.ini"; \
	else \
	    $(INSTALL_DATA) '$(srcdir)/conf/qwenrun.ini' '$(DESTDIR)$(confdir)/qwenrun.ini'; \
	fi
uninstall-local:
	@if cmp -s '$(srcdir)/conf/qwenrun.ini' '$(DESTDIR)$(confdir)/qwenrun.ini'; then \
	    rm -f '$(DESTDIR)$(confdir)/qwenrun.ini'; \
	fi

# Our own folders go too, unless somebody keeps files there.
uninstall-hook:
	-@for folder in '$(confdir)' '$(tinydir)' '$(pkgdatadir)'; do \
	    rmdir "$(DESTDIR)$$folder" 2>/dev/null || :; \
	done

# For those who edit src/options.def: rewrite what is generated from it (tests/test_manual.sh compares).
update-options: tests/list_options$(EXEEXT)
	tests/list_options ini >'$(srcdir)/conf/qwenrun.ini'
	{ sed '/KEYS: /q' '$(srcdir)/man/qwenrun.ini.5' && tests/list_options mdoc && \
	  sed -n '/END OF KEYS/,$$p' '$(srcdir)/man/qwenrun.ini.5'; } >qwenrun.ini.5.tmp
	cp qwenrun.ini.5.tmp '$(srcdir)/man/qwenrun.ini.5' && rm -f qwenrun.ini.5.tmp
.PHONY: update-options
