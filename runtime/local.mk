# SPDX-License-Identifier: Apache-2.0
#
# Everything but main.c is one convenience library, so that tests link the
# same objects as the program.

noinst_LIBRARIES += runtime/libdisttrain.a
runtime_libdisttrain_a_CPPFLAGS = -I$(top_srcdir)/runtime \
	$(YAML_CFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS) $(PMIX_CFLAGS)
runtime_libdisttrain_a_SOURCES = \
	runtime/base/error.c \
	runtime/base/error.h \
	runtime/launch/contract.h \
	# End of runtime_libdisttrain_a_SOURCES

runtime_libs = runtime/libdisttrain.a $(GLOO_LIBS) $(ONEDNN_LIBS) \
	$(PMIX_LIBS) $(YAML_LIBS) $(JANSSON_LIBS) $(XXHASH_LIBS)

bin_PROGRAMS += disttrain
disttrain_CPPFLAGS = $(runtime_libdisttrain_a_CPPFLAGS)
disttrain_SOURCES = runtime/cmd/main.c
disttrain_LDADD = $(runtime_libs)
