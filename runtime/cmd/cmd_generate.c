/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_generate.c - `disttrain generate`: prints text that a model samples */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "backend/backend.h"
#include "base/fault.h"
#include "base/str.h"
#include "cmd/cmd_impl.h"
#include "cmd/generate.h"
#include "data/turns.h"
#include "launch/launch.h"
#include "rollout/engine.h"
#include "run/exchange.h"

/* --- text --- */

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Returns the length of a character that begins with c; 1 if none does. */
static size_t character_length(unsigned char c)
{
    return c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
}

static bool is_control(const unsigned char *s)
{
    return (s[0] < 0x20 && s[0] != '\n' && s[0] != '\t') || s[0] == 0x7f ||
           (s[0] == 0xc2 && s[1] < 0xa0);
}

static void write_held(struct dt_text_out *out)
{
    if (dt_utf8_check(out->held, out->count) == out->count &&
        !is_control(out->held))
        fwrite(out->held, 1, out->count, out->file);
    else
        fputs(REPLACEMENT, out->file);
    fflush(out->file);
    out->count = 0;
}

void dt_text_out_byte(struct dt_text_out *out, unsigned char byte)
{
    bool continues = (byte & 0xc0) == 0x80;
    if (out->count > 0 && !continues)
        write_held(out); /* it was cut short */
    out->held[out->count++] = byte;
    if (out->count == character_length(out->held[0]))
        write_held(out);
}

void dt_text_out_end(struct dt_text_out *out)
{
    if (out->count > 0)
        write_held(out);
}

/* --- one prompt --- */

enum {
    STOPS = 16,
    IMAGES = 64,
    TEXT_BYTES = 4096,
    JOIN_MS = 60000,
    WAIT_MS = 1800000, /* for the slowest rank to complete its next prompts */
};

/* The values of --device, and as dt_backend_open knows them. */
#define DEVICES "auto|cpu|cuda"
static const char *const devices[] = {"auto", "cpu", "cuda"};

struct request {
    const char *dir;    /* --model */
    const char *prompt; /* one of these: --prompt, --tokens, --prompts */
    const char *tokens, *file;
    const char *score; /* --score */
    bool chat;
    const char *system, *template, *variables; /* of --chat */
    const char *image[IMAGES];                 /* of the user's message */
    size_t image_count;
    const char *image_root; /* of the lines of a file */
    const char *stop[STOPS];
    size_t stop_count;
    int device; /* index of devices */
    enum dt_dtype dtype;
    struct dt_rollout_options options; /* slots: --batch */
};

/* Appends the ids of a list "1,2,3". */
static int parse_tokens(const struct dt_engine *s, const char *list,
                        struct dt_made_prompt *out, struct dt_error *err)
{
    size_t V = s->config.vocab_size;
    const char *p = list;
    out->ids = calloc(strlen(list) + 1, sizeof(*out->ids));
    if (!out->ids)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (;;) {
        char *end;
        errno = 0;
        long id = strtol(p, &end, 10);
        if (end == p || errno || id < 0 || (size_t)id >= V ||
            (*end && *end != ','))
            return dt_error_set(err, EX_USAGE,
                                "--tokens: expected ids from 0 to %zu with "
                                "commas between them, got '%s'",
                                V - 1, p);
        out->ids[out->count++] = (int32_t)id;
        if (!*end)
            return 0;
        p = end + 1;
    }
}

/* Prints the tokens of a prompt as they are generated. */
struct screen {
    struct dt_made_prompt prompt;
    bool given;                         /* to the rollout */
    const struct dt_prompter *prompter; /* NULL: the prompt has no images */
    uint8_t *pixels;
    struct dt_detokenizer text;
    struct dt_text_out out;
    const struct dt_engine *engine; /* its stop tokens are not printed */
    bool ids;
    size_t count; /* tokens so far */
};

static int give_prompt(void *ctx, struct dt_prompt *prompt,
                       struct dt_error *err)
{
    struct screen *screen = ctx;
    if (screen->given)
        return 0;
    screen->given = true;
    *prompt = (struct dt_prompt){
        .number = 0, .ids = screen->prompt.ids, .count = screen->prompt.count};
    if (screen->prompter && dt_prompter_give(screen->prompter, &screen->prompt,
                                             &screen->pixels, prompt, err) < 0)
        return dt_error_prefix(err, "--image");
    return 1;
}

static int end_prompt(void *ctx, const struct dt_completion *completion,
                      struct dt_error *err)
{
    (void)ctx, (void)completion, (void)err;
    return 0;
}

static void show_token(void *ctx, uint64_t prompt, uint32_t copy, int32_t id)
{
    struct screen *screen = ctx;
    char text[TEXT_BYTES];
    (void)prompt, (void)copy;
    size_t before = screen->count++;
    if (dt_engine_stops(screen->engine, id))
        return;
    if (screen->ids) {
        printf("%s%d", before ? " " : "", id);
        fflush(stdout);
        return;
    }
    size_t bytes = dt_detokenize(&screen->text, id, text, sizeof(text));
    for (size_t i = 0; i < bytes; i++)
        dt_text_out_byte(&screen->out, (unsigned char)text[i]);
}

/* The messages of --system and --prompt; NULL: they are not UTF-8 text. */
static json_t *pack_messages(const struct request *request)
{
    const char *system = request->system, *question = request->prompt;
    return system
               ? json_pack("[{ss, ss}, {ss, ss}]", "role", "system", "content",
                           system, "role", "user", "content", question)
               : json_pack("[{ss, ss}]", "role", "user", "content", question);
}

/* Makes a prompt of a user's message with images. */
static int make_message(struct dt_prompter *prompter,
                        const struct request *request,
                        struct dt_made_prompt *made, struct dt_error *err)
{
    struct dt_turns turns = {.allow_images = dt_prompter_sees(prompter)};
    json_t *messages = pack_messages(request), *images = json_array();
    int rc = messages && images
                 ? 0
                 : dt_error_set(err, EX_USAGE,
                                "--prompt or --system: not UTF-8 text");
    for (size_t i = 0; i < request->image_count && rc == 0; i++)
        rc = dt_prompter_image(prompter, request->image[i], images, err);
    if (rc == 0)
        rc = dt_turns_add(&turns, messages, "messages", err);
    if (rc == 0 && dt_prompter_turns(prompter, &turns, images, made, err) < 0)
        rc = request->image_count > 0 ? dt_error_prefix(err, "--image") : -1;
    dt_turns_fini(&turns);
    json_decref(images);
    json_decref(messages);
    return rc;
}

/* Converts the prompt of the request, of any kind, to tokens and images. */
static int make_prompt(const struct dt_engine *s, struct dt_prompter *prompter,
                       const struct request *request,
                       struct dt_made_prompt *made, struct dt_error *err)
{
    if (request->tokens)
        return parse_tokens(s, request->tokens, made, err);
    if (request->chat)
        return make_message(prompter, request, made, err);
    return dt_prompter_text(prompter, request->prompt, strlen(request->prompt),
                            NULL, made, err);
}

static void report_full(const struct dt_engine *s, size_t tokens)
{
    if (tokens < dt_model_room(&s->config))
        return;
    fflush(stdout);
    fprintf(stderr, "disttrain: the text fills the model's %zu positions\n",
            dt_model_room(&s->config));
}

/* Continues one prompt and prints the text as it is generated. */
static int generate_prompt(struct dt_engine *s, struct dt_prompter *prompter,
                           const struct request *request, struct dt_error *err)
{
    struct screen screen = {
        .text = {.tokenizer = s->tokenizer, .skip_special = true},
        .out = {.file = stdout},
        .engine = s,
        .ids = request->tokens != NULL,
        .prompter = prompter,
    };
    const struct dt_rollout_io io = {.next = give_prompt,
                                     .done = end_prompt,
                                     .token = show_token,
                                     .ctx = &screen};
    struct dt_rollout_options options = request->options;
    struct dt_made_prompt *prompt = &screen.prompt;
    char text[TEXT_BYTES];
    int result = make_prompt(s, prompter, request, prompt, err);
    if (request->prompt && !request->chat && result == 0) {
        fputs(request->prompt, stdout);
        fflush(stdout);
        /* moves the detokenizer past the prompt, which is printed already */
        for (size_t i = 0; i < prompt->count; i++)
            dt_detokenize(&screen.text, prompt->ids[i], text, sizeof(text));
    }
    options.slots = 1;
    options.max_prompt = prompt->count;
    options.patches = prompt->patches;
    options.pictures = prompt->found.picture_count;
    options.colors = prompter ? dt_prompter_colors(prompter) : NULL;
    if (result == 0)
        result = dt_engine_generate(s, options, &io, err);
    if (result == 0) {
        size_t bytes =
            screen.ids ? 0
                       : dt_detokenize_end(&screen.text, text, sizeof(text));
        for (size_t i = 0; i < bytes; i++)
            dt_text_out_byte(&screen.out, (unsigned char)text[i]);
        dt_text_out_end(&screen.out);
        putchar('\n');
        report_full(s, prompt->count + screen.count);
    }
    free(screen.pixels);
    dt_made_prompt_fini(prompt);
    return result;
}

static int generate_with(struct dt_engine *s, const struct request *request,
                         struct dt_comm *comm, struct dt_error *err)
{
    struct dt_prompter *prompter = NULL;
    struct dt_chat *chat = NULL;
    struct dt_error no_chat = {0};
    int result = 0;
    if (dt_engine_open(s, request->dir, request->dtype, err) < 0)
        return -1;
    if (s->config.scores && !request->score)
        return dt_error_set(err, EX_DATAERR,
                            "%s: a reward model, which cannot continue a text: "
                            "--score FILE prints its scores of texts",
                            request->dir);
    if (request->score && !s->config.scores)
        return dt_error_set(err, EX_DATAERR,
                            "%s: a language model: --score needs a reward "
                            "model, as algorithm rm trains it",
                            request->dir);
    if (request->score && !s->tokenizer)
        return dt_error_set(err, EX_USAGE,
                            "--score needs a tokenizer, and the model has no "
                            "tokenizer.json");
    for (size_t i = 0; i < request->stop_count; i++)
        if (dt_engine_add_stop(s, request->stop[i], err) < 0)
            return -1;
    if (!s->tokenizer)
        dt_error_set(&no_chat, EX_USAGE,
                     "a chat needs a tokenizer, and the model has no "
                     "tokenizer.json");
    else if (request->chat || request->file)
        chat = dt_chat_create(request->template, request->variables,
                              s->tokenizer, &no_chat);
    if (request->chat && !chat) {
        *err = no_chat;
        return -1;
    }
    if (request->chat)
        dt_generate_warn(chat);
    if (!request->tokens)
        prompter =
            dt_prompter_create(s, chat, &no_chat, request->image_root, err);
    if (!prompter && !request->tokens)
        result = -1;
    else if (request->score)
        result = dt_generate_score(s, prompter, request->score,
                                   request->template, request->variables, err);
    else if (request->file)
        result = dt_generate_file(s, prompter, request->file, chat, &no_chat,
                                  &request->options, comm, err);
    else
        result = generate_prompt(s, prompter, request, err);
    dt_prompter_destroy(prompter);
    dt_chat_destroy(chat);
    return result;
}

/* Opens the device that --device names. */
static const struct dt_backend *open_device(const char *name, int local_rank,
                                            struct dt_exec *exec,
                                            struct dt_error *err)
{
    const struct dt_backend_options options = {.local_rank = local_rank};
    char note[512]; /* not printed: no need to say that it is the CPU */
    const struct dt_backend *backend =
        dt_backend_open(name, &options, note, sizeof(note), err);
    if (!backend)
        return NULL;
    *exec = (struct dt_exec){backend->device, backend->ops, NULL};
    return exec->device->stream_create(&exec->stream, err) < 0 ? NULL : backend;
}

/* The communicator of all ranks, by gloo on any device: they exchange text
 * only. NULL and err: as dt_backend_agree and dt_comm_create.
 */
static struct dt_comm *connect_ranks(const char *device,
                                     const struct dt_backend *backend,
                                     struct dt_launch *launch,
                                     struct dt_error *err)
{
    const struct dt_comm_world world = dt_world_of(launch);
    const struct dt_comm_options options = {.timeout_ms = WAIT_MS};
    if (!strcmp(device, "auto") && world.size > 1 &&
        dt_backend_agree(backend, &world, JOIN_MS, err) < 0)
        return NULL;
    return dt_comm_create("gloo", &world, &options, err);
}

static int flush_output(struct dt_error *err)
{
    if (fflush(stdout) || ferror(stdout))
        return dt_error_set(err, EX_IOERR, "cannot write: %s", strerror(errno));
    return 0;
}

static int run_rank(const struct request *request, struct dt_launch *launch)
{
    struct dt_engine engine = {0};
    struct dt_comm *comm = NULL;
    struct dt_error err;
    int status = 0;
    dt_fault_rank(dt_launch_rank(launch));
    dt_join_threads(launch);
    const char *device = devices[request->device];
    const struct dt_backend *backend =
        open_device(device, dt_launch_local_rank(launch), &engine.exec, &err);
    if (backend)
        comm = connect_ranks(device, backend, launch, &err);
    if (!comm || generate_with(&engine, request, comm, &err) < 0 ||
        flush_output(&err) < 0)
        status = dt_join_failed(launch, comm, &err);
    else
        dt_comm_destroy(comm);
    dt_engine_close(&engine);
    if (engine.exec.stream)
        engine.exec.device->stream_destroy(engine.exec.stream);
    return status;
}

static int run_request(const struct request *request)
{
    struct dt_error err;
    struct dt_launch *launch = dt_launch_create(JOIN_MS, &err);
    int status = EX_USAGE;
    if (!launch) {
        fprintf(stderr, "disttrain: %s\n", err.text);
        return err.status;
    }
    if (request->file || dt_launch_size(launch) == 1)
        status = run_rank(request, launch);
    else if (dt_launch_rank(launch) == 0)
        fprintf(stderr,
                "disttrain: generate: only --prompts is shared by ranks, and "
                "there are %d: start one\n",
                dt_launch_size(launch));
    dt_launch_destroy(launch);
    return status;
}

static int take_stop(const char *value, void *values)
{
    struct request *request = values;
    if (request->stop_count == STOPS)
        return dt_cmd_usage_error("generate", "--stop: more than %d of them",
                                  (int)STOPS);
    request->stop[request->stop_count++] = value;
    return 0;
}

static int take_image(const char *value, void *values)
{
    struct request *request = values;
    if (request->image_count == IMAGES)
        return dt_cmd_usage_error("generate", "--image: more than %d of them",
                                  (int)IMAGES);
    request->image[request->image_count++] = value;
    request->chat = true;
    return 0;
}

#define INTO(member) DT_INTO(struct request, member)

static const struct dt_option table[] = {
    {"model", "DIR",
     "a checkpoint, a run.output_dir, or a Hugging Face directory", INTO(dir)},
    {"prompt", "TEXT", "beginning of the text", INTO(prompt)},
    {"chat", NULL, "treat TEXT as a user's message: print the answer",
     INTO(chat), .needs = "prompt"},
    {"image", "FILE",
     "an image of that message, where TEXT has <image>, or before it; makes it "
     "a message as --chat does; can be repeated",
     .take = take_image, .needs = "prompt"},
    {"system", "TEXT", "system message before it", INTO(system),
     .needs = "chat"},
    {"chat-template", "NAME",
     "a file, or one of " DT_CHAT_NAMES " [the one in the tokenizer's files]",
     INTO(template)},
    {"chat-template-kwargs", "JSON",
     "variables that it reads, as '{\"enable_thinking\":false}'",
     INTO(variables)},
    {"prompts", "FILE",
     "lines of JSON with prompt or messages, and images; prints each with its "
     "completion; ranks share the lines",
     INTO(file)},
    {"score", "FILE",
     "lines of JSON with text, prompt and completion, or messages, and images; "
     "prints the score that a reward model gives to each",
     INTO(score)},
    {"image-root", "DIR", "directory of the images that lines name",
     INTO(image_root)},
    {"batch", "N", "lines to continue at a time [8]", INTO(options.slots),
     .min = 1, .max = 4096},
    {"tokens", "ID,ID,...", "prompt in token ids; prints ids", INTO(tokens)},
    {"max-tokens", "N", "stop after N tokens [200]", INTO(options.max_tokens),
     .min = 1, .max = 1e6},
    {"temperature", "X",
     "sampling temperature; 0: always the most likely token [0.8]",
     INTO(options.sampling.temperature), .max = 100},
    {"top-k", "K", "sample from the K most likely tokens [0: all]",
     INTO(options.sampling.top_k), .max = 1e6},
    {"top-p", "P",
     "sample from the most likely tokens whose probabilities sum to P [1: all]",
     INTO(options.sampling.top_p), .min = 1e-6, .max = 1},
    {"min-p", "P",
     "sample from tokens with at least P times the probability of the most "
     "likely one [0: all]",
     INTO(options.sampling.min_p), .max = 1},
    {"repetition-penalty", "X",
     "divide the logits of tokens that were there by X, or multiply negative "
     "ones [1: do not]",
     INTO(options.sampling.repetition_penalty), .min = 0.01, .max = 100},
    {"stop", "TEXT",
     "another token, or any text, that ends the text; can be repeated",
     .take = take_stop},
    {"dtype", DT_CMD_DTYPES, "type to compute in [fp32]", INTO(dtype)},
    {"device", DEVICES, "device to run on [auto: a GPU if there is one]",
     INTO(device)},
    {"seed", "S", "seed of the sampling [42]", INTO(options.seed), .max = 1e15},
    {0},
};

static const struct dt_cmd_line line = {
    "generate",
    "usage: disttrain generate --model DIR --prompt TEXT [--chat] [OPTIONS]\n"
    "       disttrain generate --model DIR --prompts FILE [OPTIONS]\n"
    "       disttrain generate --model DIR --tokens ID,ID,... [OPTIONS]\n"
    "       disttrain generate --model DIR --score FILE [OPTIONS]\n\n"
    "Prints TEXT and the continuation that the model in DIR generates,\n"
    "token by token, until the model ends the text.\n",
    table, NULL};

int dt_cmd_generate(int argc, char **argv)
{
    struct request request = {
        .template = "auto",
        .options = {.slots = 8,
                    .copies = 1,
                    .max_tokens = 200,
                    .sampling = {.temperature = 0.8,
                                 .top_p = 1,
                                 .repetition_penalty = 1},
                    .seed = 42},
    };
    int status = dt_cmd_parse(&line, argc, argv, &request);
    if (status != DT_CMD_RUN)
        return status;
    if (optind < argc)
        return dt_cmd_usage_error("generate", "unexpected '%s'", argv[optind]);
    if (!request.dir)
        return dt_cmd_usage_error("generate", "--model DIR is missing");
    if (!!request.prompt + !!request.tokens + !!request.file +
            !!request.score !=
        1)
        return dt_cmd_usage_error(
            "generate",
            "expected one of --prompt, --prompts, --tokens and --score");
    if (request.image_root && !request.file && !request.score)
        return dt_cmd_usage_error("generate",
                                  "--image-root needs --prompts or --score");
    return run_request(&request);
}
