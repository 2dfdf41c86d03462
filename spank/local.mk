# SPDX-License-Identifier: Apache-2.0
#
# The plugin runs inside srun and, as root, inside slurmstepd: it links nothing
# but libc, shows nothing but what Slurm calls, and is hardened. It stays in
# memory (nodelete) because its thread may sleep on while srun exits. Everything
# but plugin.c is one convenience library, so that tests link the same objects.

spank_cppflags = -I$(top_srcdir) -I$(top_srcdir)/runtime $(SLURM_CPPFLAGS) \
	-DDTSPANK_RUNTIME='"$(bindir)/disttrain"'

if HAVE_SLURM
noinst_LTLIBRARIES = spank/libdtspank.la
spank_libdtspank_la_CPPFLAGS = $(spank_cppflags)
spank_libdtspank_la_CFLAGS = $(DT_CFLAGS) $(DT_HARDEN_CFLAGS)
spank_libdtspank_la_LDFLAGS = $(DT_LDFLAGS)
spank_libdtspank_la_SOURCES = \
	runtime/base/error.c \
	runtime/base/error.h \
	runtime/base/launcher.c \
	runtime/base/launcher.h \
	runtime/launch/contract.h \
	runtime/launch/variables.c \
	runtime/launch/variables.h \
	spank/advice.c \
	spank/advice.h \
	spank/argv.c \
	spank/argv.h \
	spank/change.c \
	spank/change.h \
	spank/check.c \
	spank/check.h \
	spank/child.c \
	spank/child.h \
	spank/console.c \
	spank/console.h \
	spank/cpu.c \
	spank/cpu.h \
	spank/deadline.c \
	spank/deadline.h \
	spank/elf.c \
	spank/elf.h \
	spank/facts.c \
	spank/facts.h \
	spank/gpu.c \
	spank/gpu.h \
	spank/hostlist.c \
	spank/hostlist.h \
	spank/inherited.c \
	spank/inherited.h \
	spank/layout.c \
	spank/layout.h \
	spank/limits.c \
	spank/limits.h \
	spank/net.c \
	spank/net.h \
	spank/options.c \
	spank/options.h \
	spank/pmix.c \
	spank/pmix.h \
	spank/port.c \
	spank/port.h \
	spank/preflight.c \
	spank/preflight.h \
	spank/program.c \
	spank/program.h \
	spank/requeue.c \
	spank/requeue.h \
	spank/record.c \
	spank/record.h \
	spank/siteconf.c \
	spank/siteconf.h \
	spank/siteenv.c \
	spank/siteenv.h \
	spank/step.c \
	spank/step.h \
	spank/submit.c \
	spank/submit.h \
	spank/task.c \
	spank/task.h \
	spank/topology.c \
	spank/topology.h \
	spank/watch.c \
	spank/watch.h \
	# End of spank_libdtspank_la_SOURCES

spank_LTLIBRARIES = spank/spank_disttrain.la
spank_spank_disttrain_la_CPPFLAGS = $(spank_cppflags)
spank_spank_disttrain_la_CFLAGS = $(spank_libdtspank_la_CFLAGS)
spank_spank_disttrain_la_LDFLAGS = -module -avoid-version -shared \
	-export-symbols-regex '^(plugin_|slurm_spank_)' -Wl,-z,nodelete \
	$(DT_LDFLAGS) $(DT_HARDEN_LDFLAGS)
spank_spank_disttrain_la_SOURCES = spank/plugin.c
spank_spank_disttrain_la_LIBADD = spank/libdtspank.la

dist_man_MANS += man/spank_disttrain.8

# Slurm has no use for libtool's own file, and libtool removes nothing without
# it.
install-data-hook:
	rm -f $(DESTDIR)$(spankdir)/spank_disttrain.la
uninstall-hook:
	rm -f $(DESTDIR)$(spankdir)/spank_disttrain.so
endif
