# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/data/alpaca.c \
	runtime/data/alpaca.h \
	runtime/data/cache.c \
	runtime/data/cache.h \
	runtime/data/chat_tokens.c \
	runtime/data/chat_tokens.h \
	runtime/data/dataset.c \
	runtime/data/dataset.h \
	runtime/data/example_options.h \
	runtime/data/examples.c \
	runtime/data/examples.h \
	runtime/data/examples_draft.c \
	runtime/data/examples_draft.h \
	runtime/data/examples_impl.h \
	runtime/data/examples_make.c \
	runtime/data/examples_quality.c \
	runtime/data/jsonl.c \
	runtime/data/jsonl.h \
	runtime/data/loader.c \
	runtime/data/loader.h \
	runtime/data/loader_fill.c \
	runtime/data/loader_fill.h \
	runtime/data/loader_options.h \
	runtime/data/mask.c \
	runtime/data/mask.h \
	runtime/data/micro.c \
	runtime/data/micro.h \
	runtime/data/pack.c \
	runtime/data/pack.h \
	runtime/data/pair.h \
	runtime/data/pair_rows.c \
	runtime/data/preference.c \
	runtime/data/preference.h \
	runtime/data/prompts.c \
	runtime/data/prompts.h \
	runtime/data/rows.c \
	runtime/data/rows.h \
	runtime/data/rows_impl.h \
	runtime/data/turns.c \
	runtime/data/turns.h \
	# End of runtime/data
	runtime/data/turns.h
