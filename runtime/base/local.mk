# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/base/background.c \
	runtime/base/background.h \
	runtime/base/cgroup.c \
	runtime/base/cgroup.h \
	runtime/base/child.c \
	runtime/base/child.h \
	runtime/base/choices.h \
	runtime/base/clock.c \
	runtime/base/clock.h \
	runtime/base/codec.c \
	runtime/base/codec.h \
	runtime/base/epoch.c \
	runtime/base/epoch.h \
	runtime/base/error.c \
	runtime/base/error.h \
	runtime/base/fault.c \
	runtime/base/fault.h \
	runtime/base/file.c \
	runtime/base/file.h \
	runtime/base/foreign.c \
	runtime/base/foreign.h \
	runtime/base/handshake.c \
	runtime/base/handshake.h \
	runtime/base/inherited.c \
	runtime/base/inherited.h \
	runtime/base/json.c \
	runtime/base/json.h \
	runtime/base/kind.c \
	runtime/base/kind.h \
	runtime/base/launcher.c \
	runtime/base/launcher.h \
	runtime/base/log.c \
	runtime/base/log.h \
	runtime/base/median.h \
	runtime/base/net.c \
	runtime/base/net.h \
	runtime/base/pattern.c \
	runtime/base/pattern.h \
	runtime/base/proc.c \
	runtime/base/proc.h \
	runtime/base/rankset.c \
	runtime/base/rankset.h \
	runtime/base/rng.c \
	runtime/base/rng.h \
	runtime/base/secret.c \
	runtime/base/secret.h \
	runtime/base/sha256.c \
	runtime/base/sha256.h \
	runtime/base/siphash.c \
	runtime/base/siphash.h \
	runtime/base/span.c \
	runtime/base/span.h \
	runtime/base/str.c \
	runtime/base/str.h \
	runtime/base/terminal.c \
	runtime/base/terminal.h \
	runtime/base/thread.c \
	runtime/base/thread.h \
	# End of runtime/base

cuda_sources += \
	runtime/base/clock.c \
	runtime/base/error.c \
	runtime/base/file.c \
	runtime/base/secret.c \
	# End of cuda_sources
