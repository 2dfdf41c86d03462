# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/device/device.c \
	runtime/device/device.h \
	runtime/device/device_cpu.c \
	runtime/device/memory.c \
	# End of runtime/device
