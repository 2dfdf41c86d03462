# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/model/acts.c \
	runtime/model/attend.c \
	runtime/model/block.c \
	runtime/model/config.c \
	runtime/model/config_compare.c \
	runtime/model/config_compose.c \
	runtime/model/config_fields.c \
	runtime/model/config_format.c \
	runtime/model/config_layers.c \
	runtime/model/config_model.c \
	runtime/model/config_vision.c \
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
	runtime/model/names.c \
	runtime/model/params.c \
	runtime/model/tower.c \
	runtime/model/tower_rows.c \
	runtime/model/transformer.c \
	runtime/model/whole.c \
	# End of runtime/model

# The files of families/, and of vision/, as one source with a list of them,
# anew when a file comes or goes
EXTRA_DIST += runtime/model/families runtime/model/vision \
	runtime/model/families.awk
CLEANFILES += runtime/model/families.inc runtime/model/vision.inc
runtime/model/family.$(OBJEXT): runtime/model/families.inc \
	runtime/model/vision.inc
runtime/model/families.inc: $(srcdir)/runtime/model/families \
		runtime/model/families.awk
	$(AM_V_GEN)$(MKDIR_P) runtime/model && \
	(cd $(srcdir)/runtime/model/families && ls *.c) | LC_ALL=C sort | \
		$(AWK) -v folder=families -v type=dt_family -v kind=dt_family \
			-v list=dt_families \
			-f $(srcdir)/runtime/model/families.awk >$@.tmp && \
		mv $@.tmp $@
runtime/model/vision.inc: $(srcdir)/runtime/model/vision \
		runtime/model/families.awk
	$(AM_V_GEN)$(MKDIR_P) runtime/model && \
	(cd $(srcdir)/runtime/model/vision && ls *.c) | LC_ALL=C sort | \
		$(AWK) -v folder=vision -v type=dt_vision_family \
			-v kind=dt_vision -v list=dt_vision_families \
			-f $(srcdir)/runtime/model/families.awk >$@.tmp && \
		mv $@.tmp $@
