# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/data/forms/arrow.h \
	runtime/data/forms/arrow_batch.c \
	runtime/data/forms/arrow_schema.c \
	runtime/data/forms/bytes.c \
	runtime/data/forms/flat.c \
	runtime/data/forms/flat.h \
	runtime/data/forms/line.c \
	runtime/data/forms/line.h \
	runtime/data/forms/line_out.c \
	runtime/data/forms/line_out.h \
	runtime/data/forms/lines.c \
	runtime/data/forms/lines.h \
	runtime/data/forms/parquet.h \
	runtime/data/forms/parquet_footer.c \
	runtime/data/forms/parquet_page.c \
	runtime/data/forms/read_array.c \
	runtime/data/forms/read_arrow.c \
	runtime/data/forms/read_parquet.c \
	runtime/data/forms/read_table.c \
	runtime/data/forms/reader.h \
	runtime/data/forms/row_json.c \
	runtime/data/forms/row_json.h \
	runtime/data/forms/snappy.c \
	runtime/data/forms/snappy.h \
	runtime/data/forms/stop.c \
	runtime/data/forms/stop.h \
	runtime/data/forms/thrift.c \
	runtime/data/forms/thrift.h \
	# End of runtime/data/forms
