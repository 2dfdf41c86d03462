/* SPDX-License-Identifier: Apache-2.0 */
/* console_impl.h - lines, the outcome of a step, and messages about it */
#ifndef DT_CONSOLE_CONSOLE_IMPL_H
#define DT_CONSOLE_CONSOLE_IMPL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"
#include "contract/contract.h"
#include "live/bar.h"

/* --- the last output of a rank --- */

enum {
    DT_LAST_LINES_LINES = 20, /* printed of a text without a traceback */
    DT_TRACEBACK_LINES = 60,  /* printed of a text with a traceback */
};

/* Initialize with {.keep = N}: keeps at least the last N bytes and at most 2N.
 * Free text at the end.
 */
struct dt_last_lines {
    size_t keep;
    char *text;
    size_t used;
    size_t size;
    bool cut; /* the first line may have lost its beginning */
};

/* Appends bytes, which may include NUL. They are lost if memory is short. */
void dt_last_lines_append(struct dt_last_lines *tail, const char *bytes,
                          size_t count);

/* Writes, with `indent` before each line, the last Python traceback with its
 * chain and the lines after it, or else the last lines. Only the last state of
 * a progress bar is written; a C stack from Python's faulthandler becomes a
 * line that says it is left out. Returns false, and writes nothing, if all
 * lines are empty.
 */
bool dt_last_lines_print(const struct dt_last_lines *tail, const char *indent,
                         FILE *out);

/* Copies the last line that is not empty, cut to size, without its newline; ""
 * if there is none.
 */
void dt_last_lines_last(const struct dt_last_lines *tail, char *text,
                        size_t size);

/* Whether the last line that is not empty begins with `prefix`. */
bool dt_last_lines_ends_with(const struct dt_last_lines *tail,
                             const char *prefix);

/* --- facts in a line of stderr --- */

struct dt_message;

enum dt_console_event_kind {
    DT_EVENT_NONE,
    DT_EVENT_START,      /* record: rank, host, ms */
    DT_EVENT_EXIT,       /* record: rank, host, ms, status */
    DT_EVENT_NOTICE,     /* record: only the sentence of its message */
    DT_EVENT_PROGRESS,   /* record: bar */
    DT_EVENT_ENDED,      /* record: the bar ends */
    DT_EVENT_VERDICT,    /* record: keepers have ended the step */
    DT_EVENT_EPOCH,      /* record: keepers go on, or leave */
    DT_EVENT_BROKEN,     /* record: a part is missing, without labels */
    DT_EVENT_TASKS,      /* srun: ranks have ended with status; host, oom */
    DT_EVENT_UNLAUNCHED, /* srun: these ranks, or those of host, cannot be
                          * launched: reason
                          */
    DT_EVENT_STOP,       /* the step is ended; status: SIGKILL, if by SIGKILL */
    DT_EVENT_ASKED,      /* the same, because of the user or a limit */
    DT_EVENT_OOM,        /* the kernel has killed a process on this host */
    DT_EVENT_NODE_LOST,  /* the node is lost: host or, if that is empty, node */
};

enum { DT_EVENT_NUMBERS = 4 };

struct dt_console_event {
    enum dt_console_event_kind kind;
    const struct dt_message *message; /* its row of parse.c; NULL: none */
    bool from_slurm; /* from Slurm or the plugin, not from a program */
    bool hearsay;    /* neither the line nor its label names the step: it may be
                      * about another step
                      */
    size_t begin;    /* offset of a record in the line */
    uint32_t label;  /* of the line: a rank, or DT_NO_RANK */
    int64_t came_ms; /* arrival, since 1970 */
    uint32_t rank;
    uint32_t node;  /* position in the step's list of nodes */
    char host[256]; /* or several: "n[1-2]" */
    int64_t ms;     /* since 1970, on that host's clock */
    int status;     /* a wait status */
    bool oom;
    uint64_t number[DT_EVENT_NUMBERS]; /* in the order of the pattern */
    struct dt_bar bar;
    char list[640]; /* of ranks: "4-5,7"; of hosts: "n1,n2" */
    char reason[128];
};

/* --- starts and ends of ranks, and the first failure ---
 *
 * Each host has its own clock. Synchronized clocks are better than any
 * estimate. For a host whose clock is not, we use the shortest delay that a
 * record from it has had as the difference from our clock.
 */

/* The rank of lines from an unknown rank. */
#define DT_NO_RANK UINT32_MAX

struct dt_outcome;

/* Creates the outcome of a step of `ranks` tasks, launched at ms since 1970;
 * free it with dt_outcome_destroy. NULL: EX_OSERR.
 */
struct dt_outcome *dt_outcome_create(uint32_t ranks, int64_t launch_ms,
                                     struct dt_error *err);
void dt_outcome_destroy(struct dt_outcome *outcome); /* NULL is fine */

/* Adds the next node of the step, `host`, with its ranks ("0,4-7"). -1:
 * EX_DATAERR, EX_OSERR.
 */
int dt_outcome_add_node(struct dt_outcome *outcome, const char *host,
                        const char *ranks, struct dt_error *err);

/* Adds text that a rank (or DT_NO_RANK) has written to stderr or stdout. */
void dt_outcome_text(struct dt_outcome *outcome, uint32_t rank, bool is_stderr,
                     const char *text, size_t len, int64_t now_ms);

/* Notes the exit status of srun. Together with the records, it decides which
 * messages of srun are believed if anybody may have written them.
 */
void dt_outcome_srun_ended(struct dt_outcome *outcome, int status);

/* Notes that the step is ended because of a hang. If no rank failed before, the
 * report has `text`, one line about it.
 */
void dt_outcome_hang(struct dt_outcome *outcome, const char *text,
                     int64_t now_ms);

/* Returns the number of ranks that have neither started nor written anything.
 */
uint32_t dt_outcome_missing(const struct dt_outcome *outcome);

/* Writes the missing ranks as "rank 7 on n4; ranks 0-1 on n1", for a few hosts
 * at most.
 */
void dt_outcome_print_missing(const struct dt_outcome *outcome, FILE *out);

/* Writes the first failure, its last output, and the ends of the other ranks;
 * nothing if no rank has failed by itself.
 */
void dt_outcome_report(const struct dt_outcome *outcome, FILE *out);

/* The end of a run, for its files. */
struct dt_outcome_ending {
    const char *status; /* for run.json: "failed" or "stopped" */
    char text[512];     /* the cause, a sentence without its period */
    uint32_t rank;      /* the first to fail; DT_NO_RANK: unknown */
    char host[256];     /* of that rank, or the lost node; "": unknown */
};

/* Describes the end of a run that rank 0 could not record. False: as far as is
 * known, all ranks have exited with status 0.
 */
bool dt_outcome_ending(const struct dt_outcome *outcome,
                       struct dt_outcome_ending *ending);

/* The exit status of the run, as a shell has it, for contract/requeue_rule.h:
 * that of the first rank to fail by itself, or of a hang that has ended the
 * step; EX_TEMPFAIL if none has, and a rank asks for the queue; else 0. The
 * ends of other ranks, when Slurm then stops the step, do not count. Where
 * keepers have brought the step to a good end, the status is theirs.
 */
int dt_outcome_status(const struct dt_outcome *outcome);

/* --- the outcome: outcome.c collects it, failure.c reports it --- */

enum {
    NO_HOST = -1,
    OLD_MS = 10000,   /* lines older than this say nothing about the end of a
                       * rank
                       */
    ASKED_MS = 500,   /* a rank may end this long before srun says that it stops
                       * the step
                       */
    KILLED_MS = 5000, /* and be killed this long before slurmstepd's message
                       * about it arrives
                       */
};

struct rank {
    int host; /* index, or NO_HOST */
    bool seen;
    bool started, ended;
    bool unlaunched;          /* according to srun */
    bool heard;               /* the end is known by hearsay only, if not
                               * `ended`
                               */
    bool no_record;           /* end_ms is the time at which srun reported the
                               * end
                               */
    int64_t start_ms, end_ms; /* on the host's clock */
    int status;
    struct dt_last_lines out, err;
    int64_t out_ms, err_ms; /* arrival of the last lines */
};

struct host {
    char *name;
    uint32_t first; /* its first rank, whose stderr slurmstepd uses; DT_NO_RANK:
                     * unknown
                     */
    bool has_clock;
    int64_t ahead_ms; /* upper bound of the lead of our clock */
    bool oom;
    bool lost;
    bool ended; /* a record has the end of one of its ranks */
};

struct dt_outcome {
    uint32_t count;
    struct rank *ranks; /* and one for DT_NO_RANK */
    int host_count, host_size;
    struct host *hosts; /* first the nodes of the step, in their order */
    int64_t launch_ms;
    int64_t stop_ms;      /* 0: nobody has stopped the step */
    bool killed;          /* it was stopped by SIGKILL to every rank */
    int64_t asked_ms;     /* last time srun said that it stops the step; or 0 */
    bool asked;           /* somebody stopped it, but not because a rank had
                           * ended
                           */
    int64_t first_end_ms; /* first report of the end of a rank; or 0 */
    bool fails;      /* for sure, by a record or the exit status of srun: then
                      * hearsay may be true
                      */
    bool succeeds;   /* srun has ended with 0: the step has survived whatever
                      * Slurm said of its nodes
                      */
    char lost[256];  /* node or nodes, as in Slurm; empty: none */
    bool lost_heard; /* known by hearsay only */
    int64_t lost_ms;
    char reason[128]; /* why the first unlaunched rank was not launched */
    char *hang;       /* why the step was ended; NULL: not because of a hang */
    uint64_t epoch;   /* the latest of its keepers, and the latest that some */
    uint64_t left;    /* have left; or 0 */
    int64_t left_ms;  /* when one last has, */
    double await_s;   /* and how long others may take to go on */
    bool judged;      /* its keepers have ended the step: */
    int verdict;      /* its exit status, */
    int nodes_lost;   /* and how many nodes it has lost */
    char waits[64]; /* the address of the keeper that waits for the console, */
    unsigned port;  /* if this is not 0, and its port */
};

typedef bool(dt_outcome_holds_f)(const struct dt_outcome *outcome,
                                 uint32_t rank);

/* Writes the ranks for which `holds` is true as "ranks 4-5 on n3; rank 7 on
 * n4".
 */
void dt_outcome_print_by_host(const struct dt_outcome *outcome,
                              dt_outcome_holds_f *holds, FILE *out);

/* Writes hosts, "n3,n4", as "n3 (ranks 4-5), n4 (ranks 6-7)". */
void dt_outcome_print_hosts(const struct dt_outcome *outcome, const char *list,
                            FILE *out);

/* Returns the index of the host with this name, or NO_HOST. */
int dt_outcome_find_host(const struct dt_outcome *outcome, const char *name);

/* Updates the clock difference of the host of the event's rank. The layout
 * names the host; without a layout, records name it.
 */
void dt_outcome_update_clock(struct dt_outcome *outcome,
                             const struct dt_console_event *event);

/* Notes that the step is stopped. */
void dt_outcome_stop(struct dt_outcome *outcome,
                     const struct dt_console_event *event);

/* --- the table of the messages that the console knows ---
 *
 * A row of parse.c has the origin of a message, its pattern, the function that
 * notes it in the outcome, and the sentence that the user sees at once. A new
 * record, or a new wording of Slurm, is a new row.
 *
 * A pattern is the whole text of a message, with fields in braces that go to
 * struct dt_console_event. {} is any text, up to the text that follows in the
 * pattern.
 *
 *     {rank}    -> rank            {node}    a node's position -> node
 *     {host}    -> host            {hosts}   "n1,n2" -> list
 *     {ranks}   "4-5,7" -> list    {time}    "SECONDS.mmm" -> ms
 *     {wait}    a number -> status
 *     {status}  srun's words for a wait status, to the end -> status, oom
 *     {signal}  a signal's name -> status
 *     {bar}, {reason}  the rest -> bar, reason
 *
 * Any other name stands for a number, at most DT_EVENT_NUMBERS in a pattern. A
 * sentence may have {rank}, {host}, {reason}, {hosts}, each with its ranks, and
 * the numbers of the pattern.
 */

/* The writer of a message, and the stderr on which it can appear. */
enum dt_message_origin_b {
    DT_FROM_TASK = 1,        /* record: on the stderr of its rank */
    DT_FROM_NODE = 2,        /* record: on that of the first rank of its node */
    DT_FROM_ANY = 4,         /* record: on any */
    DT_FROM_RUNTIME = 8,     /* record of progress: on any */
    DT_FROM_SRUN = 16,       /* on srun's own; without "srun: " */
    DT_FROM_SLURMSTEPD = 32, /* on that of the first rank of a node */
    DT_FROM_KEEPER = 64,     /* record of keepers: on any */

    DT_FROM_TOKEN = DT_FROM_TASK | DT_FROM_NODE | DT_FROM_ANY,
    DT_FROM_RECORD = DT_FROM_TOKEN | DT_FROM_RUNTIME | DT_FROM_KEEPER,
};

struct dt_message {
    enum dt_message_origin_b origin;
    const char *pattern;
    enum dt_console_event_kind kind;
    void (*note)(struct dt_outcome *outcome,
                 const struct dt_console_event *event); /* NULL: nothing */
    const char *sentence; /* shown on arrival; NULL: nothing */
};

/* The table; the last row has no pattern. */
extern const struct dt_message dt_messages[];

/* Notes an event in the outcome. It came at now_ms with the label of a rank, or
 * DT_NO_RANK; an event that cannot have that label is ignored.
 */
void dt_message_note(struct dt_outcome *outcome, struct dt_console_event *event,
                     uint32_t label, int64_t now_ms);

/* --- lines of stderr ---
 *
 * Records come from the plugin (contract/contract.h) and are believed only with
 * the step's token. The other lines are messages of Slurm for people, with or
 * without a time before them.
 */

/* The possible writers of a line of stderr. */
enum dt_console_origin {
    DT_ORIGIN_UNKNOWN, /* srun does not label its output */
    DT_ORIGIN_SRUN,    /* srun labels its output, and the line has no label */
    DT_ORIGIN_TASK,    /* a task, or slurmstepd: the line has a label */
};

/* Distinguishes lines of this step from those of steps that its tasks start,
 * and from lines that tasks make up.
 */
struct dt_step_identity {
    char token[DT_TOKEN_BYTES];    /* of the records; "": none is believed */
    char progress[DT_TOKEN_BYTES]; /* of records of progress */
    char keepers[DT_TOKEN_BYTES];  /* of the record of keepers */
    char id[32]; /* "JOB.STEP"; "": accept lines of any step */
};

/* Parses one line of stderr, without its label, with or without its line end.
 */
void dt_console_event_parse(const char *line, size_t len,
                            const struct dt_step_identity *step,
                            enum dt_console_origin origin,
                            struct dt_console_event *event);

/* Whether this text without a line end may be the beginning of a line that
 * dt_console_event_parse understands.
 */
bool dt_console_event_is_piece(const char *line, size_t len);

/* Without labels a line of Slurm may come between the two pieces of another
 * node's line. Returns the offset at which it begins, after the first piece; 0:
 * there is none.
 */
size_t dt_console_event_find_inner(const char *line, size_t len,
                                   const struct dt_step_identity *step);

/* Whether the event is a whole record. */
bool dt_console_event_is_record(const struct dt_console_event *event);

/* Writes the sentence of the event's message as a line of disttrain; nothing
 * if it has none. The outcome knows the ranks of hosts.
 */
void dt_console_event_tell(const struct dt_console_event *event,
                           const struct dt_outcome *outcome, FILE *out);

/* --- lines of srun --label: "12: text" ---
 *
 * srun gets the output of a task in messages of at most DT_MESSAGE_BYTES, and
 * adds a newline to every message that does not end with one. A message has no
 * newline if a line is longer than a message, or with --unbuffered. The first
 * case is recognized by the length of the message, and the line is joined
 * again.
 */

enum {
    DT_MESSAGE_BYTES = 1024, /* Slurm 22.05 to 26.05 */
};

/* Returns the length of the label of a line in a step of `tasks` tasks and sets
 * *rank; 0 if the line has no label.
 */
size_t dt_label_parse(const char *line, size_t len, uint32_t tasks,
                      uint32_t *rank);

/* Whether srun has added the newline at the end of a line's text (without the
 * label).
 */
bool dt_label_adds_newline(const char *text, size_t len);

/* --- one of the two streams of srun, on its way through the console --- */

enum {
    DT_CONSOLE_STREAM_BYTES = 128 * 1024, /* twice the size of a pipe */
};

struct dt_console_stream {
    int in; /* -1: at its end */
    int out;
    bool is_stderr;
    bool dead;     /* nobody reads the output, or writing fails */
    int error;     /* of writing; 0: nobody reads, as with `| head` */
    bool terminal; /* the bar may be below it */
    bool mid_line; /* the last byte written was not a newline */
    bool full;     /* the last read has filled the buffer */
    double held;   /* when the last line began to be held back; or 0 */
    size_t begin, used, shown;
    char buf[DT_CONSOLE_STREAM_BYTES]; /* buf[begin..used): not yet handled */
    char show[2 * DT_CONSOLE_STREAM_BYTES]; /* not yet written */
};

/* Begins to copy `in` to `out`. There is nothing to free. */
void dt_console_stream_init(struct dt_console_stream *s, int in, int out,
                            bool is_stderr);

/* Reads once; at the end of the input, closes it. */
void dt_console_stream_read(struct dt_console_stream *s);

/* Returns the next line to handle, whose length becomes *len; NULL: none. A
 * last line without a newline is returned at once, too, with two exceptions: if
 * the read has filled the buffer, or if on stderr the rest of the line decides
 * whether to show it, we wait a moment for the rest. The line is valid until
 * the next call.
 */
const char *dt_console_stream_next(struct dt_console_stream *s, size_t *len);

/* Puts the first `piece` bytes of the line that dt_console_stream_next has just
 * returned, of `len` bytes, back in front of the next line. Returns the
 * shortened line, which is valid until the next call.
 */
const char *dt_console_stream_put_back(struct dt_console_stream *s, size_t len,
                                       size_t piece);

/* Seconds for which a line may still be held back; INFINITY: no line is. */
double dt_console_stream_left(const struct dt_console_stream *s);

/* Closes the input; repeating this does nothing. */
void dt_console_stream_close(struct dt_console_stream *s);

/* Adds text for dt_console_stream_flush to write. */
void dt_console_stream_show(struct dt_console_stream *s, const char *text,
                            size_t len);

/* Writes the added text, above the bar. Waits for the reader as long as
 * necessary, as srun would.
 */
void dt_console_stream_flush(struct dt_console_stream *s);

/* --- one log file per rank --- */

struct dt_ranklogs;

/* Creates the directory. The files (rank-0012.log and so on) are opened for
 * appending when a rank first writes. NULL and err: EX_CANTCREAT, EX_OSERR.
 */
struct dt_ranklogs *dt_ranklogs_create(const char *dir, uint32_t ranks,
                                       struct dt_error *err);

/* Writes the buffers and frees the logs. NULL is fine. */
void dt_ranklogs_destroy(struct dt_ranklogs *logs);

/* Appends text to the log of a rank. -1 and err: EX_CANTCREAT. */
int dt_ranklogs_write(struct dt_ranklogs *logs, uint32_t rank, const char *text,
                      size_t len, struct dt_error *err);

/* Writes the buffers to the files. -1 and err: EX_IOERR. */
int dt_ranklogs_flush(struct dt_ranklogs *logs, struct dt_error *err);

/* --- ranks that hang ---
 *
 * The timer decides whether ranks have printed nothing for too long. Its times
 * are seconds on any monotonic clock.
 */

struct dt_hang_timer {
    double limit_s; /* 0: no limit; false alarms increase it */
    double since;
    bool told;
};

/* Call it when a rank has printed or started. If ranks continue after a
 * reported hang, it was a compilation or a long step: from now on only twice
 * that time is too long.
 */
void dt_hang_timer_reset(struct dt_hang_timer *timer, double now);

/* Seconds until the limit; INFINITY if a hang has been reported or there is no
 * limit.
 */
double dt_hang_timer_left(const struct dt_hang_timer *timer, double now);

/* Whether the limit has passed; true only once until the next reset. */
bool dt_hang_timer_expired(struct dt_hang_timer *timer, double now);

struct dt_hang;

/* `setting` is the value of DT_ENV_HANG, or NULL for DT_HANG_DEFAULT; `step` is
 * "ID.STEP". Returns NULL if memory is short; destroy it with dt_hang_destroy.
 */
struct dt_hang *dt_hang_create(const char *setting, const char *step);
void dt_hang_destroy(struct dt_hang *hang); /* NULL is fine */

/* Call it when a rank has printed something or started. */
void dt_hang_break(struct dt_hang *hang);

/* The descriptor to poll for input, or -1, and the longest time to wait for it.
 */
int dt_hang_fd(const struct dt_hang *hang);
double dt_hang_left(const struct dt_hang *hang);

/* Call it when either is due. Returns a message for the user, which the caller
 * frees; NULL: nothing yet. If the hang ends the step, also notes it in the
 * outcome, at now_ms since 1970, and signals srun.
 */
char *dt_hang_watch(struct dt_hang *hang, struct dt_outcome *outcome,
                    int64_t now_ms);

/* --- the end, in the comment of the job and in the files of the run --- */

enum {
    DT_JOB_COMMENT_BYTES = 240,
};

/* Initialize with {0}. */
struct dt_job_comment {
    char text[DT_JOB_COMMENT_BYTES]; /* the last one that was set */
    pid_t child;                     /* process that sets it; 0: none */
};

/* Whether the comment of the job of `step` ("JOB.STEP"), when that begins, may
 * tell how an earlier one has failed: it is the first step after a requeue, or
 * `disttrain steps` has started it again.
 */
bool dt_job_comment_is_old(const char *step);

/* Starts to set the comment of the job of `step` ("JOB.STEP") to `text`,
 * truncated and without secrets, unless the job has a comment that is not
 * disttrain's; "" removes ours. Nothing happens if the text was set last, or
 * another one is still being set. It takes at most a second and fails silently:
 * the comment is only a convenience, and Slurm may be busy when a step fails.
 */
void dt_job_comment_set(struct dt_job_comment *comment, const char *step,
                        const char *text);

/* Waits until the comment is set. */
void dt_job_comment_wait(struct dt_job_comment *comment);

/* At the end of `step` ("JOB.STEP"), if it was a run (DT_ENV_RUN): starts
 * `disttrain console --end` and waits for some seconds. Returns a message for
 * the user, which the caller frees; NULL: nothing to say.
 */
char *dt_run_end_tell(const struct dt_outcome *outcome, const char *step);

/* --- hosts that are connected to a port, from tables of the kernel --- */

/* Milliseconds until the tables of the kernel are read again, which took
 * `seconds` of a CPU: rank 0 shares it.
 */
int dt_console_watch_pause(double seconds);

/* Initialize to zero; free addresses at the end. */
struct dt_connected {
    unsigned listens; /* port on which a program listens; 0: none */
    size_t count;     /* different addresses seen */
    size_t size;
    struct in6_addr *addresses; /* IPv4 as ::ffff:a.b.c.d */
};

/* Adds the remote addresses of the connections to ports[count] from a table
 * like /proc/net/tcp (or tcp6), including recently closed connections but not
 * those within the host itself. A port of 0 is none. Skips lines that it cannot
 * parse.
 */
void dt_connected_read(struct dt_connected *connected, FILE *table,
                       const unsigned *ports, size_t count);

/* Whether a connection from that address was seen. */
bool dt_connected_has(const struct dt_connected *connected,
                      const struct in6_addr *address);

/* --- the step, as the plugin describes it --- */

/* Whether srun begins lines with their rank, and whether the user sees it. */
enum dt_console_labels {
    DT_LABELS_NONE,
    DT_LABELS_STRIP,
    DT_LABELS_KEEP,
    DT_LABELS_APART, /* the tasks' output does not pass through srun */
};

struct dt_console_step {
    enum dt_console_labels labels;
    uint32_t tasks;
    struct dt_outcome *outcome;
    struct dt_step_identity identity;
};

/* Fills `step`, which the caller has zeroed, from the description (see
 * contract/contract.h). The step began at now_ms. The caller destroys
 * step->outcome, also after a failure. -1: EX_PROTOCOL, EX_OSERR.
 */
int dt_console_step_read(struct dt_console_step *step, FILE *in, int64_t now_ms,
                         struct dt_error *err);

/* Adds the end of srun to the outcome, if the plugin has written it. */
void dt_console_step_read_end(struct dt_console_step *step, FILE *in);

#endif /* DT_CONSOLE_CONSOLE_IMPL_H */
