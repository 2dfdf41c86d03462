# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/reward/command.c \
	runtime/reward/lanes.c \
	runtime/reward/model.c \
	runtime/reward/process.c \
	runtime/reward/protocol.c \
	runtime/reward/reward.h \
	runtime/reward/reward_impl.h \
	runtime/reward/rewards.c \
	runtime/reward/rules.c \
	runtime/reward/scorer.c \
	runtime/reward/scorer.h \
	runtime/reward/text.c \
	# End of runtime/reward

if HAVE_CURL
runtime_libdisttrain_a_SOURCES += runtime/reward/http.c
else
runtime_libdisttrain_a_SOURCES += runtime/reward/http_none.c
endif
