# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/data/cache.c \
	runtime/data/cache.h \
	runtime/data/chat_tokens.c \
	runtime/data/data_impl.h \
	runtime/data/dataset.c \
	runtime/data/dataset.h \
	runtime/data/example.h \
	runtime/data/example_images.c \
	runtime/data/examples.c \
	runtime/data/examples.h \
	runtime/data/examples_make.c \
	runtime/data/image_text.c \
	runtime/data/image_text.h \
	runtime/data/image_tokens.c \
	runtime/data/jsonl.c \
	runtime/data/jsonl.h \
	runtime/data/mask.c \
	runtime/data/mask.h \
	runtime/data/preferences.c \
	runtime/data/preferences.h \
	runtime/data/prompt_line.c \
	runtime/data/prompts.c \
	runtime/data/prompts.h \
	runtime/data/prompts_impl.h \
	runtime/data/prompts_read.c \
	runtime/data/row_images.c \
	runtime/data/row_images.h \
	runtime/data/turn_images.c \
	runtime/data/turns.c \
	runtime/data/turns.h \
	# End of runtime/data
