# SPDX-License-Identifier: Apache-2.0
#
# Each target is built twice: with libFuzzer (configure CC=clang
# --enable-fuzzers, then `make fuzzers` and run it on a copy of its corpus), and
# as a test that replays the corpus.

check_PROGRAMS += tests/fuzz/replay_charsmap
tests_fuzz_replay_charsmap_SOURCES = tests/fuzz/fuzz_charsmap.c \
	tests/fuzz/replay.c
tests_fuzz_replay_charsmap_CPPFLAGS = $(AM_CPPFLAGS) \
	-DCORPUS='"charsmap"'

check_PROGRAMS += tests/fuzz/replay_sentencepiece
tests_fuzz_replay_sentencepiece_SOURCES = tests/fuzz/fuzz_sentencepiece.c \
	tests/fuzz/encode_any.h \
	tests/fuzz/replay.c
tests_fuzz_replay_sentencepiece_CPPFLAGS = $(AM_CPPFLAGS) \
	-DCORPUS='"sentencepiece"'

check_PROGRAMS += tests/fuzz/replay_conf
tests_fuzz_replay_conf_SOURCES = tests/fuzz/fuzz_conf.c tests/fuzz/replay.c
tests_fuzz_replay_conf_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"conf"'

check_PROGRAMS += tests/fuzz/replay_deepspeed
tests_fuzz_replay_deepspeed_SOURCES = tests/fuzz/fuzz_deepspeed.c \
	tests/fuzz/replay.c
tests_fuzz_replay_deepspeed_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"deepspeed"'

check_PROGRAMS += tests/fuzz/replay_history
tests_fuzz_replay_history_SOURCES = tests/fuzz/fuzz_history.c \
	tests/fuzz/replay.c
tests_fuzz_replay_history_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"history"'

check_PROGRAMS += tests/fuzz/replay_rates
tests_fuzz_replay_rates_SOURCES = tests/fuzz/fuzz_rates.c tests/fuzz/replay.c
tests_fuzz_replay_rates_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"rates"'

check_PROGRAMS += tests/fuzz/replay_reward
tests_fuzz_replay_reward_SOURCES = tests/fuzz/fuzz_reward.c tests/fuzz/replay.c
tests_fuzz_replay_reward_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"reward"'

check_PROGRAMS += tests/fuzz/replay_jsonl
tests_fuzz_replay_jsonl_SOURCES = tests/fuzz/fuzz_jsonl.c tests/fuzz/replay.c
tests_fuzz_replay_jsonl_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"jsonl"'

check_PROGRAMS += tests/fuzz/replay_rows
tests_fuzz_replay_rows_SOURCES = tests/fuzz/fuzz_rows.c tests/fuzz/replay.c
tests_fuzz_replay_rows_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"rows"'

check_PROGRAMS += tests/fuzz/replay_safetensors
tests_fuzz_replay_safetensors_SOURCES = tests/fuzz/fuzz_safetensors.c \
	tests/fuzz/replay.c
tests_fuzz_replay_safetensors_CPPFLAGS = $(AM_CPPFLAGS) \
	-DCORPUS='"safetensors"'

check_PROGRAMS += tests/fuzz/replay_status
tests_fuzz_replay_status_SOURCES = tests/fuzz/fuzz_status.c \
	tests/fuzz/replay.c
tests_fuzz_replay_status_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"status"'

check_PROGRAMS += tests/fuzz/replay_template
tests_fuzz_replay_template_SOURCES = tests/fuzz/fuzz_template.c \
	tests/fuzz/replay.c
tests_fuzz_replay_template_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"template"'

check_PROGRAMS += tests/fuzz/replay_tokenizer
tests_fuzz_replay_tokenizer_SOURCES = tests/fuzz/fuzz_tokenizer.c \
	tests/fuzz/encode_any.h \
	tests/fuzz/replay.c
tests_fuzz_replay_tokenizer_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"tokenizer"'

check_PROGRAMS += tests/fuzz/replay_image
tests_fuzz_replay_image_SOURCES = tests/fuzz/fuzz_image.c tests/fuzz/replay.c
tests_fuzz_replay_image_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"image"'

check_PROGRAMS += tests/fuzz/replay_image_info
tests_fuzz_replay_image_info_SOURCES = tests/fuzz/fuzz_image_info.c tests/fuzz/replay.c
tests_fuzz_replay_image_info_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"image"'

check_PROGRAMS += tests/fuzz/replay_image_fetch
tests_fuzz_replay_image_fetch_SOURCES = tests/fuzz/fuzz_image_fetch.c tests/fuzz/replay.c
tests_fuzz_replay_image_fetch_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"image_fetch"'

check_PROGRAMS += tests/fuzz/replay_processor
tests_fuzz_replay_processor_SOURCES = tests/fuzz/fuzz_processor.c tests/fuzz/replay.c
tests_fuzz_replay_processor_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"processor"'

check_PROGRAMS += tests/fuzz/replay_console
tests_fuzz_replay_console_SOURCES = tests/fuzz/fuzz_console.c \
	tests/fuzz/replay.c
tests_fuzz_replay_console_CPPFLAGS = $(AM_CPPFLAGS) -DCORPUS='"console"'

if HAVE_SLURM
check_PROGRAMS += tests/fuzz/replay_spank
tests_fuzz_replay_spank_SOURCES = tests/fuzz/fuzz_spank.c tests/fuzz/replay.c
tests_fuzz_replay_spank_CPPFLAGS = $(spank_cppflags) -DCORPUS='"spank"'
tests_fuzz_replay_spank_LDADD = $(spank_test_libs) $(LDADD)
endif

if FUZZERS
fuzz_targets = tests/fuzz/fuzz_charsmap tests/fuzz/fuzz_conf \
	tests/fuzz/fuzz_console tests/fuzz/fuzz_sentencepiece \
	tests/fuzz/fuzz_deepspeed tests/fuzz/fuzz_history \
	tests/fuzz/fuzz_image tests/fuzz/fuzz_image_fetch \
	tests/fuzz/fuzz_image_info tests/fuzz/fuzz_jsonl \
	tests/fuzz/fuzz_processor \
	tests/fuzz/fuzz_rates tests/fuzz/fuzz_reward \
	tests/fuzz/fuzz_rows tests/fuzz/fuzz_safetensors \
	tests/fuzz/fuzz_status tests/fuzz/fuzz_template \
	tests/fuzz/fuzz_tokenizer
if HAVE_SLURM
fuzz_targets += tests/fuzz/fuzz_spank
tests_fuzz_fuzz_spank_CPPFLAGS = $(spank_cppflags)
tests_fuzz_fuzz_spank_LDADD = $(spank_test_libs)
tests_fuzz_fuzz_spank_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
endif
EXTRA_PROGRAMS += $(fuzz_targets)
tests_fuzz_fuzz_charsmap_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_sentencepiece_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_conf_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_console_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_deepspeed_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_history_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_image_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_image_fetch_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_image_info_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_jsonl_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_processor_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_rates_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_reward_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_rows_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_safetensors_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_status_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_template_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_tokenizer_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
fuzzers: $(fuzz_targets)
.PHONY: fuzzers
endif

EXTRA_DIST += tests/fuzz/corpus
