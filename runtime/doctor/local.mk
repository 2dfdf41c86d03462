# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/doctor/doctor.h \
	runtime/doctor/doctor_address.c \
	runtime/doctor/doctor_address.h \
	runtime/doctor/doctor_files.c \
	runtime/doctor/doctor_files.h \
	runtime/doctor/doctor_gather.c \
	runtime/doctor/doctor_notes.c \
	runtime/doctor/doctor_notes.h \
	runtime/doctor/doctor_plugin.c \
	runtime/doctor/doctor_plugin.h \
	runtime/doctor/doctor_report.c \
	runtime/doctor/doctor_report.h \
	runtime/doctor/doctor_table.c \
	runtime/doctor/doctor_world.c \
	runtime/doctor/doctor_world.h \
	runtime/doctor/judge.c \
	runtime/doctor/node.c \
	runtime/doctor/node.h \
	runtime/doctor/pairs.c \
	runtime/doctor/pairs.h \
	runtime/doctor/plugstack.c \
	runtime/doctor/plugstack.h \
	runtime/doctor/probe.c \
	runtime/doctor/rank_states.c \
	runtime/doctor/rank_states.h \
	runtime/doctor/ranks.c \
	runtime/doctor/ranks.h \
	runtime/doctor/slurm.c \
	runtime/doctor/stale.c \
	# End of runtime/doctor
