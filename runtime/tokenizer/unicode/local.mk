# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/tokenizer/unicode/graphemes.c \
	runtime/tokenizer/unicode/graphemes.def \
	runtime/tokenizer/unicode/late.def \
	runtime/tokenizer/unicode/normal_forms.c \
	runtime/tokenizer/unicode/sets.def \
	runtime/tokenizer/unicode/span_text.c \
	runtime/tokenizer/unicode/unicode.c \
	runtime/tokenizer/unicode/unicode.h \
	# End of runtime/tokenizer/unicode
