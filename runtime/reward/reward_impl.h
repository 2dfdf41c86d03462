/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reward_impl.h - functions that give rewards, and their threads
 *
 * A function has lanes, each a thread that scores one call at a time, by a
 * kind: a rule, a program, a server, or a model, which has no thread. Calls are
 * queued for a function and taken by its lanes.
 */
#ifndef DT_REWARD_REWARD_IMPL_H
#define DT_REWARD_REWARD_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "reward/reward.h"

/* --- functions: how they score --- */

/* A copy of samples that are scored together. */
struct dt_reward_batch {
    long step;
    size_t count;
    struct dt_reward_sample sample[]; /* completions of one prompt, one after
                                         another, share its text and JSON */
};

/* Copies samples; neighbors share one copy of their common parts. Bytes of a
 * text that are not UTF-8 become U+FFFD, and each text ends with a NUL. NULL:
 * out of memory.
 */
struct dt_reward_batch *dt_reward_batch_create(
    long step, const struct dt_reward_sample *samples, size_t count);
void dt_reward_batch_destroy(struct dt_reward_batch *batch); /* NULL is fine */

/* A part of a batch: the samples that one call of a function scores. */
struct dt_reward_part {
    const struct dt_reward_batch *batch;
    size_t first, count;
};

static inline const struct dt_reward_sample *dt_reward_at(
    const struct dt_reward_part *part, size_t i)
{
    return &part->batch->sample[part->first + i];
}

/* A thread that scores with one function; a function may have several. */
struct dt_reward_lane {
    const struct dt_conf_reward *conf;
    size_t number;                     /* among those of its function */
    const char *run;                   /* run.name */
    const char *directory;             /* of the file: programs run there */
    const struct dt_exec *exec;        /* of models; NULL: no device */
    enum dt_dtype dtype;               /* in which models compute */
    const struct dt_reward_room *room; /* of its model; NULL: as below */
    const struct dt_example_images *images; /* as in the options */
    int stop; /* readable when the lane must end */
    struct dt_rewards *rewards;
    struct dt_reward_function *function;
    void *state; /* of its kind */
    pthread_t thread;
    bool started, open; /* its thread; here: its kind */
};

/* No reward may be larger, as sums and squares of rewards overflow. */
#define DT_REWARD_MOST 1e30

/* How a function scores. All are called by the lane's thread. */
struct dt_reward_kind {
    /* By the thread of the caller instead, while it opens and collects: for
     * functions that use the device.
     */
    bool here;
    bool one;       /* only one call at a time: no other lanes */
    double pause_s; /* before a call is repeated; then 2, 4 ... times that */
    /* Prepares lane->state. -1: EX_CONFIG, EX_UNAVAILABLE, EX_OSERR. */
    int (*open)(struct dt_reward_lane *lane, struct dt_error *err);
    /* Fills values(part->count, channels), each a number or NaN, and ends in
     * time or when lane->stop is readable. -1: the call may be repeated.
     */
    int (*score)(struct dt_reward_lane *lane, const struct dt_reward_part *part,
                 double *values, struct dt_error *err);
    /* After the last queued call: fills values of earlier calls that were still
     * open, and checks them; NULL: none does. -1: not to be repeated.
     */
    int (*flush)(struct dt_reward_lane *lane, struct dt_error *err);
    void (*close)(struct dt_reward_lane *lane); /* also after a failed open */
};

extern const struct dt_reward_kind dt_reward_rule;
extern const struct dt_reward_kind dt_reward_command;
extern const struct dt_reward_kind dt_reward_model;
extern const struct dt_reward_kind dt_reward_http;

/* How functions of this type score, and whether that can be repeated. */
const struct dt_reward_kind *dt_reward_kind_of(
    const struct dt_conf_reward *conf);
int dt_reward_calls(const struct dt_conf_reward *conf);

/* Seconds to wait after a call that failed; `call` is 0 for the first one. */
double dt_reward_pause_s(const struct dt_conf_reward *conf, int call);

/* The most seconds that one call of score takes, with the pause after it. */
double dt_reward_call_s(const struct dt_conf_reward *conf);

/* --- functions: their threads and queued calls --- */

/* The samples that one call of a function scores, and where its values go. */
struct dt_reward_task {
    struct dt_reward_task *next;   /* in the queue of its function */
    struct dt_reward_task *behind; /* in the list of all */
    struct dt_reward_function *function;
    struct dt_reward_part part;
    size_t row;      /* of its first sample, among all that are queued */
    double values[]; /* (part.count, channels) */
};

struct dt_reward_function {
    const struct dt_conf_reward *conf;
    const struct dt_reward_kind *kind;
    size_t channels, first; /* its columns among those that run here */
    struct dt_reward_lane *lane;
    size_t lane_count;
    struct dt_reward_task *head, *tail; /* not begun */
    size_t left;                        /* not done */
    size_t failed;                      /* samples without a value */
    size_t step_failed, recent_failed;  /* as in dt_rewards */
};

struct dt_rewards {
    const struct dt_conf *conf;
    char *directory; /* of the file */
    struct dt_reward_function *function;
    size_t function_count;
    struct dt_reward_column *column;
    size_t column_count;
    int stop_fd;

    pthread_mutex_t
        mutex; /* of everything below and of the functions' queues */
    pthread_cond_t work, done;
    atomic_bool stop;
    size_t opening; /* lanes that are not ready */
    bool has_failed;
    struct dt_error failure;
    struct dt_reward_task *tasks; /* all, newest first */
    struct dt_reward_batch **batch;
    size_t batch_count, rows;
    long step;                     /* whose samples were collected last */
    size_t step_rows, recent_rows; /* samples of it, and of the last steps */
};

/* Starts the lanes of all functions and waits until they are ready. -1: as
 * dt_rewards_open; dt_reward_lanes_stop is needed in any case.
 */
int dt_reward_lanes_start(struct dt_rewards *rewards,
                          const struct dt_reward_options *options,
                          struct dt_error *err);

/* Scores the queued calls of functions that the caller's thread runs. */
void dt_reward_lanes_run(struct dt_rewards *rewards);

/* Ends all lanes. False: one hangs in code that cannot be ended, and still uses
 * memory of `rewards`.
 */
bool dt_reward_lanes_stop(struct dt_rewards *rewards);

/* --- programs --- */

/* A program in a process group of its own, and lines to and from it. */
enum { DT_PROCESS_LAST_BYTES = 256 };

struct dt_process_options {
    char *const *argv; /* ends with NULL; argv[0], its name in messages, is
                          looked for in PATH */
    const char *directory;
    const char *name;      /* in the log, before its lines of stderr */
    char *const *secrets;  /* "NAME=value" for its environment; NULL: none */
    bool gpu;              /* false: CUDA_VISIBLE_DEVICES is empty */
    long memory_mb, cpu_s; /* limits; 0: none */
    int stop; /* reading and writing end when this is readable; -1: never */
};

/* Zeroed before dt_process_start; released with dt_process_end. */
struct dt_process {
    struct dt_process_options options;
    pid_t pid;        /* and process group; 0: none */
    int in, out, err; /* its stdin, stdout and stderr; -1: closed */
    int end;          /* a pidfd, readable when it has ended; -1: none */
    char *buffer;     /* its output that nobody has read yet */
    size_t used, room;
    char last[DT_PROCESS_LAST_BYTES]; /* last line on stderr */
    char line[DT_PROCESS_LAST_BYTES]; /* the one that it is writing */
    size_t line_bytes;
    size_t said; /* lines on stderr since the last request */
};

/* Starts it. It dies with the thread that calls this, with no descriptor of
 * ours but three pipes, no handlers, and without the variables by which
 * launchers tell a rank its place. -1: EX_UNAVAILABLE, EX_OSERR.
 */
int dt_process_start(struct dt_process *process,
                     const struct dt_process_options *options,
                     struct dt_error *err);

/* Writes a line and reads one of at most `most` bytes, within timeout_s. The
 * line without its LF is at *reply, *bytes long, until the next call. -1:
 * EX_UNAVAILABLE, it did not answer in time, has ended (with its status and the
 * last line on stderr), or must stop; EX_PROTOCOL, it wrote too much or
 * unasked. Only dt_process_end can follow a failure.
 */
int dt_process_ask(struct dt_process *process, const char *line, size_t most,
                   double timeout_s, const char **reply, size_t *bytes,
                   struct dt_error *err);

/* Closes its stdin and waits up to grace_s for its end; then kills the rest of
 * its process group and waits up to a second for processes that the kernel
 * cannot kill yet.
 */
void dt_process_end(struct dt_process *process, double grace_s);

/* --- lines of JSON to and from programs and servers --- */

/*
 * A program reads and writes one object a line, in UTF-8:
 *
 *   first line to it  {"disttrain_reward":1,"run":..,"name":..,
 *                      "channels":[..],"config":{..}}
 *   its answer        {"ready":true,"abi":1}
 *   a request         {"id":n,"step":s,"samples":[{"index":..,"copy":..,
 *                      "prompt":text or messages,"completion":..,
 *                      "completion_ids":[..],"truncated":..,"columns":{..},
 *                      "images":[{"sha256":..,"path":..}]}],
 *                      "images":{sha256:base64, ..}}
 *   its answer        {"id":n,"rewards":[number or null, ..]} or
 *                     {"id":n,"channels":{"name":[..], ..}} or
 *                     {"error":"why"}
 *
 * A sample has images if its prompt has. Their files, each once, are in the
 * request if the function has image_bytes.
 */

enum { DT_REWARD_ABI = 1 };

/* The lines for a program, each with LF, malloc'ed. NULL: out of memory. */
char *dt_reward_hello(const struct dt_conf_reward *conf, const char *run);

/* The line of a request; with the files of images unless `images` is NULL. NULL
 * and err: EX_OSERR; as dt_image_store_get.
 */
char *dt_reward_request(const struct dt_reward_part *part, json_int_t id,
                        const struct dt_example_images *images,
                        struct dt_error *err);

/* Checks the answer to the first line. -1: EX_PROTOCOL with the answer;
 * EX_UNAVAILABLE with the program's own words.
 */
int dt_reward_ready(const char *line, size_t bytes, struct dt_error *err);

/* The expected contents of an answer to a request. */
struct dt_reward_form {
    json_int_t id;
    size_t count;                        /* samples */
    const struct dt_conf_list *channels; /* their names; none: "rewards" */
};

/* Reads the values(count, channels) of an answer; null becomes NaN. -1: as
 * dt_reward_ready.
 */
int dt_reward_reply(const char *line, size_t bytes,
                    const struct dt_reward_form *form, double *values,
                    struct dt_error *err);

/* The same for servers that were made for OpenRLHF: {"query","prompts",
 * "labels"}, three lists: query has prompts with their completions, and labels
 * has the values of `column`, or null. malloc'ed; NULL: out of memory.
 */
char *dt_reward_queries(const struct dt_reward_part *part, const char *column);

/* Its answer: {"rewards":[..]}; other keys are left out. */
int dt_reward_openrlhf(const char *text, size_t bytes, size_t count,
                       double *values, struct dt_error *err);

/* --- numbers, arithmetic and elements in the text of a model --- */

/* A piece of a text, not NUL-terminated. */
struct dt_piece {
    const char *s;
    size_t n;
};

/* The piece without ASCII white space at both ends. */
struct dt_piece dt_piece_trim(struct dt_piece piece);

/* Finds the last number of a text: digits, also in groups of three with commas,
 * with a sign, a fraction and an exponent. A minus after a letter, a digit or a
 * bracket is no sign, a period at the end no fraction. False: there is none.
 */
bool dt_piece_last_number(struct dt_piece piece, double *number);

/* True if the piece is arithmetic with + - * / ( ) and decimal numbers, and
 * nothing else, that uses each of `numbers` exactly once. *value is its result;
 * a division by zero gives an infinity or NaN.
 */
bool dt_piece_arithmetic(struct dt_piece piece, const double *numbers,
                         size_t count, double *value);

/* True if the piece begins with the elements <tag>...</tag> of all `tags`, each
 * of which opens and closes once, in this order, with only white space between.
 */
bool dt_piece_has_elements(struct dt_piece piece, char *const *tags,
                           size_t count);

#endif /* DT_REWARD_REWARD_IMPL_H */
