# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/tokenizer/added.c \
	runtime/tokenizer/bpe.c \
	runtime/tokenizer/charsmap.c \
	runtime/tokenizer/decoder.c \
	runtime/tokenizer/encode.c \
	runtime/tokenizer/json_keys.c \
	runtime/tokenizer/model_read.c \
	runtime/tokenizer/normalizer.c \
	runtime/tokenizer/piece.c \
	runtime/tokenizer/post_processor.c \
	runtime/tokenizer/pretokenizer.c \
	runtime/tokenizer/regex.c \
	runtime/tokenizer/sentencepiece.c \
	runtime/tokenizer/tokenizer.c \
	runtime/tokenizer/tokenizer.h \
	runtime/tokenizer/tokenizer_config.c \
	runtime/tokenizer/tokenizer_impl.h \
	runtime/tokenizer/unigram.c \
	runtime/tokenizer/vocab.c \
	runtime/tokenizer/words.c \
	# End of runtime/tokenizer
