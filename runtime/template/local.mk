# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/template/bounds.c \
	runtime/template/eval.c \
	runtime/template/filters.c \
	runtime/template/functions.c \
	runtime/template/lexer.c \
	runtime/template/list_filters.c \
	runtime/template/operators.c \
	runtime/template/parser.c \
	runtime/template/render.c \
	runtime/template/show.c \
	runtime/template/statements.c \
	runtime/template/string_methods.c \
	runtime/template/template.h \
	runtime/template/template_impl.h \
	runtime/template/template_text.c \
	runtime/template/template_values.c \
	# End of runtime/template
