# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += \
	tests/parity/test_chat_reference \
	tests/parity/test_decay \
	tests/parity/test_gpt2_gradients \
	tests/parity/test_gpt2_parity \
	tests/parity/test_schedules \
	tests/parity/test_tokenizer_parity \
	# End of tests/parity

EXTRA_DIST += \
	tests/parity/chat_reference.json \
	tests/parity/chat_tokenizer \
	tests/parity/decay.json \
	tests/parity/gpt2_tiny.json \
	tests/parity/gpt2_tiny.safetensors \
	tests/parity/make_chat_reference.py \
	tests/parity/make_decay_reference.py \
	tests/parity/make_gpt2_reference.py \
	tests/parity/make_model_reference.py \
	tests/parity/make_schedule_reference.py \
	tests/parity/make_tokenizer_reference.py \
	tests/parity/models \
	tests/parity/pair_reference.json \
	tests/parity/schedules.json \
	tests/parity/subject.h \
	tests/parity/tokenizers \
	# End of tests/parity
