# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/conf/assign.c \
	runtime/conf/conf.h \
	runtime/conf/conf_impl.h \
	runtime/conf/data_files.c \
	runtime/conf/deepspeed.c \
	runtime/conf/deepspeed_keys.c \
	runtime/conf/dump.c \
	runtime/conf/expand.c \
	runtime/conf/explain.c \
	runtime/conf/foreign.c \
	runtime/conf/item.c \
	runtime/conf/json.c \
	runtime/conf/later.c \
	runtime/conf/list.c \
	runtime/conf/load.c \
	runtime/conf/names.c \
	runtime/conf/number.c \
	runtime/conf/overrides.c \
	runtime/conf/path.c \
	runtime/conf/reward.c \
	runtime/conf/secrets.c \
	runtime/conf/section.c \
	runtime/conf/tree.h \
	runtime/conf/value.c \
	runtime/conf/yaml.c \
	# End of runtime/conf
