/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c - `disttrain generate`: text sampled from a trained model */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "algo/sample.h"
#include "algo/weights.h"
#include "cmd/cmd.h"
#include "cmd/text_out.h"
#include "data/data.h"
#include "model/model.h"

enum {
    PARAMS_PER_THREAD = 1 << 22,
};

struct request {
    const char *dir;    /* --model */
    const char *prompt; /* --prompt, or */
    const char *tokens; /* --tokens */
    size_t max_tokens;
    struct dt_sampling sampling;
};

/* A model that only computes, with a window of T tokens. */
struct speaker {
    struct dt_model_config config;
    struct dt_layout *layout;
    struct dt_buffer *buf; /* the weights */
    struct dt_model *model;
    size_t T;
    float *logits; /* (V) */
    int32_t *ids;  /* prompt, then what was drawn */
    size_t count;
};

static void speaker_fini(struct speaker *s)
{
    dt_model_destroy(s->model);
    dt_buffer_destroy(s->buf);
    dt_layout_destroy(s->layout);
    dt_model_config_fini(&s->config);
    free(s->logits);
    free(s->ids);
}

/* Appends the prompt, or the end-of-text token if it is empty. */
static int take_prompt(struct speaker *s, const struct request *request,
                       struct dt_error *err)
{
    if (s->config.vocab_size != DT_BYTE_VOCAB)
        return dt_error_set(
            err, EX_USAGE,
            "%s: the model has %zu tokens, the byte tokenizer %d: give the "
            "prompt as --tokens ID,ID,... and get token ids",
            request->dir, s->config.vocab_size, DT_BYTE_VOCAB);
    for (const char *p = request->prompt; *p; p++)
        s->ids[s->count++] = (unsigned char)*p;
    if (s->count == 0)
        s->ids[s->count++] = DT_BYTE_EOT;
    return 0;
}

/* Appends the ids of a list "1,2,3". */
static int take_tokens(struct speaker *s, const char *list,
                       struct dt_error *err)
{
    const char *p = list;
    for (;;) {
        char *end;
        errno = 0;
        long id = strtol(p, &end, 10);
        if (end == p || errno || id < 0 || (size_t)id >= s->config.vocab_size ||
            (*end && *end != ','))
            return dt_error_set(err, EX_USAGE,
                                "--tokens: expected ids from 0 to %zu with "
                                "commas between them, got '%s'",
                                s->config.vocab_size - 1, p);
        s->ids[s->count++] = (int32_t)id;
        if (!*end)
            return 0;
        p = end + 1;
    }
}

/* Threads wait for each other in every operation, of which a small model has
 * many and short ones.
 */
static void choose_threads(const struct dt_layout *layout)
{
    int useful = 1 + (int)(layout->param_total / PARAMS_PER_THREAD);
    if (useful < omp_get_max_threads())
        omp_set_num_threads(useful);
}

static int speaker_init(struct speaker *s, const struct request *request,
                        struct dt_error *err)
{
    size_t prompt_bytes =
        strlen(request->prompt ? request->prompt : request->tokens);
    size_t all = prompt_bytes + 1 + request->max_tokens;
    if (dt_model_config_load(&s->config, request->dir, err) < 0)
        return -1;
    s->logits = calloc(s->config.vocab_size, sizeof(*s->logits));
    s->ids = calloc(all, sizeof(*s->ids));
    if (!s->logits || !s->ids)
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (request->prompt ? take_prompt(s, request, err)
                        : take_tokens(s, request->tokens, err))
        return -1;

    s->T = all < s->config.n_positions ? all : s->config.n_positions;
    s->layout = dt_model_layout(&s->config, 1, err);
    if (!s->layout)
        return -1;
    choose_threads(s->layout);
    s->buf = dt_buffer_create(s->layout->count * sizeof(float), "weights", err);
    if (!s->buf)
        return -1;
    struct dt_view weights = dt_view_of(s->buf, DT_F32);
    if (dt_weights_load(request->dir, s->layout, weights, err) < 0)
        return -1;
    const struct dt_model_options options = {
        .B = 1, .T = s->T, .compute = DT_F32};
    s->model = dt_model_create(&s->config, s->layout, dt_ops_cpu(), weights,
                               (struct dt_view){0}, &options, err);
    return s->model ? 0 : -1;
}

/* Draws the next token from the last T. */
static int32_t next_token(struct speaker *s, const struct dt_sampling *sampling)
{
    size_t length = s->count < s->T ? s->count : s->T;
    struct dt_batch batch = {
        .B = 1, .T = length, .inputs = s->ids + s->count - length};
    for (size_t u = 0; u <= s->config.n_layer; u++)
        dt_model_forward(s->model, u, &batch, false);
    dt_model_logits(s->model, 0, length - 1, s->logits);
    return dt_sample(sampling, s->logits, s->config.vocab_size, s->count);
}

static void speak_text(struct speaker *s, const struct request *request)
{
    struct dt_text_out out = {.file = stdout};
    fputs(request->prompt, stdout);
    fflush(stdout);
    for (size_t i = 0; i < request->max_tokens; i++) {
        int32_t id = next_token(s, &request->sampling);
        if (id == DT_BYTE_EOT)
            break;
        s->ids[s->count++] = id;
        dt_text_out_byte(&out, (unsigned char)id);
    }
    dt_text_out_end(&out);
    putchar('\n');
}

static void speak_tokens(struct speaker *s, const struct request *request)
{
    for (size_t i = 0; i < request->max_tokens; i++) {
        int32_t id = next_token(s, &request->sampling);
        s->ids[s->count++] = id;
        printf("%s%d", i ? " " : "", id);
        fflush(stdout);
    }
    putchar('\n');
}

static int generate(const struct request *request)
{
    struct speaker speaker = {0};
    struct dt_error err;
    int status = 0;
    if (speaker_init(&speaker, request, &err) < 0) {
        fprintf(stderr, "disttrain: %s\n", err.text);
        status = err.status;
    } else {
        if (request->prompt)
            speak_text(&speaker, request);
        else
            speak_tokens(&speaker, request);
        if (fflush(stdout) || ferror(stdout)) {
            fprintf(stderr, "disttrain: cannot write: %s\n", strerror(errno));
            status = EX_IOERR;
        }
    }
    speaker_fini(&speaker);
    return status;
}

static void print_help(void)
{
    fputs("usage: disttrain generate --model DIR --prompt TEXT [OPTIONS]\n\n"
          "Prints TEXT and what the model in DIR (config.json and\n"
          "model.safetensors) makes of it, one token at a time.\n\n"
          "  --model DIR        a checkpoint, or a Hugging Face directory\n"
          "  --prompt TEXT      how the text begins (byte tokenizer)\n"
          "  --tokens ID,ID,... the same for other vocabularies; prints ids\n"
          "  --max-tokens N     stop after N tokens [200]\n"
          "  --temperature X    0: always the likeliest token [0.8]\n"
          "  --top-k K          only among the K likeliest, up to 1000\n"
          "                     [0: all]\n"
          "  --seed S           other seeds, other texts [42]\n",
          stdout);
}

/* The value of an option, in [min, max]; false and a message otherwise. */
static bool parse_number(const char *option, double min, double max,
                         bool integer, double *out)
{
    char *end;
    *out = strtod(optarg, &end);
    bool ok = end != optarg && !*end && *out >= min && *out <= max &&
              (!integer || *out == (double)(uint64_t)*out);
    if (!ok)
        dt_cmd_usage_error(
            "generate", "--%s: expected %s from %.10g to %.10g, got '%s'",
            option, integer ? "an integer" : "a number", min, max, optarg);
    return ok;
}

/* Fills request. -1 to go on, or the exit code. */
static int parse_options(struct request *request, int argc, char **argv)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, 'h'},
        {"model", required_argument, NULL, 'm'},
        {"prompt", required_argument, NULL, 'p'},
        {"tokens", required_argument, NULL, 't'},
        {"max-tokens", required_argument, NULL, 'n'},
        {"temperature", required_argument, NULL, 'T'},
        {"top-k", required_argument, NULL, 'k'},
        {"seed", required_argument, NULL, 's'},
        {0},
    };
    double max_tokens = 200, temperature = 0.8, top_k = 0, seed = 42;
    bool ok = true;
    int c;
    opterr = 0;
    while (ok && (c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (c) {
        case 'h':
            print_help();
            return 0;
        case 'm':
            request->dir = optarg;
            break;
        case 'p':
            request->prompt = optarg;
            break;
        case 't':
            request->tokens = optarg;
            break;
        case 'n':
            ok = parse_number("max-tokens", 1, 1e6, true, &max_tokens);
            break;
        case 'T':
            ok = parse_number("temperature", 0, 100, false, &temperature);
            break;
        case 'k':
            ok = parse_number("top-k", 0, 1000, true, &top_k);
            break;
        case 's':
            ok = parse_number("seed", 0, 1e15, true, &seed);
            break;
        default:
            return dt_cmd_option_error("generate", c, argv[optind - 1]);
        }
    }
    request->max_tokens = (size_t)max_tokens;
    request->sampling = (struct dt_sampling){
        .temperature = temperature,
        .top_k = (size_t)top_k,
        .seed = (uint64_t)seed,
    };
    return ok ? -1 : EX_USAGE;
}

int dt_cmd_generate(int argc, char **argv)
{
    struct request request = {0};
    int status = parse_options(&request, argc, argv);
    if (status >= 0)
        return status;
    if (optind < argc)
        return dt_cmd_usage_error("generate", "'%s' is too much", argv[optind]);
    if (!request.dir)
        return dt_cmd_usage_error("generate", "which --model DIR?");
    if (!request.prompt == !request.tokens)
        return dt_cmd_usage_error("generate",
                                  "one of --prompt and --tokens is needed");
    return generate(&request);
}
