# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/conf/batch.c \
	runtime/conf/check.c \
	runtime/conf/conf.h \
	runtime/conf/device.c \
	runtime/conf/distributed.c \
	runtime/conf/dump.c \
	runtime/conf/expects.c \
	runtime/conf/explain.c \
	runtime/conf/files.c \
	runtime/conf/keys_data.h \
	runtime/conf/keys_distributed.h \
	runtime/conf/keys_launch.h \
	runtime/conf/keys_optim.h \
	runtime/conf/later.c \
	runtime/conf/launch.c \
	runtime/conf/lint.c \
	runtime/conf/list.c \
	runtime/conf/load.c \
	runtime/conf/names.c \
	runtime/conf/notes.c \
	runtime/conf/notes.h \
	runtime/conf/number.c \
	runtime/conf/numerics.c \
	runtime/conf/path.c \
	runtime/conf/place.c \
	runtime/conf/read.h \
	runtime/conf/schema.c \
	runtime/conf/schema.h \
	runtime/conf/steps.c \
	runtime/conf/tree.h \
	runtime/conf/value.c \
	runtime/conf/yaml.c \
	# End of runtime/conf
