# SPDX-License-Identifier: Apache-2.0
#
# The plugin runs inside srun and, as root, inside slurmstepd: it links nothing
# but libc, shows nothing but what Slurm calls, and is hardened.

EXTRA_DIST += contrib/plugstack/zz-disttrain.conf

spank_sources = \
	runtime/base/error.c \
	runtime/base/error.h \
	runtime/launch/contract.h \
	spank/argv.c \
	spank/argv.h \
	spank/check.c \
	spank/check.h \
	spank/hostlist.c \
	spank/hostlist.h \
	spank/options.c \
	spank/options.h \
	spank/siteconf.c \
	spank/siteconf.h \
	spank/step.c \
	spank/step.h \
	spank/submit.c \
	spank/submit.h \
	# End of spank_sources

spank_cppflags = -I$(top_srcdir) -I$(top_srcdir)/runtime $(SLURM_CPPFLAGS) \
	-DDTSPANK_RUNTIME='"$(bindir)/disttrain"'

if HAVE_SLURM
spank_LTLIBRARIES = spank/spank_disttrain.la
spank_spank_disttrain_la_CPPFLAGS = $(spank_cppflags)
spank_spank_disttrain_la_CFLAGS = $(DT_CFLAGS) -O2 -fstack-protector-strong \
	-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
spank_spank_disttrain_la_LDFLAGS = -module -avoid-version -shared \
	-export-symbols-regex '^(plugin_|slurm_spank_)' \
	-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack
spank_spank_disttrain_la_SOURCES = $(spank_sources) spank/plugin.c
spank_spank_disttrain_la_LIBADD =
endif
