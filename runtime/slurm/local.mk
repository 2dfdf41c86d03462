# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/slurm/job.h \
	runtime/slurm/job_nodes.c \
	runtime/slurm/job_nodes.h \
	runtime/slurm/job_size.c \
	runtime/slurm/script.c \
	runtime/slurm/settings.c \
	runtime/slurm/slurm_impl.h \
	runtime/slurm/steps.c \
	runtime/slurm/submission.c \
	# End of runtime/slurm
