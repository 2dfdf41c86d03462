# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/tokenizer/added.c \
	runtime/tokenizer/added_config.c \
	runtime/tokenizer/basics.h \
	runtime/tokenizer/bpe.c \
	runtime/tokenizer/bpe_model.c \
	runtime/tokenizer/charsmap.c \
	runtime/tokenizer/chat.c \
	runtime/tokenizer/chat.h \
	runtime/tokenizer/chat_apply.c \
	runtime/tokenizer/chat_impl.h \
	runtime/tokenizer/chat_named.c \
	runtime/tokenizer/chat_probe.c \
	runtime/tokenizer/chat_render.c \
	runtime/tokenizer/chat_trained.c \
	runtime/tokenizer/cut.c \
	runtime/tokenizer/decoder.c \
	runtime/tokenizer/detokenize.c \
	runtime/tokenizer/encode.c \
	runtime/tokenizer/forms.c \
	runtime/tokenizer/graphemes.c \
	runtime/tokenizer/impl.h \
	runtime/tokenizer/json_keys.c \
	runtime/tokenizer/letters.c \
	runtime/tokenizer/map.c \
	runtime/tokenizer/model.h \
	runtime/tokenizer/model_read.c \
	runtime/tokenizer/normal.h \
	runtime/tokenizer/normalizer.c \
	runtime/tokenizer/normalizer_read.c \
	runtime/tokenizer/output.c \
	runtime/tokenizer/piece.c \
	runtime/tokenizer/post_processor.c \
	runtime/tokenizer/pretokenizer.c \
	runtime/tokenizer/protobuf.c \
	runtime/tokenizer/protobuf.h \
	runtime/tokenizer/regex.c \
	runtime/tokenizer/regex.h \
	runtime/tokenizer/sentencepiece.c \
	runtime/tokenizer/sentencepiece.h \
	runtime/tokenizer/split.c \
	runtime/tokenizer/spm_normalizer.c \
	runtime/tokenizer/spm_parse.c \
	runtime/tokenizer/text.c \
	runtime/tokenizer/tokenizer.c \
	runtime/tokenizer/tokenizer.h \
	runtime/tokenizer/tokenizer_config.c \
	runtime/tokenizer/trie.c \
	runtime/tokenizer/unicode.c \
	runtime/tokenizer/unicode_late.c \
	runtime/tokenizer/unicode_sets.c \
	runtime/tokenizer/unigram.c \
	runtime/tokenizer/unigram_model.c \
	runtime/tokenizer/utf8.c \
	runtime/tokenizer/utf8.h \
	runtime/tokenizer/vocab.c \
	runtime/tokenizer/words.c \
	# End of runtime/tokenizer

# Chat templates, as C strings
chat_templates = \
	$(srcdir)/runtime/tokenizer/chat/chatml.jinja \
	$(srcdir)/runtime/tokenizer/chat/llama2.jinja \
	$(srcdir)/runtime/tokenizer/chat/llama3.1.jinja \
	$(srcdir)/runtime/tokenizer/chat/llama3.jinja \
	$(srcdir)/runtime/tokenizer/chat/mistral.jinja \
	$(srcdir)/runtime/tokenizer/chat/qwen2.5.jinja \
	$(srcdir)/runtime/tokenizer/chat/qwen3.jinja \
	# End of chat_templates
EXTRA_DIST += $(chat_templates) runtime/tokenizer/chat/embed.awk
CLEANFILES += runtime/tokenizer/chat_texts.inc
runtime/tokenizer/chat_named.$(OBJEXT): runtime/tokenizer/chat_texts.inc
runtime/tokenizer/chat_texts.inc: $(chat_templates) \
		runtime/tokenizer/chat/embed.awk
	$(AM_V_GEN)$(MKDIR_P) runtime/tokenizer && LC_ALL=C $(AWK) \
		-f $(srcdir)/runtime/tokenizer/chat/embed.awk \
		$(chat_templates) >$@.tmp && mv $@.tmp $@
