# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/data/cache.c \
	runtime/data/cache.h \
	runtime/data/chat.c \
	runtime/data/chat.h \
	runtime/data/chat_render.c \
	runtime/data/chat_style.c \
	runtime/data/chat_style.h \
	runtime/data/data.h \
	runtime/data/dataset.c \
	runtime/data/examples.c \
	runtime/data/examples.h \
	runtime/data/examples_make.c \
	runtime/data/examples_make.h \
	runtime/data/jsonl.c \
	runtime/data/jsonl.h \
	runtime/data/loader.c \
	runtime/data/mask.c \
	runtime/data/mask.h \
	runtime/data/utf8.c \
	runtime/data/utf8.h \
	# End of runtime/data
