/* SPDX-License-Identifier: Apache-2.0 */
/* chat_render.c - renders conversations, and finds the assistant's text */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/chat/chat_impl.h"

enum { VARIABLES = 64 };

/* A list of the first messages; release it. NULL: out of memory. */
static json_t *first_messages(const json_t *messages, size_t count)
{
    json_t *part = json_array();
    for (size_t i = 0; part && i < count; i++)
        if (json_array_append(part, json_array_get(messages, i)) < 0) {
            json_decref(part);
            return NULL;
        }
    return part;
}

/* Appends the pairs of an object, or nothing. */
static size_t add_variables(const json_t *object,
                            struct dt_template_variable *to, size_t count)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if (count < VARIABLES)
            to[count++] = (struct dt_template_variable){key, value};
    }
    return count;
}

int dt_chat_apply(const struct dt_chat *chat,
                  const struct dt_template *template,
                  const struct dt_chat_input *input, const json_t *messages,
                  size_t count, unsigned flags, struct dt_template_text *out,
                  struct dt_error *err)
{
    struct dt_template_variable variables[VARIABLES + 8];
    const bool training =
        flags & DT_CHAT_TRAINING && (chat->ours || template == chat->training);
    json_t *part = count < json_array_size(messages)
                       ? first_messages(messages, count)
                       : json_incref((json_t *)messages);
    size_t n = add_variables(chat->specials, variables, 0);
    n = add_variables(chat->variables, variables, n);
    n = add_variables(input->variables, variables, n);
    const struct dt_template_variable own[] = {
        {"training", training ? json_true() : NULL},
        {"documents", json_null()},
        {"tools", input->tools ? input->tools : json_null()},
        {"add_generation_prompt",
         flags & DT_CHAT_PROMPT ? json_true() : json_false()},
        {"messages", part},
    };
    memcpy(variables + n, own, sizeof(own));
    n += sizeof(own) / sizeof(own[0]);
    int rc = part ? dt_template_render(template, variables, n, out, err)
                  : dt_error_set(err, EX_OSERR, "chat: out of memory");
    json_decref(part);
    return rc;
}

/* --- the assistant's bytes of a rendered conversation ---
 *
 * A template may mark them with {% generation %}. For others we compare
 * renderings. In one, each answer has a marker character at its end, which
 * shows the ends of contents. The text after an answer that belongs to it, such
 * as the token that ends it, is the text after the last answer of a
 * conversation that ends with it. The text before it is the header that
 * add_generation_prompt adds. For an answer that cannot be marked, such as a
 * call of a tool, the rendering up to and with it is compared with the one that
 * ends with the prompt for it. A text that fits none of these is ambiguous and
 * refused.
 */

enum {
    MARK_BYTES = 4,
    MARKS = 60000, /* code points of private use, from U+100000 */
};

/* A comparison of renderings. */
struct search {
    const struct dt_chat *chat;
    const struct dt_template *template;
    const struct dt_chat_input *input;
    unsigned flags;
    struct dt_chat_text *out;
    json_t *marked; /* messages with markers */
    char *header;   /* the end of the text that add_generation_prompt adds */
    size_t header_bytes;
    size_t end_bytes; /* of `end`, the text after the last answer */
    char *end;
    struct dt_error *err;
};

static int search_ambiguous(const struct search *s, size_t i, const char *why)
{
    return dt_error_set(
        s->err, EX_DATAERR,
        "message %zu: in what the chat template makes of it, it is ambiguous "
        "what the assistant wrote: %s. Use a template that marks it with {%% "
        "generation %%} (data.chat_template), or train on everything "
        "(data.loss_on: full)",
        i + 1, why);
}

static int add_span(const struct search *s, size_t message, size_t begin,
                    size_t end)
{
    struct dt_chat_text *out = s->out;
    if (out->trained_count == out->trained_capacity) {
        size_t capacity = 2 * out->trained_capacity + 16;
        void *grown =
            reallocarray(out->trained, capacity, sizeof(*out->trained));
        if (!grown)
            return dt_error_set(s->err, EX_OSERR, "chat: out of memory");
        out->trained = grown;
        out->trained_capacity = capacity;
    }
    out->trained[out->trained_count++] =
        (struct dt_chat_span){begin, end, message};
    return 0;
}

static bool is_answer(const struct search *s, size_t i)
{
    const char *role = json_string_value(
        json_object_get(json_array_get(s->input->messages, i), "role"));
    return role && strcmp(role, "assistant") == 0;
}

/* Compares by blocks, as memcmp is many times as fast as a loop. */
static size_t common_bytes(const char *a, size_t an, const char *b, size_t bn)
{
    enum { BLOCK = 256 };
    const size_t most = an < bn ? an : bn;
    size_t n = 0;
    while (most - n >= BLOCK && memcmp(a + n, b + n, BLOCK) == 0)
        n += BLOCK;
    while (n < most && a[n] == b[n])
        n++;
    return n;
}

static bool is_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", s[i]))
            return false;
    return true;
}

/* --- renderings --- */

/* Renders the first messages to out->other. */
static int render_other(const struct search *s, const json_t *messages,
                        size_t count, unsigned prompt)
{
    return dt_chat_apply(s->chat, s->template, s->input, messages, count,
                         (s->flags & DT_CHAT_TRAINING) | prompt, &s->out->other,
                         s->err);
}

/* A copy of the rendering in `other`; NULL and err. */
static char *keep_other(const struct search *s)
{
    char *copy = malloc(s->out->other.bytes + 1);
    if (!copy)
        dt_error_set(s->err, EX_OSERR, "chat: out of memory");
    else
        memcpy(copy, s->out->other.text, s->out->other.bytes + 1);
    return copy;
}

/* Finds the text that add_generation_prompt adds after the first messages. Its
 * start is missing if the template writes the same start without it.
 */
static int find_header(struct search *s, const json_t *messages, size_t count)
{
    if (render_other(s, messages, count, 0) < 0)
        return -1;
    char *without = keep_other(s);
    size_t bytes = s->out->other.bytes;
    if (!without)
        return -1;
    int rc = render_other(s, messages, count, DT_CHAT_PROMPT);
    if (rc == 0) {
        const struct dt_template_text *with = &s->out->other;
        size_t n = common_bytes(without, bytes, with->text, with->bytes);
        s->header = keep_other(s);
        rc = s->header ? 0 : -1;
        if (rc == 0) {
            s->header_bytes = with->bytes - n;
            memmove(s->header, s->header + n, s->header_bytes + 1);
        }
    }
    free(without);
    return rc;
}

/* --- markers --- */

static void write_mark(size_t number, char mark[MARK_BYTES])
{
    const unsigned code = 0x100000 + (unsigned)number;
    mark[0] = (char)(0xf0 | code >> 18);
    mark[1] = (char)(0x80 | (code >> 12 & 0x3f));
    mark[2] = (char)(0x80 | (code >> 6 & 0x3f));
    mark[3] = (char)(0x80 | (code & 0x3f));
}

/* The text with a marker at its end; NULL: out of memory. */
static json_t *mark_text(const json_t *text, size_t number)
{
    const size_t n = json_string_length(text);
    char *longer = malloc(n + MARK_BYTES);
    if (!longer)
        return NULL;
    memcpy(longer, json_string_value(text), n);
    write_mark(number, longer + n);
    json_t *marked = json_stringn(longer, n + MARK_BYTES);
    free(longer);
    return marked;
}

/* Marks the last part that is text. */
static json_t *mark_parts(const json_t *parts, size_t number)
{
    json_t *copy = json_deep_copy(parts);
    for (size_t i = json_array_size(copy); i-- > 0;) {
        json_t *part = json_array_get(copy, i);
        const json_t *text = json_object_get(part, "text");
        if (!json_is_string(text))
            continue;
        json_object_set_new(part, "text", mark_text(text, number));
        return copy;
    }
    json_decref(copy);
    return NULL;
}

/* The message with a marker, or NULL: it cannot have one. */
static json_t *mark_message(const json_t *message, size_t number)
{
    const json_t *content = json_object_get(message, "content");
    json_t *marked = NULL, *copy;
    if (json_array_size(json_object_get(message, "tool_calls")) > 0)
        return NULL;
    if (json_is_string(content))
        marked = mark_text(content, number);
    else if (json_is_array(content))
        marked = mark_parts(content, number);
    if (!marked)
        return NULL;
    copy = json_copy((json_t *)message);
    if (copy)
        json_object_set_new(copy, "content", marked);
    else
        json_decref(marked);
    return copy;
}

static int mark_messages(struct search *s)
{
    const size_t count = s->input->count;
    s->marked = json_array();
    for (size_t i = 0; s->marked && i < count; i++) {
        json_t *message = json_array_get(s->input->messages, i);
        json_t *marked =
            is_answer(s, i) && i < MARKS ? mark_message(message, i) : NULL;
        if (json_array_append_new(s->marked,
                                  marked ? marked : json_incref(message)) < 0)
            return dt_error_set(s->err, EX_OSERR, "chat: out of memory");
    }
    return s->marked ? 0
                     : dt_error_set(s->err, EX_OSERR, "chat: out of memory");
}

/* The offset of the marker of message i in `other`, from `from` on; SIZE_MAX:
 * there is none.
 */
static size_t find_mark(const struct search *s, size_t i, size_t from)
{
    const struct dt_template_text *other = &s->out->other;
    char mark[MARK_BYTES];
    write_mark(i, mark);
    const char *at =
        memmem(other->text + from, other->bytes - from, mark, MARK_BYTES);
    return at ? (size_t)(at - other->text) : SIZE_MAX;
}

/* --- answers with a marker --- */

/* Finds the text after the last answer of a conversation that ends with it. */
static int find_end(struct search *s, size_t last)
{
    if (render_other(s, s->marked, last + 1, 0) < 0)
        return -1;
    size_t at = find_mark(s, last, 0);
    if (at == SIZE_MAX || find_mark(s, last, at + MARK_BYTES) != SIZE_MAX)
        return 0; /* none, or not known */
    at += MARK_BYTES;
    s->end = keep_other(s);
    if (!s->end)
        return -1;
    s->end_bytes = s->out->other.bytes - at;
    memmove(s->end, s->end + at, s->end_bytes + 1);
    return 0;
}

/* The start of a content that ends at `end`, perhaps without its leading
 * blanks; SIZE_MAX: not found.
 */
static size_t find_content(const struct search *s, const char *content,
                           size_t n, size_t from, size_t end)
{
    for (size_t skip = 0; skip < n; skip++) {
        size_t kept = n - skip;
        if (kept <= end - from &&
            memcmp(s->out->whole.text + end - kept, content + skip, kept) == 0)
            return end - kept;
        if (!is_blank(content + skip, 1))
            break;
    }
    return SIZE_MAX;
}

/* The start of an answer that ends at `end`, in the text from `from` on;
 * SIZE_MAX: unknown.
 */
static size_t find_begin(const struct search *s, size_t i, size_t from,
                         size_t end)
{
    const char *text = s->out->whole.text;
    if (s->header_bytes > 0) {
        const char *at =
            memmem(text + from, end - from, s->header, s->header_bytes);
        if (!at)
            return SIZE_MAX;
        size_t begin = (size_t)(at - text) + s->header_bytes;
        return memmem(at + 1, end - (size_t)(at + 1 - text), s->header,
                      s->header_bytes)
                   ? SIZE_MAX
                   : begin;
    }
    /* without a header, the answer is its content */
    const json_t *content =
        json_object_get(json_array_get(s->input->messages, i), "content");
    const char *c = json_string_value(content);
    size_t n = json_string_length(content), blanks = 0;
    while (blanks < n && is_blank(c + n - 1 - blanks, 1))
        blanks++;
    size_t begin = c ? find_content(s, c, n, from, end) : SIZE_MAX;
    return begin == SIZE_MAX && c ? find_content(s, c, n - blanks, from, end)
                                  : begin;
}

/* Places in the two renderings that are compared. */
struct walk {
    size_t whole, other;
};

/* Compares up to the marker of message i, and moves w past it. Blanks at the
 * end of a content may be missing if no marker follows them. False: the
 * renderings differ, as they do after a marker that occurs twice.
 */
static bool walk_to_mark(const struct search *s, size_t i, struct walk *w)
{
    const struct dt_template_text *whole = &s->out->whole;
    const struct dt_template_text *other = &s->out->other;
    size_t at = find_mark(s, i, w->other);
    if (at == SIZE_MAX)
        return false;
    size_t n = at - w->other;
    size_t same = common_bytes(whole->text + w->whole, whole->bytes - w->whole,
                               other->text + w->other, n);
    if (same < n && !is_blank(other->text + w->other + same, n - same))
        return false;
    /* after a trimmed end comes the text after the marker */
    w->whole += same;
    w->other = at + MARK_BYTES;
    return true;
}

/* Whether the renderings agree after the last marker. */
static bool walk_ends(const struct search *s, const struct walk *w)
{
    const struct dt_template_text *whole = &s->out->whole;
    const struct dt_template_text *other = &s->out->other;
    return whole->bytes - w->whole == other->bytes - w->other &&
           memcmp(whole->text + w->whole, other->text + w->other,
                  whole->bytes - w->whole) == 0;
}

/* Widens the span of an answer, which begins and ends at the end of the content
 * so far. 1: its start is not known.
 */
static int widen_span(const struct search *s, size_t i, size_t from,
                      struct dt_chat_span *span)
{
    const struct dt_template_text *whole = &s->out->whole;
    const size_t at = span->begin;
    size_t begin = find_begin(s, i, from, at);
    size_t n =
        common_bytes(whole->text + at, whole->bytes - at, s->end, s->end_bytes);
    /* not into the next message, whose first bytes may be the same */
    if (n < s->end_bytes)
        while (n > 0 && s->end[n - 1] != '\n' && s->end[n - 1] != '>')
            n--;
    if (begin == SIZE_MAX)
        return 1;
    if (is_blank(s->end, n))
        return search_ambiguous(s, i,
                                "nothing ends the answer, so that the model "
                                "would not learn to stop");
    *span = (struct dt_chat_span){begin, at + n, i};
    return 0;
}

/* Adds an empty span for each answer at the end of its content; 1: the markers
 * do not fit.
 */
static int add_ends(const struct search *s, size_t first, size_t last)
{
    struct walk w = {0, 0};
    for (size_t i = first; i <= last; i++) {
        if (!is_answer(s, i))
            continue;
        if (!walk_to_mark(s, i, &w))
            return 1;
        if (add_span(s, i, w.whole, w.whole) < 0)
            return -1;
    }
    return walk_ends(s, &w) ? 0 : 1;
}

/* Finds spans by markers; 0: done, 1: they do not fit, -1: an error. */
static int find_by_marks(struct search *s, size_t first, size_t last)
{
    struct dt_chat_text *out = s->out;
    size_t from = 0, answers = 0;
    if (mark_messages(s) < 0 || find_end(s, last) < 0)
        return -1;
    if (!s->end)
        return 1;
    if (last + 1 < s->input->count &&
        render_other(s, s->marked, s->input->count, 0) < 0)
        return -1;
    int rc = add_ends(s, first, last);
    for (size_t i = first; rc == 0 && i <= last; i++) {
        if (!is_answer(s, i))
            continue;
        struct dt_chat_span *span = &out->trained[answers++];
        const size_t end = span->begin;
        rc = widen_span(s, i, from, span);
        from = end;
    }
    return rc;
}

/* --- answers by the renderings up to them --- */

/* The length of the rendering of the first messages if the whole text begins
 * with it; else SIZE_MAX.
 */
static int find_prefix(const struct search *s, size_t count, unsigned prompt,
                       size_t *bytes)
{
    const struct dt_chat_text *out = s->out;
    if (render_other(s, s->input->messages, count, prompt) < 0)
        return -1;
    bool begins =
        out->other.bytes <= out->whole.bytes &&
        memcmp(out->whole.text, out->other.text, out->other.bytes) == 0;
    *bytes = begins ? out->other.bytes : SIZE_MAX;
    return 0;
}

static int find_by_prefixes(const struct search *s, size_t first, size_t last)
{
    size_t begin, end;
    s->out->trained_count = 0;
    for (size_t i = first; i <= last; i++) {
        if (!is_answer(s, i))
            continue;
        if (i == 0)
            return search_ambiguous(s, i, "no message precedes it");
        if (find_prefix(s, i, DT_CHAT_PROMPT, &begin) < 0 ||
            find_prefix(s, i + 1, 0, &end) < 0)
            return -1;
        if (begin == SIZE_MAX || end == SIZE_MAX || end <= begin)
            return search_ambiguous(s, i,
                                    "the text before and behind it depends on "
                                    "the messages that follow");
        if (s->header_bytes == 0)
            return search_ambiguous(s, i, "nothing marks its beginning");
        if (add_span(s, i, begin, end) < 0)
            return -1;
    }
    return 0;
}

/* --- the marks of {% generation %} --- */

static int no_owner(const struct search *s, size_t i)
{
    return dt_error_set(s->err, EX_DATAERR,
                        "message %zu: it is ambiguous what {%% generation %%} "
                        "in the chat template marks of it, but some messages "
                        "are not to be trained on: use a template that marks "
                        "each answer once (data.chat_template)",
                        i + 1);
}

/* Sets the messages of spans: the n-th span is of the n-th answer, if there is
 * one for each answer, and each answer's marker is inside its span.
 */
static int find_owners(struct search *s)
{
    const struct dt_template_text *other = &s->out->other;
    struct dt_chat_span *spans = s->out->trained;
    const size_t count = s->input->count, span_count = s->out->trained_count;
    size_t n = 0;
    if (mark_messages(s) < 0 || render_other(s, s->marked, count, 0) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (!is_answer(s, i))
            continue;
        const size_t at = find_mark(s, i, 0);
        if (n == span_count || other->span_count != span_count ||
            (at != SIZE_MAX &&
             (at < other->spans[n].begin || at >= other->spans[n].end)))
            return no_owner(s, i);
        spans[n++].message = i;
    }
    return n == span_count ? 0 : no_owner(s, count - 1);
}

static int copy_marks(struct search *s)
{
    const struct dt_template_text *whole = &s->out->whole;
    for (size_t i = 0; i < whole->span_count; i++)
        if (add_span(s, 0, whole->spans[i].begin, whole->spans[i].end) < 0)
            return -1;
    return s->flags & DT_CHAT_OWNERS ? find_owners(s) : 0;
}

/* --- all of it --- */

/* A message of the user, of parts if the conversation's messages are. */
static json_t *some_question(const struct dt_chat_input *input)
{
    const json_t *content =
        json_object_get(json_array_get(input->messages, 0), "content");
    return json_is_array(content)
               ? json_pack("[{ss, s[{ss, ss}]}]", "role", "user", "content",
                           "type", "text", "text", "x")
               : json_pack("[{ss, ss}]", "role", "user", "content", "x");
}

/* Fills out->trained for the text out->whole of all messages: by the marks of
 * the template, else by comparing renderings.
 */
static int find_trained(const struct dt_chat *chat,
                        const struct dt_template *template,
                        const struct dt_chat_input *input, unsigned flags,
                        struct dt_chat_text *out, struct dt_error *err)
{
    struct search s = {.chat = chat,
                       .template = template,
                       .input = input,
                       .flags = flags,
                       .out = out,
                       .err = err};
    size_t first = 0, last = input->count;
    if (dt_template_has_marks(template)) {
        int rc = copy_marks(&s);
        json_decref(s.marked);
        return rc;
    }
    while (first < input->count && !is_answer(&s, first))
        first++;
    if (first == input->count)
        return 0;
    while (!is_answer(&s, --last))
        continue;
    /* before the first message, the header is that of any other answer */
    json_t *question = first > 0 ? json_incref((json_t *)input->messages)
                                 : some_question(input);
    int rc = find_header(&s, question, first > 0 ? first : 1);
    if (rc == 0)
        rc = find_by_marks(&s, first, last);
    if (rc == 1)
        rc = find_by_prefixes(&s, first, last);
    json_decref(question);
    json_decref(s.marked);
    free(s.header);
    free(s.end);
    return rc;
}

/* --- conversations --- */

void dt_chat_text_fini(struct dt_chat_text *out)
{
    dt_template_text_fini(&out->whole);
    dt_template_text_fini(&out->other);
    free(out->trained);
    *out = (struct dt_chat_text){0};
}

/* Whether a message calls tools. */
static bool has_calls(const struct dt_chat_input *input)
{
    for (size_t i = 0; i < input->count; i++)
        if (json_array_size(json_object_get(json_array_get(input->messages, i),
                                            "tool_calls")) > 0)
            return true;
    return false;
}

/* Refuses tools that the template does not render: without them, the text would
 * be another conversation than the data hold.
 */
static int check_tools(const struct dt_chat_input *input,
                       const struct dt_template *template, bool calls,
                       struct dt_error *err)
{
    const char *source = dt_template_source(template);
    const char *missing =
        json_array_size(input->tools) > 0 && !strstr(source, "tools") ? "tools"
        : calls && !strstr(source, "tool_calls") ? "tool_calls"
                                                 : NULL;
    if (!missing)
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "%s: the chat template does not render them: choose "
                        "one that does, or leave them out",
                        missing);
}

int dt_chat_render(const struct dt_chat *chat,
                   const struct dt_chat_input *input, unsigned flags,
                   struct dt_chat_text *out, struct dt_error *err)
{
    const bool calls = has_calls(input);
    const bool tools = json_array_size(input->tools) > 0;
    const struct dt_template *template = chat->template;
    if (tools && chat->with_tools)
        template = chat->with_tools;
    /* our forms for training do not render tools */
    if (flags & DT_CHAT_TRAINING && chat->training && !tools && !calls)
        template = chat->training;
    out->trained_count = 0;
    if (check_tools(input, template, calls, err) < 0 ||
        dt_chat_apply(chat, template, input, input->messages, input->count,
                      flags, &out->whole, err) < 0)
        return -1;
    return flags & DT_CHAT_TRAINED
               ? find_trained(chat, template, input, flags, out, err)
               : 0;
}
