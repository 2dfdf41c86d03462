# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/slurm/preview.c \
	runtime/slurm/promise.c \
	runtime/slurm/promise.h \
	runtime/slurm/script.c \
	runtime/slurm/script.h \
	runtime/slurm/settings.c \
	runtime/slurm/settings.h \
	runtime/slurm/size.c \
	runtime/slurm/size.h \
	runtime/slurm/slurm_request.c \
	runtime/slurm/slurm_request.h \
	runtime/slurm/slurm_world.c \
	runtime/slurm/slurm_world.h \
	runtime/slurm/submission.c \
	runtime/slurm/submission.h \
	# End of runtime/slurm
