# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += \
	tests/parity/test_adapters \
	tests/parity/test_chat_reference \
	tests/parity/test_decay \
	tests/parity/test_defaults \
	tests/parity/test_families \
	tests/parity/test_family_adapters \
	tests/parity/test_frozen_parts \
	tests/parity/test_hybrid \
	tests/parity/test_model_dropout \
	tests/parity/test_model_gradients \
	tests/parity/test_model_logits \
	tests/parity/test_model_sft \
	tests/parity/test_offload \
	tests/parity/test_preference_losses \
	tests/parity/test_preference_runs \
	tests/parity/test_preference_tokens \
	tests/parity/test_rollout \
	tests/parity/test_sampled_losses \
	tests/parity/test_schedules \
	tests/parity/test_score_at \
	tests/parity/test_template_parity \
	tests/parity/test_tokenizer_parity \
	tests/parity/test_value_head \
	tests/parity/test_vision \
	tests/parity/test_vision_chat \
	tests/parity/test_vision_decode \
	tests/parity/test_vision_sampled \
	tests/parity/test_zero \
	# End of tests/parity

# What tests share.
check_LIBRARIES += tests/parity/libparity.a
tests_parity_libparity_a_SOURCES = \
	tests/parity/claims.h \
	tests/parity/completions.c \
	tests/parity/completions.h \
	tests/parity/learner.c \
	tests/parity/learner.h \
	tests/parity/logits.h \
	tests/parity/picture_variant.c \
	tests/parity/picture_variant.h \
	tests/parity/reference.c \
	tests/parity/reference.h \
	tests/parity/rows.c \
	tests/parity/rows.h \
	tests/parity/subject.c \
	tests/parity/subject.h \
	tests/parity/trial.c \
	tests/parity/trial.h \
	tests/parity/variant.c \
	tests/parity/variant.h \
	# End of tests/parity

# The same with the module for GPUs on the CPU.
simt_parity = \
	tests/parity/simt_adapters.sh \
	tests/parity/simt_dropout.sh \
	tests/parity/simt_frozen_parts.sh \
	tests/parity/simt_gradients.sh \
	tests/parity/simt_offload.sh \
	tests/parity/simt_vision.sh \
	tests/parity/simt_vision_decode.sh \
	tests/parity/simt_vision_sampled.sh \
	# End of simt_parity
TESTS += $(simt_parity)
EXTRA_DIST += $(simt_parity)

# Against the reference library itself, where there is one.
noinst_PROGRAMS += tests/parity/logits_probe tests/parity/vision_dir
tests_parity_logits_probe_SOURCES = \
	tests/parity/logits.h \
	tests/parity/logits_probe.c
if HAVE_BATS
TESTS += tests/parity/chain.bats tests/parity/transformers.bats \
	tests/parity/vision_runs.bats
endif

EXTRA_DIST += \
	tests/parity/adapters \
	tests/parity/chain.bats \
	tests/parity/chat_reference.json \
	tests/parity/chat_tokenizer \
	tests/parity/decay.json \
	tests/parity/defaults.json \
	tests/parity/families.json \
	tests/parity/hunt.py \
	tests/parity/make_adapter_reference.py \
	tests/parity/make_chat_reference.py \
	tests/parity/make_decay_reference.py \
	tests/parity/make_family_reference.py \
	tests/parity/make_model_reference.py \
	tests/parity/make_nesting_reference.py \
	tests/parity/make_preference_reference.py \
	tests/parity/make_preference_runs.py \
	tests/parity/make_preference_tokens.py \
	tests/parity/make_sampled_reference.py \
	tests/parity/make_schedule_reference.py \
	tests/parity/make_template_reference.py \
	tests/parity/make_tokenizer_reference.py \
	tests/parity/make_vision_chat_reference.py \
	tests/parity/make_vision_names.py \
	tests/parity/make_vision_pairs.py \
	tests/parity/make_vision_reference.py \
	tests/parity/make_vision_runs.py \
	tests/parity/make_vision_sampled.py \
	tests/parity/models \
	tests/parity/nesting.json \
	tests/parity/pair_reference.json \
	tests/parity/peer.py \
	tests/parity/preference_runs.json \
	tests/parity/preference_tokens.json \
	tests/parity/preferences.json \
	tests/parity/sampled.json \
	tests/parity/schedules.json \
	tests/parity/stored.h \
	tests/parity/template_reference.json \
	tests/parity/template_snippets.txt \
	tests/parity/templates \
	tests/parity/tokenizers \
	tests/parity/transformers.bats \
	tests/parity/trial_page.py \
	tests/parity/trial_sinks.py \
	tests/parity/trial_trace.py \
	tests/parity/trial_vision_generate.py \
	tests/parity/vision.json \
	tests/parity/vision_chat.json \
	tests/parity/vision_formulas.py \
	tests/parity/vision_generate.bats \
	tests/parity/vision_models.py \
	tests/parity/vision_names.json \
	tests/parity/vision_pairs.json \
	tests/parity/vision_runs.bats \
	tests/parity/vision_runs.json \
	tests/parity/vision_sampled.json \
	tests/parity/vision_templates \
	tests/parity/vision_tokenizer \
	# End of tests/parity
