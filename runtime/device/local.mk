# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/device/device.c \
	runtime/device/device.h \
	runtime/device/device_cpu.c \
	runtime/device/device_energy.c \
	runtime/device/device_energy.h \
	runtime/device/device_memory.c \
	# End of runtime/device

cuda_sources += \
	runtime/device/device_cuda.c \
	runtime/device/device_cuda.h \
	runtime/device/device_cuda_error.c \
	runtime/device/device_cuda_gpu.c \
	runtime/device/device_cuda_laps.c \
	# End of cuda_sources
