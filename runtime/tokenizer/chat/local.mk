# SPDX-License-Identifier: Apache-2.0
runtime_libdisttrain_a_SOURCES += \
	runtime/tokenizer/chat/chat.c \
	runtime/tokenizer/chat/chat.h \
	runtime/tokenizer/chat/chat_impl.h \
	runtime/tokenizer/chat/chat_render.c \
	# End of runtime/tokenizer/chat

# Chat templates, as C strings
chat_templates = \
	$(srcdir)/runtime/tokenizer/chat/chatml.jinja \
	$(srcdir)/runtime/tokenizer/chat/llama2.jinja \
	$(srcdir)/runtime/tokenizer/chat/llama3.1.jinja \
	$(srcdir)/runtime/tokenizer/chat/llama3.jinja \
	$(srcdir)/runtime/tokenizer/chat/llava-plain.jinja \
	$(srcdir)/runtime/tokenizer/chat/llava.jinja \
	$(srcdir)/runtime/tokenizer/chat/mistral.jinja \
	$(srcdir)/runtime/tokenizer/chat/qwen2.5.jinja \
	$(srcdir)/runtime/tokenizer/chat/qwen3.jinja \
	# End of chat_templates
EXTRA_DIST += $(chat_templates) runtime/tokenizer/chat/embed.awk
CLEANFILES += runtime/tokenizer/chat/chat_texts.inc
runtime/tokenizer/chat/chat.$(OBJEXT): runtime/tokenizer/chat/chat_texts.inc
runtime/tokenizer/chat/chat_texts.inc: $(chat_templates) \
		runtime/tokenizer/chat/embed.awk
	$(AM_V_GEN)$(MKDIR_P) runtime/tokenizer/chat && LC_ALL=C $(AWK) \
		-f $(srcdir)/runtime/tokenizer/chat/embed.awk \
		$(chat_templates) >$@.tmp && mv $@.tmp $@
