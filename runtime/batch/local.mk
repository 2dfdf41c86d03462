# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/batch/loader.c \
	runtime/batch/loader.h \
	runtime/batch/loader_most.c \
	runtime/batch/pack.c \
	runtime/batch/pair_rows.c \
	runtime/batch/pictures.c \
	runtime/batch/pictures.h \
	runtime/batch/rows.c \
	runtime/batch/rows.h \
	runtime/batch/rows_impl.h \
	runtime/batch/rows_read.c \
	# End of runtime/batch
