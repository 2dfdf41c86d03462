/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_impl.h - what the sources of subcommands share */
#ifndef DT_CMD_CMD_IMPL_H
#define DT_CMD_CMD_IMPL_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "conf/conf.h"
#include "tensor/tensor.h"

struct dt_backend;
struct dt_candidates;
struct dt_chat;
struct dt_comm;
struct dt_engine;
struct dt_exec;
struct dt_job_size;
struct dt_launch;
struct dt_rollout_options;
struct dt_stream;
struct dt_prompter;

/* --- command lines ---
 *
 * A command line is a table. A row is an option: its name, its argument, its
 * help, and the member of the command's own struct that takes the value, whose
 * type says how the value is read. Parsing, errors and --help come from these
 * rows, the completion of bash comes from --help, and tests/lint/man.sh
 * compares the manual pages with it.
 */

/* How the value of an option is read and stored. */
enum dt_option_kind {
    DT_OPTION_CALL,   /* by take, which stores it */
    DT_OPTION_FLAG,   /* bool, which becomes true */
    DT_OPTION_TEXT,   /* const char *, borrowed from argv */
    DT_OPTION_INT,    /* int, or an enum */
    DT_OPTION_LONG,   /* long, and size_t or uint64_t below LONG_MAX */
    DT_OPTION_NUMBER, /* double */
    DT_OPTION_SET,    /* KEY=VALUE, for dt_cmd_overrides; see DT_CMD_SET */
    DT_OPTION_GONE,   /* refused, with the help as the reason */
};

/* Reads the value of an option into the command's struct. Returns 0, or
 * EX_USAGE after a message.
 */
typedef int (*dt_option_f)(const char *value, void *values);

/* A row. --help and hints leave out options that are gone. */
struct dt_option {
    const char *name;
    const char *argument; /* as --help has it; "=LIST": after a "="; "a|b": one
                             of these words, in any case, whose index an int
                             takes; NULL: none */
    const char *help;     /* wrapped by --help; begins with a small letter */
    enum dt_option_kind kind;
    size_t offset; /* of the member */
    dt_option_f take;
    double min, max;   /* of a number */
    char letter;       /* "-o" for "--output"; '\0': none */
    const char *needs; /* the option without which it is refused; or NULL */
    const char *excludes, *because; /* the option with which it is refused, and
                                       the reason if it needs one; or NULL */
};

/* Stores the value in a member of the type of the command's struct. */
#define DT_INTO(type, member)                                                  \
    .kind = _Generic(((type *)NULL)->member, bool                              \
                     : DT_OPTION_FLAG, const char *                            \
                     : DT_OPTION_TEXT, int                                     \
                     : DT_OPTION_INT, unsigned                                 \
                     : DT_OPTION_INT, long                                     \
                     : DT_OPTION_LONG, unsigned long                           \
                     : DT_OPTION_LONG, double                                  \
                     : DT_OPTION_NUMBER),                                      \
    .offset = offsetof(type, member)

/* --set KEY=VALUE, for a command that reads a configuration; it may be given
 * several times. The help follows.
 */
#define DT_CMD_SET .kind = DT_OPTION_SET, .name = "set", .argument = "KEY=VALUE"

/* The types of weights, for the argument of --dtype: the order of dt_dtype. */
#define DT_CMD_DTYPES "fp32|bf16|fp16"

/* The command line of a subcommand. Every one has --help and -h, too. */
struct dt_cmd_line {
    const char *name;                /* of the subcommand */
    const char *usage;               /* the lines of --help before options */
    const struct dt_option *options; /* up to a row without name, at most 30 */
    const char *notes;               /* the lines after options; or NULL */
};

enum { DT_CMD_RUN = -1 };

/* Stores the options of argv in the command's struct, and permutes argv so that
 * argv[optind] is the first of the other words. Returns DT_CMD_RUN, or the
 * status to exit with: 0 after --help, else EX_USAGE after a message.
 */
int dt_cmd_parse(const struct dt_cmd_line *line, int argc, char **argv,
                 void *values);

/* The same for a command that runs another program: argv stays as it is, and
 * the words from argv[optind] on are that program and its arguments.
 */
int dt_cmd_parse_first(const struct dt_cmd_line *line, int argc, char **argv,
                       void *values);

/* Returns the index of a value among "a|b|c", in any case, or -1 after a
 * message of the subcommand.
 */
int dt_cmd_choose(const char *command, const char *option, const char *words,
                  const char *value);

/* --- messages and output --- */

/* Prints `disttrain NAME: <formatted>` and a hint at --help on stderr; returns
 * EX_USAGE.
 */
int dt_cmd_usage_error(const char *name, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints `disttrain NAME: <err>` on stderr; returns the status of err. */
int dt_cmd_fail(const char *name, const struct dt_error *err);

/* Returns the name of a type as --dtype has it. */
const char *dt_cmd_dtype_name(enum dt_dtype dtype);

/* Flushes stdout. Returns status, or EX_IOERR after a message. */
int dt_cmd_flush(const char *name, int status);

/* --- configurations --- */

/* The values of --set, for dt_conf_load. */
const struct dt_conf_overrides *dt_cmd_overrides(void);

/* Removes all values of --set; appends one; puts a list of DT_ENV_OVERRIDES
 * before them. -1: EX_USAGE, something is no KEY=VALUE; EX_OSERR.
 */
void dt_cmd_overrides_clear(void);
int dt_cmd_overrides_add(const char *word, struct dt_error *err);
int dt_cmd_overrides_inherit(const char *list, struct dt_error *err);

/* Loads a configuration for the subcommand NAME, finds its models
 * (dt_models_find) and prints its problems and, if `warn`, its warnings on
 * stderr. NULL if there is a problem.
 */
struct dt_conf *dt_cmd_load(const char *name, const char *file, bool warn);

/* Writes the strategy that distributed.strategy: auto takes in the job of
 * `launch:`, and why, as dt_ballot_text does. -1: as dt_candidates_init.
 */
int dt_cmd_strategy_text(const struct dt_conf *conf, char text[256],
                         struct dt_error *err);

/* Prints the warnings of a configuration, read as `file`, unless the check that
 * srun has made before has printed the same (DT_ENV_WARNED).
 */
void dt_cmd_warn_once(const char *file,
                      const struct dt_conf_problems *warnings);

/* Checks a configuration against its model and tokenizer, and prints a problem
 * as dt_cmd_load does. Returns EX_OK, or EX_CONFIG if there is one.
 */
int dt_cmd_check_training(const char *file, const struct dt_conf *conf);

/* --- ranks --- */

/* Without OMP_NUM_THREADS, uses this rank's share of the CPUs it may run on;
 * with it, at most these CPUs, and rank 0 logs that.
 */
void dt_join_threads(const struct dt_launch *launch);

/* Opens the device that run.device names, with a stream for all work, and logs
 * why it is the CPU if the user may not expect that. Without a launch, for a
 * program that is no rank, it is the first such device, and nothing is logged.
 * NULL and err: as dt_backend_open, EX_OSERR.
 */
const struct dt_backend *dt_join_hardware(const struct dt_conf *conf,
                                          const struct dt_launch *launch,
                                          struct dt_exec *exec,
                                          struct dt_error *err);

/* The communicator of all ranks. NULL and err: as dt_backend_connect. */
struct dt_comm *dt_join_ranks(const struct dt_conf *conf,
                              const struct dt_backend *backend,
                              struct dt_stream *stream,
                              struct dt_launch *launch, struct dt_error *err);

/* Tells the user and the other ranks of a failure, or the user that the run was
 * stopped. It does not use the launcher's abort once there is a comm, because
 * that would kill the others before they know why. Releases comm, which may be
 * NULL.
 */
void dt_join_tell(struct dt_launch *launch, struct dt_comm *comm,
                  const struct dt_error *err);

/* Returns the exit status; ends the process if it has failed and there is more
 * than one rank: then no orderly exit is possible any more.
 */
int dt_join_end(const struct dt_launch *launch, const struct dt_error *err);

/* Both of these. */
int dt_join_failed(struct dt_launch *launch, struct dt_comm *comm,
                   const struct dt_error *err);

enum {
    DT_JOIN_TIMEOUT_MS = 60000, /* where no configuration says it */
};

/* --- keepers --- */

/* Keeps the ranks of `disttrain train`, whose arguments are argv, if the
 * configuration and the step allow it: true and the status to exit with. False:
 * this process is a rank itself.
 */
bool dt_keep_training(const struct dt_conf *conf, char *const *argv,
                      int *status);

/* Keeps a rank that is another program, which starts again up to `max_restarts`
 * times; `spent` is told when it may not any more. Returns the status to exit
 * with.
 */
int dt_keep_command(char *const *words, long max_restarts, const char *spent);

/* Told where launch.max_worker_restarts is the limit. */
#define DT_KEEP_SPENT "launch.max_worker_restarts allows no more restarts"

/* --- generate --- */

/* Replaces bytes that are not UTF-8, and control characters that a terminal
 * would interpret, with U+FFFD. Initialize with {.file = out}.
 */
struct dt_text_out {
    FILE *file;
    unsigned char held[4]; /* the beginning of a character */
    size_t count;
};

/* Adds one byte; whole characters are written and flushed. */
void dt_text_out_byte(struct dt_text_out *out, unsigned char byte);

/* Ends the text: the beginning of a character that is still held becomes
 * U+FFFD.
 */
void dt_text_out_end(struct dt_text_out *out);

/* Prints the warning of dt_chat_warning, if there is one, on stderr. */
void dt_generate_warn(const struct dt_chat *chat);

/* Continues the prompts of `path`, as many at a time as options have slots.
 * Each line is an object with prompt (text) or messages (a conversation), and
 * with images where the model of `prompter` sees them. Prints each line's
 * object with the key completion added, in order, and the warning about `chat`
 * on stderr if it is used. All ranks of comm call it and share the prompts;
 * rank 0 prints. -1: EX_NOINPUT, EX_DATAERR with file and line, EX_IOERR,
 * EX_OSERR, EX_UNAVAILABLE.
 */
int dt_generate_file(struct dt_engine *engine, struct dt_prompter *prompter,
                     const char *path, const struct dt_chat *chat,
                     const struct dt_error *no_chat,
                     const struct dt_rollout_options *options,
                     struct dt_comm *comm, struct dt_error *err);

/* Prints a score for each line of `path`: lines of JSON with text, with prompt
 * and completion, or with messages, and images, tokenized as in training.
 * `engine` holds a reward model. -1: as dt_score_file.
 */
int dt_generate_score(struct dt_engine *engine,
                      const struct dt_prompter *prompter, const char *path,
                      const char *chat_template, const char *chat_variables,
                      struct dt_error *err);

/* --- prepare --- */

/* A reward model, and how much its scores count. */
struct dt_judge {
    const char *dir;
    double weight;
};

/* Pairs that reward models compare anew. */
struct dt_judging {
    const char *path, *out; /* files of pairs: as they are, to be written */
    const char *image_root; /* as for dt_prompter_create */
    struct dt_judge *judges;
    size_t judge_count;
};

/* Writes the lines of JSON of judging->path to judging->out: the side with the
 * higher sum of weighted scores becomes the chosen one, "margin" is by how
 * much, and "scores" has those of each model. Prints how many pairs have
 * changed sides. -1: as dt_engine_open and dt_score_file; EX_DATAERR,
 * EX_CANTCREAT.
 */
int dt_prepare_scores(const struct dt_judging *judging, struct dt_error *err);

/* --- plan --- */

/* The command line's description of the job. */
struct dt_plan_job {
    long nodes, ranks; /* of a node; 0: as `launch:` says */
    size_t gpu_memory; /* bytes; 0: that of the rates */
    const char *rates; /* a file or a known device; NULL: as the file says */
};

/* Finds the size and the rates of the job, and sets the threads that a rank of
 * it has. -1: EX_USAGE if it is too large or the rates are of the other kind of
 * device; as dt_rates_load.
 */
int dt_plan_job_size(const struct dt_plan_job *job, const struct dt_conf *conf,
                     struct dt_job_size *size, struct dt_error *err);

/* The table, and the lines below it. `file` as the user named it. */
void dt_plan_out_table(const struct dt_candidates *candidates, const char *file,
                       FILE *out);

/* The same with all numbers, as one JSON object. -1: EX_OSERR. */
int dt_plan_out_json(const struct dt_candidates *candidates, const char *file,
                     FILE *out, struct dt_error *err);

/* "1.23 GB" in text[24]. Returns text. */
const char *dt_plan_out_bytes(double bytes, char *text);

/* --- report --- */

/* Writes the records of `run`, as dt_history_open takes it, as event files of
 * TensorBoard in tb of the directory `output`, and prints where. NULL: the
 * run's own directory. Event files of earlier calls there are superseded. -1
 * and err: as dt_history_open, EX_CANTCREAT, EX_IOERR, EX_OSERR.
 */
int dt_report_to_tensorboard(const char *run, const char *output,
                             struct dt_error *err);

#endif /* DT_CMD_CMD_IMPL_H */
