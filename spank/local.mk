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
	runtime/base/job_id.c \
	runtime/base/job_id.h \
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
	runtime/contract/requeue_rule.c \
	runtime/contract/requeue_rule.h \
	runtime/contract/variables.c \
	runtime/contract/variables.h \
	spank/hostlist.c \
	spank/hostlist.h \
	spank/options.c \
	spank/options.h \
	spank/siteconf.c \
	spank/siteconf.h \
	spank/srun/argv.c \
	spank/srun/deadline.c \
	spank/srun/requeue.c \
	spank/srun/srun_console.c \
	spank/srun/srun_env.c \
	spank/srun/srun_impl.h \
	spank/srun/srun_overrides.c \
	spank/srun/srun_runtime.c \
	spank/srun/srun_slurm.c \
	spank/srun/submit.c \
	spank/srun/submit.h \
	spank/task/gpu.c \
	spank/task/program.c \
	spank/task/task_cpu.c \
	spank/task/task_env.c \
	spank/task/task_facts.c \
	spank/task/task_impl.h \
	spank/task/task_limits.c \
	spank/task/task_net.c \
	spank/task/task_record.c \
	spank/task/task_step.c \
	spank/task/task_step.h \
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
