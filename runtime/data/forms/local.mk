# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/data/forms/arrow.c \
	runtime/data/forms/flat.c \
	runtime/data/forms/forms.c \
	runtime/data/forms/forms.h \
	runtime/data/forms/forms_impl.h \
	runtime/data/forms/json_lines.c \
	runtime/data/forms/parquet.c \
	runtime/data/forms/parquet_page.c \
	runtime/data/forms/read_array.c \
	runtime/data/forms/read_table.c \
	runtime/data/forms/thrift.c \
	# End of runtime/data/forms
