# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/model/acts.c \
	runtime/model/attend.c \
	runtime/model/block.c \
	runtime/model/config.c \
	runtime/model/config_compare.c \
	runtime/model/config_fields.c \
	runtime/model/config_format.c \
	runtime/model/config_layers.c \
	runtime/model/decode.c \
	runtime/model/decode.h \
	runtime/model/family.c \
	runtime/model/family.h \
	runtime/model/inputs.c \
	runtime/model/instance.c \
	runtime/model/model.h \
	runtime/model/model_adapter.c \
	runtime/model/model_adapter.h \
	runtime/model/model_impl.h \
	runtime/model/model_rope.c \
	runtime/model/params.c \
	runtime/model/transformer.c \
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
