# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/slurm/preview.c \
	runtime/slurm/promise.c \
	runtime/slurm/promise.h \
	runtime/slurm/request.c \
	runtime/slurm/request.h \
	runtime/slurm/script.c \
	runtime/slurm/script.h \
	runtime/slurm/settings.c \
	runtime/slurm/settings.h \
	runtime/slurm/size.c \
	runtime/slurm/size.h \
	runtime/slurm/submission.c \
	runtime/slurm/submission.h \
	runtime/slurm/world.c \
	runtime/slurm/world.h \
	# End of runtime/slurm
