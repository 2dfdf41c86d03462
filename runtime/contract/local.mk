# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/contract/contract.h \
	runtime/contract/variables.c \
	runtime/contract/variables.h \
	# End of runtime/contract
