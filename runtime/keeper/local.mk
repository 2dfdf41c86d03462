# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/keeper/agree.c \
	runtime/keeper/begin.c \
	runtime/keeper/claim.c \
	runtime/keeper/elect.c \
	runtime/keeper/errand.c \
	runtime/keeper/fence.c \
	runtime/keeper/guests.c \
	runtime/keeper/heed.c \
	runtime/keeper/host.c \
	runtime/keeper/keeper.c \
	runtime/keeper/keeper.h \
	runtime/keeper/keeper_impl.h \
	runtime/keeper/leader.c \
	runtime/keeper/life.c \
	runtime/keeper/link.c \
	runtime/keeper/members.c \
	runtime/keeper/outlook.c \
	runtime/keeper/pace.c \
	runtime/keeper/reach.c \
	runtime/keeper/relay.c \
	runtime/keeper/roster.c \
	runtime/keeper/tend.c \
	runtime/keeper/verdict.c \
	runtime/keeper/worker.c \
	# End of runtime/keeper
