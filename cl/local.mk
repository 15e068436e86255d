# SPDX-License-Identifier: MIT
# Kernels are embedded. The list is read from the folder at each make and the table is replaced only
# when its text changes, so a kernel that is added, renamed or removed needs no line here.
nodist_src_libqwenrun_a_SOURCES = src/cl_sources.c
BUILT_SOURCES += src/cl_sources.c
CLEANFILES += src/cl_sources.c src/cl_sources.c.tmp
EXTRA_DIST += cl

src/cl_sources.c: always
	@$(MKDIR_P) src
	@$(SHELL) '$(srcdir)/cl/embed.sh' '$(srcdir)/cl' >$@.tmp || { rm -f $@.tmp; exit 1; }
	@if cmp -s $@.tmp $@; then rm -f $@.tmp; else echo "  GEN      $@"; mv -f $@.tmp $@; fi
