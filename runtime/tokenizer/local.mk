# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/tokenizer/added.c \
	runtime/tokenizer/bpe.c \
	runtime/tokenizer/bpe_model.c \
	runtime/tokenizer/chat.c \
	runtime/tokenizer/chat.h \
	runtime/tokenizer/chat_apply.c \
	runtime/tokenizer/chat_impl.h \
	runtime/tokenizer/chat_named.c \
	runtime/tokenizer/chat_render.c \
	runtime/tokenizer/chat_trained.c \
	runtime/tokenizer/cut.c \
	runtime/tokenizer/decoder.c \
	runtime/tokenizer/detokenize.c \
	runtime/tokenizer/encode.c \
	runtime/tokenizer/impl.h \
	runtime/tokenizer/json_keys.c \
	runtime/tokenizer/map.c \
	runtime/tokenizer/normalizer.c \
	runtime/tokenizer/output.c \
	runtime/tokenizer/post_processor.c \
	runtime/tokenizer/pretokenizer.c \
	runtime/tokenizer/regex.c \
	runtime/tokenizer/split.c \
	runtime/tokenizer/text.c \
	runtime/tokenizer/tokenizer.c \
	runtime/tokenizer/tokenizer.h \
	runtime/tokenizer/tokenizer_config.c \
	runtime/tokenizer/unicode.c \
	runtime/tokenizer/utf8.c \
	runtime/tokenizer/utf8.h \
	runtime/tokenizer/vocab.c \
	runtime/tokenizer/words.c \
	# End of runtime/tokenizer
