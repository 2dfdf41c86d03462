# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/model/family/config.c \
	runtime/model/family/config_compare.c \
	runtime/model/family/config_fields.c \
	runtime/model/family/config_format.c \
	runtime/model/family/config_layers.c \
	runtime/model/family/config_model.c \
	runtime/model/family/config_vision.c \
	runtime/model/family/family.c \
	runtime/model/family/family.h \
	runtime/model/family/model_config.h \
	runtime/model/family/model_rope.c \
	runtime/model/family/names.c \
	runtime/model/family/params.c \
	runtime/model/family/roles.h \
	# End of runtime/model/family

# The files of text/, and of vision/, as one source with a list of them,
# anew when a file comes or goes
EXTRA_DIST += runtime/model/family/text runtime/model/family/vision \
	runtime/model/family/families.awk
CLEANFILES += runtime/model/family/text.inc runtime/model/family/vision.inc
runtime/model/family/family.$(OBJEXT): runtime/model/family/text.inc \
	runtime/model/family/vision.inc
runtime/model/family/text.inc: $(srcdir)/runtime/model/family/text \
		runtime/model/family/families.awk
	$(AM_V_GEN)$(MKDIR_P) runtime/model/family && \
	(cd $(srcdir)/runtime/model/family/text && ls *.c) | LC_ALL=C sort | \
		$(AWK) -v folder=text -v type=dt_family -v kind=dt_family \
			-v list=dt_families \
			-f $(srcdir)/runtime/model/family/families.awk >$@.tmp && \
		mv $@.tmp $@
runtime/model/family/vision.inc: $(srcdir)/runtime/model/family/vision \
		runtime/model/family/families.awk
	$(AM_V_GEN)$(MKDIR_P) runtime/model/family && \
	(cd $(srcdir)/runtime/model/family/vision && ls *.c) | LC_ALL=C sort | \
		$(AWK) -v folder=vision -v type=dt_vision_family \
			-v kind=dt_vision -v list=dt_vision_families \
			-f $(srcdir)/runtime/model/family/families.awk >$@.tmp && \
		mv $@.tmp $@
