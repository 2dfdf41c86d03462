# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/doctor/address.c \
	runtime/doctor/address.h \
	runtime/doctor/doctor.h \
	runtime/doctor/files.c \
	runtime/doctor/files.h \
	runtime/doctor/gather.c \
	runtime/doctor/judge.c \
	runtime/doctor/node.c \
	runtime/doctor/node.h \
	runtime/doctor/notes.c \
	runtime/doctor/notes.h \
	runtime/doctor/pairs.c \
	runtime/doctor/pairs.h \
	runtime/doctor/plugin.c \
	runtime/doctor/plugin.h \
	runtime/doctor/plugstack.c \
	runtime/doctor/plugstack.h \
	runtime/doctor/probe.c \
	runtime/doctor/rank_states.c \
	runtime/doctor/rank_states.h \
	runtime/doctor/ranks.c \
	runtime/doctor/ranks.h \
	runtime/doctor/report.c \
	runtime/doctor/report.h \
	runtime/doctor/slurm.c \
	runtime/doctor/stale.c \
	runtime/doctor/table.c \
	runtime/doctor/world.c \
	runtime/doctor/world.h \
	# End of runtime/doctor
