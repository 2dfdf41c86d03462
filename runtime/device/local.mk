# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/device/device.c \
	runtime/device/device.h \
	runtime/device/device_energy.c \
	runtime/device/huge.c \
	runtime/device/huge.h \
	runtime/device/locker.c \
	runtime/device/locker.h \
	# End of runtime/device

cuda_sources += \
	runtime/device/device_cuda.c \
	runtime/device/device_cuda.h \
	runtime/device/device_cuda_error.c \
	runtime/device/device_cuda_laps.c
