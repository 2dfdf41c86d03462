# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/cmd/cmd.h \
	runtime/cmd/cmd_check.c \
	runtime/cmd/cmd_console.c \
	runtime/cmd/cmd_doctor.c \
	runtime/cmd/cmd_export.c \
	runtime/cmd/cmd_generate.c \
	runtime/cmd/cmd_impl.h \
	runtime/cmd/cmd_info.c \
	runtime/cmd/cmd_keep.c \
	runtime/cmd/cmd_plan.c \
	runtime/cmd/cmd_prepare.c \
	runtime/cmd/cmd_report.c \
	runtime/cmd/cmd_sbatch.c \
	runtime/cmd/cmd_steps.c \
	runtime/cmd/cmd_top.c \
	runtime/cmd/cmd_trace.c \
	runtime/cmd/cmd_train.c \
	runtime/cmd/cmd_verify.c \
	runtime/cmd/command_line.c \
	runtime/cmd/generate.h \
	runtime/cmd/generate_file.c \
	runtime/cmd/generate_prompt.c \
	runtime/cmd/join.c \
	runtime/cmd/keep.c \
	runtime/cmd/plan_out.c \
	runtime/cmd/prepare_score.c \
	runtime/cmd/score.c \
	runtime/cmd/score.h \
	runtime/cmd/start.c \
	# End of runtime/cmd
