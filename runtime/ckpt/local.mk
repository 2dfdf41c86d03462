# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/ckpt/ckpt.h \
	# End of runtime/ckpt
