# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/doctor/doctor.h \
	runtime/doctor/doctor_gather.c \
	runtime/doctor/doctor_impl.h \
	runtime/doctor/doctor_plugin.c \
	runtime/doctor/doctor_report.c \
	runtime/doctor/node.c \
	runtime/doctor/pairs.c \
	runtime/doctor/probe.c \
	runtime/doctor/rank_states.c \
	# End of runtime/doctor
