# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/model/acts.c \
	runtime/model/acts.h \
	runtime/model/adapter.c \
	runtime/model/adapter.h \
	runtime/model/adapter_config.c \
	runtime/model/attend.c \
	runtime/model/attend.h \
	runtime/model/block.c \
	runtime/model/block.h \
	runtime/model/config.c \
	runtime/model/config_compare.c \
	runtime/model/config_fields.c \
	runtime/model/config_fields.h \
	runtime/model/config_format.c \
	runtime/model/config_layers.c \
	runtime/model/config_parse.c \
	runtime/model/config_parse.h \
	runtime/model/config_rope.c \
	runtime/model/decode.c \
	runtime/model/decode.h \
	runtime/model/family.c \
	runtime/model/family.h \
	runtime/model/inputs.c \
	runtime/model/inputs.h \
	runtime/model/instance.c \
	runtime/model/instance.h \
	runtime/model/low_rank.c \
	runtime/model/low_rank.h \
	runtime/model/model.h \
	runtime/model/offload.c \
	runtime/model/params.c \
	runtime/model/params.h \
	runtime/model/rope_table.c \
	runtime/model/rope_table.h \
	runtime/model/score.c \
	runtime/model/score.h \
	runtime/model/transformer.c \
	runtime/model/transformer.h \
	# End of runtime/model

# The files of families/ as one source with a list of them, anew when a file
# comes or goes
EXTRA_DIST += runtime/model/families runtime/model/families.awk
CLEANFILES += runtime/model/families.inc
runtime/model/family.$(OBJEXT): runtime/model/families.inc
runtime/model/families.inc: $(srcdir)/runtime/model/families \
		runtime/model/families.awk
	$(AM_V_GEN)$(MKDIR_P) runtime/model && \
	(cd $(srcdir)/runtime/model/families && ls *.c) | LC_ALL=C sort | \
		$(AWK) -f $(srcdir)/runtime/model/families.awk >$@.tmp && \
		mv $@.tmp $@
