# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/train/resume/copies.c \
	runtime/train/resume/copies.h \
	runtime/train/resume/copies_impl.h \
	runtime/train/resume/copies_take.c \
	runtime/train/resume/flight.c \
	runtime/train/resume/progress.c \
	runtime/train/resume/restore.c \
	runtime/train/resume/resume.h \
	runtime/train/resume/resume_check.c \
	runtime/train/resume/resume_impl.h \
	runtime/train/resume/resume_verify.c \
	runtime/train/resume/run_state.c \
	runtime/train/resume/run_state.h \
	runtime/train/resume/save.c \
	runtime/train/resume/save_files.c \
	runtime/train/resume/save_shared.c \
	runtime/train/resume/settled.c \
	runtime/train/resume/settled.h \
	# End of runtime/train/resume
