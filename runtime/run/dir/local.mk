# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/run/dir/dir.h \
	runtime/run/dir/earlier.c \
	runtime/run/dir/events.c \
	runtime/run/dir/facts.c \
	runtime/run/dir/health.c \
	runtime/run/dir/hold.c \
	runtime/run/dir/output.c \
	runtime/run/dir/owner.c \
	runtime/run/dir/owner.h \
	runtime/run/dir/owner_impl.h \
	runtime/run/dir/owner_record.c \
	# End of runtime/run/dir
