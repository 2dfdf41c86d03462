# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/launch/contract.h \
	runtime/launch/launch.h \
	# End of runtime/launch
