# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/reward/batch.c \
	runtime/reward/command.c \
	runtime/reward/impl.h \
	runtime/reward/kinds.c \
	runtime/reward/lanes.c \
	runtime/reward/model.c \
	runtime/reward/process.c \
	runtime/reward/process.h \
	runtime/reward/protocol.h \
	runtime/reward/reply.c \
	runtime/reward/request.c \
	runtime/reward/reward.h \
	runtime/reward/rewards.c \
	runtime/reward/rewards.h \
	runtime/reward/rules.c \
	runtime/reward/scorer.c \
	runtime/reward/scorer.h \
	runtime/reward/spawn.c \
	runtime/reward/text.c \
	runtime/reward/text.h \
	# End of runtime/reward

if HAVE_CURL
runtime_libdisttrain_a_SOURCES += \
	runtime/reward/curl.c \
	runtime/reward/curl.h \
	runtime/reward/http.c
else
runtime_libdisttrain_a_SOURCES += runtime/reward/http_none.c
endif
