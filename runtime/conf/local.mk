# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/conf/conf.h \
	runtime/conf/conf_impl.h \
	runtime/conf/deepspeed.c \
	runtime/conf/deepspeed_keys.c \
	runtime/conf/dump.c \
	runtime/conf/expand.c \
	runtime/conf/explain.c \
	runtime/conf/foreign_keys.c \
	runtime/conf/key_names.c \
	runtime/conf/lists.c \
	runtime/conf/load.c \
	runtime/conf/overrides.c \
	runtime/conf/reward_functions.c \
	runtime/conf/tree.h \
	runtime/conf/tree_json.c \
	runtime/conf/tree_yaml.c \
	runtime/conf/value.c \
	# End of runtime/conf
