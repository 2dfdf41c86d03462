# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/template/arguments.c \
	runtime/template/call.c \
	runtime/template/eval.c \
	runtime/template/exec.c \
	runtime/template/filters.c \
	runtime/template/functions.c \
	runtime/template/items.c \
	runtime/template/lexer.c \
	runtime/template/list_filters.c \
	runtime/template/memory.c \
	runtime/template/message.c \
	runtime/template/methods.c \
	runtime/template/nodes.c \
	runtime/template/operators.c \
	runtime/template/parser.c \
	runtime/template/precedence.c \
	runtime/template/render.c \
	runtime/template/show.c \
	runtime/template/statements.c \
	runtime/template/string_methods.c \
	runtime/template/syntax.h \
	runtime/template/template.h \
	runtime/template/template_run.h \
	runtime/template/template_text.c \
	runtime/template/template_values.c \
	runtime/template/tests.c \
	runtime/template/value.h \
	# End of runtime/template
