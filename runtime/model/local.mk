# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/model/config.c \
	runtime/model/gpt2.c \
	runtime/model/gpt2.h \
	runtime/model/gpt2_params.c \
	runtime/model/model.h \
	# End of runtime/model
