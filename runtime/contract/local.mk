# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/contract/comment.c \
	runtime/contract/comment.h \
	runtime/contract/contract.h \
	runtime/contract/requeue_rule.c \
	runtime/contract/requeue_rule.h \
	runtime/contract/variables.c \
	runtime/contract/variables.h \
	# End of runtime/contract
