# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/cmd/check.c \
	runtime/cmd/cmd.h \
	runtime/cmd/command.c \
	runtime/cmd/console.c \
	runtime/cmd/contract.c \
	runtime/cmd/contract.h \
	runtime/cmd/doctor.c \
	runtime/cmd/doctor_ranks.c \
	runtime/cmd/export.c \
	runtime/cmd/generate.c \
	runtime/cmd/generate_file.c \
	runtime/cmd/generate_file.h \
	runtime/cmd/comment.c \
	runtime/cmd/comment.h \
	runtime/cmd/hang.c \
	runtime/cmd/hang.h \
	runtime/cmd/info.c \
	runtime/cmd/load.c \
	runtime/cmd/prepare.c \
	runtime/cmd/preview.c \
	runtime/cmd/preview.h \
	runtime/cmd/request.c \
	runtime/cmd/request.h \
	runtime/cmd/sbatch.c \
	runtime/cmd/settings.c \
	runtime/cmd/settings.h \
	runtime/cmd/speaker.c \
	runtime/cmd/speaker.h \
	runtime/cmd/text_out.c \
	runtime/cmd/text_out.h \
	runtime/cmd/train.c \
	runtime/cmd/usage.c \
	runtime/cmd/watch.c \
	runtime/cmd/watch.h \
	# End of runtime/cmd
