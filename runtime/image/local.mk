# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/image/decode_jpeg.c \
	runtime/image/decode_png.c \
	runtime/image/decode_webp.c \
	runtime/image/fetch.c \
	runtime/image/image.c \
	runtime/image/image.h \
	runtime/image/image_decode.c \
	runtime/image/image_impl.h \
	runtime/image/image_info.c \
	runtime/image/image_plan.c \
	runtime/image/image_rows.c \
	runtime/image/processor.c \
	runtime/image/processor.h \
	runtime/image/processor_files.c \
	runtime/image/resize.c \
	runtime/image/store.c \
	runtime/image/store.h \
	runtime/image/store_impl.h \
	runtime/image/store_unnamed.c \
	# End of runtime/image
