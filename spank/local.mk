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
	runtime/base/net.c \
	runtime/base/net.h \
	runtime/base/secret.c \
	runtime/base/secret.h \
	runtime/base/str.c \
	runtime/base/str.h \
	runtime/base/terminal.c \
	runtime/base/terminal.h \
	runtime/base/thread.c \
	runtime/base/thread.h \
	runtime/contract/contract.h \
	runtime/contract/variables.c \
	runtime/contract/variables.h \
	spank/hostlist.c \
	spank/hostlist.h \
	spank/options.c \
	spank/options.h \
	spank/siteconf.c \
	spank/siteconf.h \
	spank/srun/advice.c \
	spank/srun/advice.h \
	spank/srun/apply.c \
	spank/srun/apply.h \
	spank/srun/argv.c \
	spank/srun/argv.h \
	spank/srun/change.c \
	spank/srun/change.h \
	spank/srun/deadline.c \
	spank/srun/deadline.h \
	spank/srun/inherited.c \
	spank/srun/inherited.h \
	spank/srun/pmix.c \
	spank/srun/pmix.h \
	spank/srun/preflight.c \
	spank/srun/preflight.h \
	spank/srun/requeue.c \
	spank/srun/requeue.h \
	spank/srun/srun_check.c \
	spank/srun/srun_check.h \
	spank/srun/srun_child.c \
	spank/srun/srun_child.h \
	spank/srun/srun_console.c \
	spank/srun/srun_console.h \
	spank/srun/srun_layout.c \
	spank/srun/srun_layout.h \
	spank/srun/srun_overrides.c \
	spank/srun/srun_overrides.h \
	spank/srun/submit.c \
	spank/srun/submit.h \
	spank/srun/token.c \
	spank/srun/token.h \
	spank/task/elf.c \
	spank/task/elf.h \
	spank/task/gpu.c \
	spank/task/gpu.h \
	spank/task/port.c \
	spank/task/port.h \
	spank/task/program.c \
	spank/task/program.h \
	spank/task/siteenv.c \
	spank/task/siteenv.h \
	spank/task/task.c \
	spank/task/task.h \
	spank/task/task_cpu.c \
	spank/task/task_cpu.h \
	spank/task/task_facts.c \
	spank/task/task_facts.h \
	spank/task/task_limits.c \
	spank/task/task_limits.h \
	spank/task/task_net.c \
	spank/task/task_net.h \
	spank/task/task_record.c \
	spank/task/task_record.h \
	spank/task/task_step.c \
	spank/task/task_step.h \
	spank/task/task_watch.c \
	spank/task/task_watch.h \
	spank/task/topology.c \
	spank/task/topology.h \
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
