# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/train/resume/progress.c \
	runtime/train/resume/progress.h \
	runtime/train/resume/restore.c \
	runtime/train/resume/resume.h \
	runtime/train/resume/resume_check.c \
	runtime/train/resume/resume_check.h \
	runtime/train/resume/save.c \
	runtime/train/resume/save_policy.c \
	# End of runtime/train/resume
