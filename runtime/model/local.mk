# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/model/acts.c \
	runtime/model/attend.c \
	runtime/model/block.c \
	runtime/model/decode.c \
	runtime/model/decode.h \
	runtime/model/graphs.c \
	runtime/model/graphs.h \
	runtime/model/inputs.c \
	runtime/model/instance.c \
	runtime/model/model.h \
	runtime/model/model_adapter.c \
	runtime/model/model_adapter.h \
	runtime/model/model_impl.h \
	runtime/model/projector.c \
	runtime/model/sparse_map.c \
	runtime/model/tower.c \
	runtime/model/tower_rows.c \
	runtime/model/transformer.c \
	runtime/model/whole.c \
	# End of runtime/model
