# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/cmd/check.c \
	runtime/cmd/cmd.h \
	runtime/cmd/command.c \
	runtime/cmd/console.c \
	runtime/cmd/doctor.c \
	runtime/cmd/doctor_rates.c \
	runtime/cmd/doctor_rates.h \
	runtime/cmd/export.c \
	runtime/cmd/generate.c \
	runtime/cmd/generate_file.c \
	runtime/cmd/generate_file.h \
	runtime/cmd/generate_ranks.c \
	runtime/cmd/generate_ranks.h \
	runtime/cmd/generate_score.c \
	runtime/cmd/generate_score.h \
	runtime/cmd/info.c \
	runtime/cmd/join.c \
	runtime/cmd/join.h \
	runtime/cmd/load.c \
	runtime/cmd/plan.c \
	runtime/cmd/plan_json.c \
	runtime/cmd/plan_out.h \
	runtime/cmd/plan_table.c \
	runtime/cmd/prepare.c \
	runtime/cmd/prepare_reference.c \
	runtime/cmd/prepare_reference.h \
	runtime/cmd/reward.c \
	runtime/cmd/sbatch.c \
	runtime/cmd/text_out.c \
	runtime/cmd/text_out.h \
	runtime/cmd/trace.c \
	runtime/cmd/train.c \
	runtime/cmd/usage.c \
	# End of runtime/cmd
