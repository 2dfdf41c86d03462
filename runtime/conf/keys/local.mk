# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/conf/keys/adapter.def \
	runtime/conf/keys/adapter_rules.c \
	runtime/conf/keys/checkpoint.def \
	runtime/conf/keys/data.def \
	runtime/conf/keys/data_rules.c \
	runtime/conf/keys/distributed.def \
	runtime/conf/keys/distributed_rules.c \
	runtime/conf/keys/dpo.def \
	runtime/conf/keys/draft.c \
	runtime/conf/keys/draft.h \
	runtime/conf/keys/function.def \
	runtime/conf/keys/grpo.def \
	runtime/conf/keys/key_rules.c \
	runtime/conf/keys/keys.h \
	runtime/conf/keys/launch.def \
	runtime/conf/keys/launch_rules.c \
	runtime/conf/keys/logging.def \
	runtime/conf/keys/model.def \
	runtime/conf/keys/optimizer.def \
	runtime/conf/keys/pair_rules.c \
	runtime/conf/keys/ppo.def \
	runtime/conf/keys/precision.def \
	runtime/conf/keys/precision_rules.c \
	runtime/conf/keys/print.c \
	runtime/conf/keys/reward.def \
	runtime/conf/keys/rm.def \
	runtime/conf/keys/rollout.def \
	runtime/conf/keys/run.def \
	runtime/conf/keys/sampled_rules.c \
	runtime/conf/keys/schedule_rules.c \
	runtime/conf/keys/scheduler.def \
	runtime/conf/keys/schema.c \
	runtime/conf/keys/schema.h \
	runtime/conf/keys/training.def \
	runtime/conf/keys/training_rules.c \
	# End of runtime/conf/keys
