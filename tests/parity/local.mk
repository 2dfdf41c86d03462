# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += \
	tests/parity/test_adapters \
	tests/parity/test_chat_reference \
	tests/parity/test_decay \
	tests/parity/test_families \
	tests/parity/test_family_adapters \
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
	tests/parity/test_zero \
	# End of tests/parity

parity_common = \
	tests/parity/logits.h \
	tests/parity/reference.c \
	tests/parity/reference.h \
	tests/parity/rows.c \
	tests/parity/rows.h \
	tests/parity/subject.c \
	tests/parity/subject.h \
	# End of parity_common
parity_learner = tests/parity/learner.c tests/parity/learner.h
parity_trial = \
	tests/parity/trial.c tests/parity/trial.h \
	tests/unit/world.c tests/unit/world.h \
	$(parity_learner) $(parity_common)
tests_parity_test_adapters_SOURCES = \
	tests/parity/test_adapters.c $(parity_trial)
parity_variant = \
	tests/parity/logits.h \
	tests/parity/rows.c tests/parity/rows.h \
	tests/parity/subject.c tests/parity/subject.h \
	tests/parity/variant.c tests/parity/variant.h
tests_parity_test_families_SOURCES = \
	tests/parity/test_families.c $(parity_variant)
tests_parity_test_family_adapters_SOURCES = \
	tests/parity/test_family_adapters.c $(parity_variant)
tests_parity_test_model_dropout_SOURCES = \
	tests/parity/test_model_dropout.c $(parity_common)
tests_parity_test_model_gradients_SOURCES = \
	tests/parity/test_model_gradients.c $(parity_common)
tests_parity_test_model_logits_SOURCES = \
	tests/parity/test_model_logits.c $(parity_common)
tests_parity_test_model_sft_SOURCES = \
	tests/parity/test_model_sft.c $(parity_learner) $(parity_common) \
	tests/unit/world.c tests/unit/world.h
tests_parity_test_rollout_SOURCES = \
	tests/parity/test_rollout.c \
	tests/parity/completions.c tests/parity/completions.h $(parity_common)
tests_parity_test_offload_SOURCES = \
	tests/parity/test_offload.c $(parity_learner) $(parity_common)
tests_parity_test_value_head_SOURCES = \
	tests/parity/test_value_head.c $(parity_common)
tests_parity_test_hybrid_SOURCES = \
	tests/parity/test_hybrid.c $(parity_trial)
tests_parity_test_zero_SOURCES = \
	tests/parity/test_zero.c $(parity_trial)

tests_parity_test_preference_runs_SOURCES = \
	tests/parity/test_preference_runs.c tests/unit/world.c tests/unit/world.h
# The same with the module for GPUs on the CPU.
simt_parity = \
	tests/parity/simt_adapters.sh \
	tests/parity/simt_gradients.sh \
	tests/parity/simt_offload.sh
TESTS += $(simt_parity)
EXTRA_DIST += $(simt_parity)

# Against the reference library itself, where there is one.
noinst_PROGRAMS += tests/parity/logits_probe
tests_parity_logits_probe_SOURCES = \
	tests/parity/logits.h \
	tests/parity/logits_probe.c
if HAVE_BATS
TESTS += tests/parity/chain.bats tests/parity/transformers.bats
endif

EXTRA_DIST += \
	tests/parity/adapters \
	tests/parity/chain.bats \
	tests/parity/chat_reference.json \
	tests/parity/chat_tokenizer \
	tests/parity/decay.json \
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
	# End of tests/parity
