/* SPDX-License-Identifier: Apache-2.0 */
/*
 * console.c - copies the output of srun, sorts it by rank and reports failures
 *
 * It is a child of srun, between srun and its stdout and stderr, and passes
 * bytes on as they come.
 */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/answer.h"
#include "base/clock.h"
#include "base/rankset.h"
#include "base/secret.h"
#include "base/str.h"
#include "base/terminal.h"
#include "console/console.h"
#include "console/console_impl.h"
#include "contract/comment.h"
#include "contract/contract.h"

/* --- the step --- */

static int parse_labels(struct dt_console_step *s, const char *word,
                        struct dt_error *err)
{
    static const char *const words[] = {[DT_LABELS_NONE] = "none",
                                        [DT_LABELS_STRIP] = "strip",
                                        [DT_LABELS_KEEP] = "keep",
                                        [DT_LABELS_APART] = "apart"};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (strcmp(word, words[i]) == 0) {
            s->labels = (enum dt_console_labels)i;
            return 0;
        }
    return dt_error_set(err, EX_PROTOCOL, "unexpected labels \"%.64s\"", word);
}

static int parse_task_count(struct dt_console_step *s, const char *number,
                            int64_t now_ms, struct dt_error *err)
{
    if (s->outcome || sscanf(number, "%" SCNu32, &s->tasks) != 1 ||
        s->tasks == 0 || s->tasks > INT32_MAX)
        return dt_error_set(err, EX_PROTOCOL, "unexpected tasks \"%.64s\"",
                            number);
    s->outcome = dt_outcome_create(s->tasks, now_ms, err);
    return s->outcome ? 0 : -1;
}

static int keep(const char *value, char *to, size_t size)
{
    snprintf(to, size, "%s", value);
    return 0;
}

/* Parses one line of the step's description, see contract/contract.h. */
static int parse_fact(struct dt_console_step *s, char *line, int64_t now_ms,
                      struct dt_error *err)
{
    struct dt_step_identity *identity = &s->identity;
    const char *value;
    line[strcspn(line, "\n")] = '\0';
    if ((value = dt_str_after(line, DT_CONSOLE_LABELS)))
        return parse_labels(s, value, err);
    if ((value = dt_str_after(line, DT_CONSOLE_TASKS)))
        return parse_task_count(s, value, now_ms, err);
    if ((value = dt_str_after(line, DT_CONSOLE_STEP)))
        return keep(value, identity->id, sizeof(identity->id));
    if ((value = dt_str_after(line, DT_CONSOLE_TOKEN)))
        return keep(value, identity->token, sizeof(identity->token));
    if ((value = dt_str_after(line, DT_CONSOLE_PROGRESS)))
        return keep(value, identity->progress, sizeof(identity->progress));
    if ((value = dt_str_after(line, DT_CONSOLE_KEEPERS)))
        return keep(value, identity->keepers, sizeof(identity->keepers));
    if (dt_str_after(line, DT_CONSOLE_VERDICT))
        return 0; /* our own */
    if ((value = dt_str_after(line, DT_CONSOLE_STATUS)) && s->outcome) {
        dt_outcome_srun_ended(s->outcome, atoi(value));
        return 0;
    }
    const char *node = dt_str_after(line, DT_CONSOLE_NODE);
    char *blank = strrchr(line, ' ');
    if (!s->outcome || !node || blank < node)
        return dt_error_set(err, EX_PROTOCOL, "unexpected line \"%.64s\"",
                            line);
    *blank = '\0';
    return dt_outcome_add_node(s->outcome, node, blank + 1, err);
}

int dt_console_step_read(struct dt_console_step *s, FILE *in, int64_t now_ms,
                         struct dt_error *err)
{
    char *line = NULL;
    size_t size = 0;
    int rc = 0;
    if (getline(&line, &size, in) < 0 ||
        strcmp(line, DT_CONSOLE_VERSION_LINE "\n") != 0)
        rc = dt_error_set(err, EX_PROTOCOL,
                          "expected \"%s\" on stdin: only srun's plugin "
                          "starts this command",
                          DT_CONSOLE_VERSION_LINE);
    while (rc == 0 && getline(&line, &size, in) >= 0)
        rc = parse_fact(s, line, now_ms, err);
    free(line);
    if (rc == 0 && (!s->outcome || !s->identity.token[0]))
        rc = dt_error_set(err, EX_PROTOCOL, "no line \"%s...\"",
                          s->outcome ? DT_CONSOLE_TOKEN : DT_CONSOLE_TASKS);
    return rc;
}

void dt_console_step_read_end(struct dt_console_step *s, FILE *in)
{
    char *line = NULL;
    size_t size = 0;
    clearerr(in);
    while (getline(&line, &size, in) >= 0)
        parse_fact(s, line, 0, NULL);
    free(line);
}

/* --- the console --- */

enum {
    START_TIMEOUT_S = 30, /* time for all ranks to start */
    REST_S = 1,           /* for what is on its way to srun */
    ANSWER_MS = 500,      /* for the one that waits until it is heard */
};

struct console {
    struct dt_console_step step;
    struct dt_ranklogs *logs; /* NULL: none */
    struct dt_rankset ranks;  /* ranks to show; size 0: all */
    double launched, start_timeout;
    double await;         /* for keepers, in place of what they say; 0: not */
    double given_up;      /* when that is over; INFINITY: nobody waits */
    int64_t left_ms;      /* that of the outcome, from which it counts */
    bool reported;        /* has listed the ranks that have not started */
    bool complete;        /* all ranks have started */
    struct dt_hang *hang; /* NULL: does not watch for hangs */
    bool ends;            /* a rank has ended since the comment was set */
    bool judged;          /* srun knows the verdict of keepers */
    double ending;        /* when srun has to be ended, which waits for lost
                           * nodes; INFINITY: not
                           */
    pid_t srun;
    bool ends_srun; /* which has been told to end */
    int interrupts; /* a signalfd of Ctrl-C, until the first; or -1 */
    struct dt_job_comment comment;
    struct dt_console_stream streams[2];
};

static int64_t now_ms(void)
{
    return (int64_t)(dt_clock_wall() * 1e3);
}

/* Whether fd is a terminal that srun --pty has switched to raw mode. */
static bool is_raw(int fd)
{
    struct termios terminal;
    return tcgetattr(fd, &terminal) == 0 && !(terminal.c_oflag & OPOST);
}

/* Prints a message of the console on stderr, on a line of its own, and without
 * secrets.
 */
static void print_message(struct console *c, const char *message)
{
    char *clean = dt_secret_remove(message);
    const char *text = clean ? clean : "";
    struct dt_console_stream *s = &c->streams[1];
    const char *newline = is_raw(s->out) ? "\r\n" : "\n";
    dt_console_stream_flush(s);
    if (s->mid_line)
        dt_console_stream_show(s, newline, strlen(newline));
    while (*text) {
        size_t len = strcspn(text, "\n");
        len = len < DT_CONSOLE_STREAM_BYTES ? len : DT_CONSOLE_STREAM_BYTES;
        dt_console_stream_show(s, text, len);
        text += len;
        if (*text == '\n') {
            dt_console_stream_show(s, newline, strlen(newline));
            text++;
        }
    }
    dt_console_stream_flush(s);
    free(clean);
}

/* Says that the rest of a stream is lost, on stderr if that still works. */
static void tell_unwritten(struct console *c, const struct dt_console_stream *s)
{
    char line[160];
    snprintf(line, sizeof(line),
             "disttrain: %s of srun cannot be written: %s; the rest of it is "
             "lost\n",
             s->is_stderr ? "stderr" : "stdout", strerror(s->error));
    print_message(c, line);
}

/* Stops writing rank logs when one cannot be written; the run continues. */
static void lose_logs(struct console *c, const struct dt_error *err)
{
    char line[DT_ERROR_TEXT_BYTES + 64];
    snprintf(line, sizeof(line),
             "disttrain: rank logs are no longer written: %s\n", err->text);
    print_message(c, line);
    dt_ranklogs_destroy(c->logs);
    c->logs = NULL;
}

/* A message that is written like a file. `out` is NULL without memory. */
struct message {
    FILE *out;
    char *text;
    size_t bytes;
};

static FILE *message_begin(struct message *message)
{
    *message = (struct message){0};
    return message->out = open_memstream(&message->text, &message->bytes);
}

/* Prints the message, if it is not empty. */
static void message_end(struct console *c, struct message *message)
{
    if (message->out)
        fclose(message->out);
    if (message->bytes > 0)
        print_message(c, message->text);
    free(message->text);
}

/* Prints the sentence of a message of Slurm or of the plugin. */
static void tell(struct console *c, const struct dt_console_event *event)
{
    struct message message;
    if (message_begin(&message))
        dt_console_event_tell(event, c->step.outcome, message.out);
    message_end(c, &message);
}

/* Writes a status below the facts, which the plugin reads when srun ends. */
static void tell_srun(struct console *c, const char *key, int status)
{
    char line[64];
    const int bytes = snprintf(line, sizeof(line), "%s%d\n", key, status);
    if (pwrite(STDIN_FILENO, line, (size_t)bytes, 0) != bytes) /* appends */
        print_message(c, "disttrain: cannot tell srun the exit status of the "
                         "step\n");
}

/* Keepers have ended the step. Leaves its exit status to the plugin. Only for
 * nodes that are lost srun would wait: for a long time, or forever if they are
 * not part of its job any more.
 */
static void take_verdict(struct console *c)
{
    const struct dt_outcome *outcome = c->step.outcome;
    if (c->judged)
        return;
    c->judged = true;
    tell_srun(c, DT_CONSOLE_VERDICT, outcome->verdict);
    if (outcome->nodes_lost > 0)
        c->ending = dt_clock_now() + REST_S;
}

/* Whether keepers have left the step, and nobody that can be heard has gone on.
 */
static bool is_left(const struct console *c)
{
    const struct dt_outcome *outcome = c->step.outcome;
    return outcome->left > 0 && outcome->left >= outcome->epoch &&
           !outcome->judged;
}

/* The verdict on a step that all have left. */
static void judge_left(struct console *c)
{
    struct dt_outcome *outcome = c->step.outcome;
    outcome->judged = true;
    outcome->verdict = EX_UNAVAILABLE;
    outcome->nodes_lost = 1; /* at least */
    take_verdict(c);
}

/* Where all have left no verdict comes, and srun would wait for the lost nodes.
 * Others may take long to find a leader; each that leaves was still looking for
 * one.
 */
static void watch_keepers(struct console *c)
{
    const struct dt_outcome *outcome = c->step.outcome;
    const bool open = is_left(c);
    const double await = c->await > 0 ? c->await : outcome->await_s;
    char text[160];
    if (!open)
        c->given_up = INFINITY;
    else if (isinf(c->given_up) || c->left_ms != outcome->left_ms)
        c->given_up = dt_clock_now() + await;
    c->left_ms = outcome->left_ms;
    if (dt_clock_now() < c->given_up)
        return;
    snprintf(text, sizeof(text),
             "disttrain: all keepers that could be heard have left the step, "
             "and for %.0f s no others have gone on: it ends\n",
             await);
    print_message(c, text);
    judge_left(c);
}

/* The keeper that waits to be heard ends first: srun may need no more to end by
 * itself.
 */
static void end_srun(struct console *c)
{
    struct dt_outcome *outcome = c->step.outcome;
    if (dt_clock_now() < c->ending)
        return;
    if (outcome->port > 0) {
        dt_answer_get(outcome->waits, outcome->port, ANSWER_MS);
        outcome->port = 0;
        c->ending = dt_clock_now() + REST_S;
        return;
    }
    c->ending = INFINITY;
    c->ends_srun = true;
    if (getppid() == c->srun)
        kill(c->srun, SIGTERM);
}

/* Shows the user a message that needs no waiting. Returns whether it is a
 * record.
 */
static bool show_event(struct console *c, const struct dt_console_event *event)
{
    if (event->kind == DT_EVENT_PROGRESS)
        dt_bar_draw(&event->bar, c->streams[1].out);
    else if (event->kind == DT_EVENT_ENDED)
        dt_footer_end();
    else if (event->kind == DT_EVENT_VERDICT)
        take_verdict(c);
    else if (event->message && event->message->sentence)
        tell(c, event);
    return event->kind == DT_EVENT_BROKEN || dt_console_event_is_record(event);
}

static bool is_shown(const struct console *c, uint32_t rank)
{
    return rank == DT_NO_RANK || c->ranks.size == 0 || c->ranks.has[rank];
}

static bool has_labels(const struct console *c)
{
    return c->step.labels == DT_LABELS_STRIP ||
           c->step.labels == DT_LABELS_KEEP;
}

static enum dt_console_origin find_origin(const struct console *c, size_t label)
{
    if (c->step.labels == DT_LABELS_APART)
        return DT_ORIGIN_SRUN;
    if (!has_labels(c))
        return DT_ORIGIN_UNKNOWN;
    return label > 0 ? DT_ORIGIN_TASK : DT_ORIGIN_SRUN;
}

static void handle_line(struct console *c, struct dt_console_stream *s,
                        const char *line, size_t len, int64_t now)
{
    struct dt_error err;
    struct dt_console_event event = {.kind = DT_EVENT_NONE};
    uint32_t rank = DT_NO_RANK;
    size_t label =
        has_labels(c) ? dt_label_parse(line, len, c->step.tasks, &rank) : 0;
    const char *text = line + label;
    size_t bytes = len - label;
    if (label > 0 && dt_label_adds_newline(text, bytes))
        bytes--;
    if (s->is_stderr) {
        dt_console_event_parse(text, bytes, &c->step.identity,
                               find_origin(c, label), &event);
        dt_message_note(c->step.outcome, &event, rank, now);
        c->ends = c->ends || event.kind == DT_EVENT_EXIT ||
                  event.kind == DT_EVENT_TASKS ||
                  event.kind == DT_EVENT_UNLAUNCHED;
    }
    bool record = show_event(c, &event);
    if (c->hang && (event.kind == DT_EVENT_START ||
                    (bytes > 0 && !record && !event.from_slurm)))
        dt_hang_break(c->hang);
    if (record)
        len = label + (bytes = event.begin);
    if (bytes == 0 || (c->ends_srun && event.from_slurm && !record))
        return;
    if (c->step.labels != DT_LABELS_APART && (record || !event.from_slurm)) {
        dt_outcome_text(c->step.outcome, rank, s->is_stderr, text, bytes, now);
        if (c->logs && rank != DT_NO_RANK &&
            dt_ranklogs_write(c->logs, rank, text, bytes, &err) != 0)
            lose_logs(c, &err);
        if (!is_shown(c, rank))
            return;
    }
    if (c->step.labels == DT_LABELS_STRIP)
        dt_console_stream_show(s, text, bytes);
    else
        dt_console_stream_show(s, line, len);
}

/* Returns the next line of a stream, joined from its pieces; NULL: none. */
static const char *next_line(struct console *c, struct dt_console_stream *s,
                             size_t *len)
{
    const char *line = dt_console_stream_next(s, len);
    size_t piece = 0;
    if (line && s->is_stderr && c->step.labels == DT_LABELS_NONE)
        piece = dt_console_event_find_inner(line, *len, &c->step.identity);
    if (piece == 0)
        return line;
    line = dt_console_stream_put_back(s, *len, piece);
    *len -= piece;
    return line;
}

/* Handles all lines read so far. */
static void handle_input(struct console *c, struct dt_console_stream *s)
{
    const char *line;
    size_t len;
    int64_t now = now_ms();
    while ((line = next_line(c, s, &len)))
        handle_line(c, s, line, len, now);
    bool dead = s->dead;
    dt_console_stream_flush(s);
    if (s->error && !dead)
        tell_unwritten(c, s);
    if (s->dead && !s->is_stderr && !c->logs)
        dt_console_stream_close(s); /* srun learns that nobody reads it */
}

static void flush_logs(struct console *c)
{
    struct dt_error err;
    if (c->logs && dt_ranklogs_flush(c->logs, &err) != 0)
        lose_logs(c, &err);
}

/* Says once which ranks have not started, and once that all have. */
static void watch_start(struct console *c)
{
    struct message message;
    double waited = dt_clock_now() - c->launched;
    if (c->complete || (!c->reported && waited < c->start_timeout))
        return;
    uint32_t missing = dt_outcome_missing(c->step.outcome);
    c->complete = missing == 0;
    if (c->reported != c->complete)
        return;
    FILE *out = message_begin(&message);
    if (!out)
        return;
    if (missing > 0) {
        fprintf(out,
                "disttrain: %.0f s after the launch %" PRIu32 " of %" PRIu32
                " ranks have not started: ",
                waited, missing, c->step.tasks);
        dt_outcome_print_missing(c->step.outcome, out);
    } else {
        fprintf(out,
                "disttrain: all %" PRIu32 " ranks have started, %.0f s "
                "after the launch",
                c->step.tasks, waited);
    }
    fputc('\n', out);
    c->reported = true;
    message_end(c, &message);
}

static void watch_hang(struct console *c)
{
    char *text =
        c->hang ? dt_hang_watch(c->hang, c->step.outcome, now_ms()) : NULL;
    if (text)
        print_message(c, text);
    free(text);
}

/* How long poll may wait for input, in milliseconds. */
static int wait_ms(const struct console *c)
{
    double left = c->hang ? dt_hang_left(c->hang) : INFINITY;
    left = fmin(left, dt_console_stream_left(&c->streams[1]));
    left = fmin(left, c->ending - dt_clock_now());
    left = fmin(left, c->given_up - dt_clock_now());
    if (!c->complete && !c->reported)
        left = fmin(left, c->launched + c->start_timeout - dt_clock_now());
    return isinf(left) ? -1 : (int)(fmax(left, 0) * 1000) + 1;
}

/* Sets the comment of the job to the first failure, as far as it is known. */
static void set_comment(struct console *c)
{
    struct dt_outcome_ending ending;
    char text[sizeof(ending.text) + 64] = "";
    if (getenv(DT_ENV_JOB_COMMENT))
        return;
    if (dt_outcome_ending(c->step.outcome, &ending) &&
        strcmp(ending.status, "failed") == 0)
        snprintf(text, sizeof(text), "disttrain: first failure: %s",
                 ending.text);
    dt_job_comment_set(&c->comment, c->step.identity.id, text);
}

/* A failure of before is withdrawn as the step begins, since those of other
 * steps of the job are not.
 */
static void withdraw_comment(struct console *c)
{
    if (!dt_job_comment_is_old(c->step.identity.id))
        return;
    strcpy(c->comment.text, DT_COMMENT_OURS);
    set_comment(c);
}

/* Sets the comment as soon as a rank has ended: an allocation that srun has
 * made itself is gone when its output ends. Keepers may go on without it, and
 * say when not.
 */
static void watch_ends(struct console *c)
{
    const struct dt_outcome *outcome = c->step.outcome;
    if (!c->ends || (outcome->epoch > 0 && !outcome->judged))
        return;
    set_comment(c);
    c->ends = false;
}

/* Sets the comment again at the end, when more is known, such as that somebody
 * has stopped the step.
 */
static void finish_comment(struct console *c)
{
    dt_job_comment_wait(&c->comment);
    set_comment(c);
    dt_job_comment_wait(&c->comment);
}

/* A run saves when its ranks get a signal, but a second Ctrl-C makes srun kill
 * them, as it says after the first. The terminal sends the signal to us as
 * well.
 */
static int open_interrupts(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    return getenv(DT_ENV_RUN) && pthread_sigmask(SIG_BLOCK, &set, NULL) == 0
               ? signalfd(-1, &set, SFD_CLOEXEC)
               : -1;
}

static void tell_interrupt(struct console *c)
{
    char text[256];
    close(c->interrupts);
    c->interrupts = -1;
    snprintf(text, sizeof(text),
             "disttrain: a second Ctrl-C ends the ranks without a checkpoint; "
             "`scancel --signal=USR1 %s` lets them save one and end\n",
             c->step.identity.id);
    print_message(c, text);
}

static void run_loop(struct console *c)
{
    struct dt_console_stream *s = c->streams;
    while (s[0].in >= 0 || s[1].in >= 0) {
        int doctor = c->hang ? dt_hang_fd(c->hang) : -1;
        struct pollfd p[4] = {{.fd = s[0].in, .events = POLLIN},
                              {.fd = s[1].in, .events = POLLIN},
                              {.fd = doctor, .events = POLLIN},
                              {.fd = c->interrupts, .events = POLLIN}};
        int ready = poll(p, 4, wait_ms(c));
        for (int i = 0; i < 2; i++) {
            if (ready > 0 && p[i].revents)
                dt_console_stream_read(&s[i]);
            handle_input(c, &s[i]);
        }
        if (ready > 0 && p[3].revents)
            tell_interrupt(c);
        watch_ends(c);
        watch_keepers(c);
        end_srun(c);
        flush_logs(c);
        watch_start(c);
        watch_hang(c);
    }
}

static void report_outcome(struct console *c)
{
    struct message message;
    if (message_begin(&message))
        dt_outcome_report(c->step.outcome, message.out);
    message_end(c, &message);
}

/* Records the end of a run in its files. */
static void end_run(struct console *c)
{
    char *text = dt_run_end_tell(c->step.outcome, c->step.identity.id);
    if (text)
        print_message(c, text);
    free(text);
}

static int find_status(const struct console *c)
{
    return c->streams[0].error || c->streams[1].error ? EX_IOERR : EX_OK;
}

/* Tells srun how the run has ended, which decides whether its job goes back. */
static void tell_run(struct console *c)
{
    const int status = dt_outcome_status(c->step.outcome);
    if (getenv(DT_ENV_REQUEUE) && status != EX_OK)
        tell_srun(c, DT_CONSOLE_RUN, status);
}

/* Applies the settings of the config. If one of them is impossible, the user
 * still gets the output.
 */
static void apply_settings(struct console *c)
{
    struct dt_error err = {.text = ""};
    const char *ranks = getenv(DT_ENV_CONSOLE_RANKS);
    const char *logs = getenv(DT_ENV_RANK_LOGS);
    if (c->step.labels == DT_LABELS_APART) {
        c->complete = true; /* the console does not see ranks start */
        if (ranks || logs || getenv(DT_ENV_HANG))
            print_message(
                c, "disttrain: the output of the ranks does not pass through "
                   "srun (--output, --error, --pty): launch.hang_timeout, "
                   "logging.rank_logs and logging.console_ranks have no "
                   "effect\n");
        return;
    }
    c->hang = dt_hang_create(getenv(DT_ENV_HANG), c->step.identity.id);
    if (c->step.labels == DT_LABELS_NONE && (ranks || logs)) {
        print_message(
            c, "disttrain: with --unbuffered srun does not say which rank "
               "printed a line: no rank logs are written, and all ranks are "
               "shown\n");
        return;
    }
    if (ranks && (dt_rankset_init(&c->ranks, c->step.tasks, &err) != 0 ||
                  dt_rankset_parse(&c->ranks, ranks, &err) != 0)) {
        dt_rankset_fini(&c->ranks);
        print_message(c, "disttrain: " DT_ENV_CONSOLE_RANKS ": ");
        print_message(c, err.text);
    }
    if (logs && !(c->logs = dt_ranklogs_create(logs, c->step.tasks, &err)))
        lose_logs(c, &err);
}

static struct console *create_console(void)
{
    struct console *c = calloc(1, sizeof(*c));
    const char *timeout = getenv("DISTTRAIN_CONSOLE_TIMEOUT"); /* for tests */
    if (!c)
        return NULL;
    c->launched = dt_clock_now();
    c->ending = c->given_up = INFINITY;
    c->srun = getppid();
    c->start_timeout = timeout ? atof(timeout) : START_TIMEOUT_S;
    c->await = timeout ? atof(timeout) : 0;
    dt_console_stream_init(&c->streams[0], DT_CONSOLE_OUT_FD, STDOUT_FILENO,
                           false);
    dt_console_stream_init(&c->streams[1], DT_CONSOLE_ERR_FD, STDERR_FILENO,
                           true);
    return c;
}

int dt_console_run(FILE *settings)
{
    struct dt_error err;
    struct console *c = create_console();
    if (!c)
        return EX_OSERR;
    int status = 0;
    if (dt_console_step_read(&c->step, settings, now_ms(), &err) == 0) {
        apply_settings(c);
        withdraw_comment(c);
        c->interrupts = open_interrupts();
        run_loop(c);
        if (c->interrupts >= 0)
            close(c->interrupts);
        if (is_left(c)) /* Slurm has found the lost nodes before */
            judge_left(c);
        dt_console_step_read_end(&c->step, settings);
        dt_footer_end();
        report_outcome(c);
        finish_comment(c);
        end_run(c);
        tell_run(c);
        status = find_status(c);
    } else {
        fprintf(stderr, "disttrain console: %s\n", err.text);
        status = err.status;
    }
    dt_hang_destroy(c->hang);
    dt_ranklogs_destroy(c->logs);
    dt_rankset_fini(&c->ranks);
    dt_outcome_destroy(c->step.outcome);
    free(c);
    return status;
}
