/* SPDX-License-Identifier: Apache-2.0 */
/* page_head.c - the head of a page: how the run ended, its numbers, its time */
#include "config.h"

#include <math.h>
#include <string.h>

#include "page/page_impl.h"

/* A run that has written nothing for longer is called silent. */
static const double silent_s = 1800;

/* --- the verdict --- */

/* The event that ended the run after its last start; NULL: none. */
static const struct dt_page_event *ending_of(const struct dt_page_run *run)
{
    const struct dt_page_event *end = dt_page_last_event(run, "failed fault");
    const struct dt_page_event *start = dt_page_last_event(run, "start resume");
    return end && (!start || start->number < end->number) ? end : NULL;
}

static void judge_running(const struct dt_page_run *run, double now,
                          struct dt_page_verdict *verdict)
{
    char wall[DT_PAGE_NUMBER_BYTES], step[DT_PAGE_NUMBER_BYTES];
    char total[DT_PAGE_NUMBER_BYTES];
    dt_page_count(step, (double)(run->last_step > 0 ? run->last_step : 0));
    dt_page_count(total, run->facts->total_steps);
    dt_page_time(wall, run->last_wall);
    *verdict = (struct dt_page_verdict){.class = "busy", .word = "running"};
    snprintf(verdict->text, sizeof(verdict->text),
             "It had done %s of %s steps at %s.", step, total, wall);
    if (!(now - run->last_wall > silent_s))
        return;
    verdict->class = "warn";
    verdict->word = "silent";
    snprintf(verdict->text, sizeof(verdict->text),
             "It has written nothing since %s, after %s of %s steps. It may "
             "have ended without a word.",
             wall, step, total);
}

struct dt_page_verdict dt_page_judge(const struct dt_page_run *run, double now)
{
    static const struct {
        const char *status, *class;
    } classes[] = {{"finished", "ok"}, {"stopped", "warn"}, {"failed", "fail"}};
    struct dt_page_verdict verdict = {.class = "busy", .word = "recorded"};
    const char *status = run->facts->status;
    const char *text = run->facts->verdict;
    const struct dt_page_event *ending = ending_of(run);
    char steps[DT_PAGE_NUMBER_BYTES];
    if (status && !strcmp(status, "running") && !ending) {
        judge_running(run, now, &verdict);
        return verdict;
    }
    if (ending && (!status || !strcmp(status, "running"))) {
        status = "failed";
        text = ending->text;
    }
    for (size_t i = 0; status && i < sizeof(classes) / sizeof(classes[0]); i++)
        if (!strcmp(classes[i].status, status)) {
            verdict.class = classes[i].class;
            verdict.word = classes[i].status;
        }
    if (text)
        snprintf(verdict.text, sizeof(verdict.text), "%s", text);
    else if (!status)
        snprintf(verdict.text, sizeof(verdict.text),
                 "%s steps; nothing says how the run ended.",
                 dt_page_count(
                     steps, (double)(run->last_step > 0 ? run->last_step : 0)));
    return verdict;
}

/* --- use of the time --- */

struct share {
    const char *name;
    double seconds;
    unsigned color;
};

enum { OTHER = 5, SHARES = 8 };

static double evaluation_seconds(const struct dt_page_run *run)
{
    double sum = 0;
    for (size_t i = 0; i < run->event_count; i++)
        if (!strcmp(run->event[i]->kind, "eval") &&
            isfinite(run->event[i]->seconds))
            sum += run->event[i]->seconds;
    return sum;
}

static double known(double seconds)
{
    return isfinite(seconds) && seconds > 0 ? seconds : 0;
}

/* Fills in the shares from the account of the run, whose steps wait for
 * communication, too. Returns their sum.
 */
static double split_account(const struct dt_page_run *run,
                            struct share share[SHARES])
{
    const double *seconds = run->account.sums.seconds;
    const double steps = seconds[DT_ACCOUNT_STEPS];
    const double comm = fmin(known(run->parts.comm), steps);
    const struct share shares[SHARES] = {
        {"compute", steps - comm, 3},
        {"waiting for communication", comm, 1},
        {"waiting for data", seconds[DT_ACCOUNT_DATA], 5},
        {"saving", seconds[DT_ACCOUNT_SAVING], 4},
        {"evaluation", seconds[DT_ACCOUNT_EVALUATION], 2},
        {"start-up", seconds[DT_ACCOUNT_STARTUP], 7},
        {"recovery", seconds[DT_ACCOUNT_RECOVERY], 6},
        {"steps done again", seconds[DT_ACCOUNT_LOST], 8},
    };
    memcpy(share, shares, sizeof(shares));
    return dt_account_total(&run->account.sums);
}

/* The same for a run whose events have no account, from its metrics; NaN:
 * unknown.
 */
static double split_metrics(const struct dt_page_run *run,
                            struct share share[SHARES])
{
    const struct dt_page_parts *parts = &run->parts;
    const struct share shares[SHARES] = {
        {"compute", known(parts->compute), 3},
        {"waiting for communication", known(parts->comm), 1},
        {"waiting for data", known(parts->data), 5},
        {"saving", known(parts->save), 4},
        {"evaluation", evaluation_seconds(run), 2},
        [OTHER] = {"loading and the rest", 0, 7},
    };
    double sum = 0;
    if (!isfinite(parts->compute) || !isfinite(run->seconds))
        return NAN;
    memcpy(share, shares, sizeof(shares));
    for (size_t i = 0; i < SHARES; i++)
        sum += share[i].seconds;
    share[OTHER].seconds = known(run->seconds - sum);
    return sum + share[OTHER].seconds;
}

static double split_time(const struct dt_page_run *run,
                         struct share share[SHARES])
{
    return run->account.sums.known ? split_account(run, share)
                                   : split_metrics(run, share);
}

/* The share of the time in steps that the weights have, or in all steps if the
 * events have no account; NaN: unknown.
 */
static double good_share(const struct dt_page_run *run)
{
    struct share share[SHARES] = {{0}};
    const double sum = split_time(run, share);
    if (run->account.sums.known)
        return dt_account_goodput(&run->account.sums);
    const double steps = share[0].seconds + share[1].seconds + share[2].seconds;
    return sum > 0 ? steps / sum : NAN;
}

static void put_key(FILE *out, const struct share share[SHARES], double sum)
{
    char text[DT_PAGE_NUMBER_BYTES];
    fputs("<ul class=\"key\">\n", out);
    for (size_t i = 0; i < SHARES; i++)
        if (share[i].seconds > 0)
            fprintf(out,
                    "<li><svg class=\"plot\" aria-hidden=\"true\" "
                    "viewBox=\"0 0 26 12\"><rect class=\"f%u\" width=\"26\" "
                    "height=\"12\" rx=\"3\"/></svg>%s %.1f %% <span "
                    "class=\"unit\">%s</span></li>\n",
                    share[i].color, share[i].name, 100 * share[i].seconds / sum,
                    dt_page_duration(text, share[i].seconds));
    fputs("</ul>\n", out);
}

void dt_page_goodput(FILE *out, const struct dt_page_run *run)
{
    struct share share[SHARES];
    char text[DT_PAGE_NUMBER_BYTES];
    double at = 0;
    const double sum = split_time(run, share);
    if (!(sum > 0))
        return;
    fprintf(out,
            "<h2>Where the time went</h2>\n<svg class=\"plot\" role=\"img\" "
            "aria-labelledby=\"time-t time-d\" viewBox=\"0 0 1000 22\" "
            "preserveAspectRatio=\"none\" style=\"height:22px\">"
            "<title id=\"time-t\">Where the time went</title>"
            "<desc id=\"time-d\">%.1f %% of the time is compute; the list "
            "below has all shares.</desc>\n",
            100 * share[0].seconds / sum);
    for (size_t i = 0; i < SHARES; i++) {
        const double width = 1000 * share[i].seconds / sum;
        if (width > 0)
            fprintf(out,
                    "<rect class=\"s%u\" x=\"%.1f\" width=\"%.1f\" "
                    "height=\"22\"/>\n",
                    share[i].color, at, width);
        at += width;
    }
    fputs("</svg>\n", out);
    put_key(out, share, sum);
    const double idle = run->account.sums.seconds[DT_ACCOUNT_IDLE];
    if (run->account.sums.known && idle >= 1)
        fprintf(out, "<p>Between jobs: %s, in none of the shares.</p>\n",
                dt_page_duration(text, idle));
}

/* --- numbers --- */

static void put_tile(FILE *out, const char *name, const char *value,
                     const char *note)
{
    fprintf(out, "<div><dt>%s</dt><dd>", name);
    dt_page_text(out, value, 60);
    if (note && *note)
        dt_page_put(out, "<small>", note, 60, "</small>");
    fputs("</dd></div>\n", out);
}

bool dt_page_samples(const struct dt_page_run *run)
{
    return dt_page_find(run, DT_SPLIT_TRAIN, "reward") ||
           dt_page_find(run, DT_SPLIT_EVAL, "reward");
}

/* Writes the last value of a curve of training, if there is one. */
static void put_last(FILE *out, const struct dt_page_run *run,
                     const char *value, const char *name, const char *unit)
{
    char a[DT_PAGE_NUMBER_BYTES], b[DT_PAGE_NUMBER_BYTES];
    char c[DT_PAGE_NUMBER_BYTES], note[128];
    const struct dt_curve *curve = dt_page_find(run, DT_SPLIT_TRAIN, value);
    if (!curve || curve->count == 0)
        return;
    const struct dt_curve_tail tail = dt_curve_tail(curve, 0.1);
    snprintf(note, sizeof(note), "%sfirst %s, mean of the last tenth %s", unit,
             dt_page_number(a, curve->first), dt_page_number(b, tail.mean));
    put_tile(out, name, dt_page_number(c, curve->last), note);
}

/* Writes the last and the best value of held-out data; the best is the greatest
 * with `most`, or else the least.
 */
static void put_held_out(FILE *out, const struct dt_page_run *run,
                         const char *value, const char *name, bool most)
{
    char a[DT_PAGE_NUMBER_BYTES], b[DT_PAGE_NUMBER_BYTES], note[128];
    const struct dt_curve *eval = dt_page_find(run, DT_SPLIT_EVAL, value);
    if (!eval || eval->count == 0)
        return;
    snprintf(note, sizeof(note), "best %s at step %s",
             dt_page_number(a, most ? eval->max : eval->min),
             dt_page_count(b, most ? eval->at_max : eval->at_min));
    put_tile(out, name, dt_page_number(a, eval->last), note);
}

/* Writes the important numbers of a run that samples. */
static void put_rewards(FILE *out, const struct dt_page_run *run)
{
    if (!dt_page_samples(run))
        return;
    put_last(out, run, "reward", "Reward", "");
    put_held_out(out, run, "reward", "Held-out reward", true);
    put_last(out, run, "kl", "KL divergence", "");
    put_last(out, run, "objective/kl", "KL divergence", "");
    put_last(out, run, "completions/mean_length", "Length of completions",
             "tokens, ");
}

static void put_progress(FILE *out, const struct dt_page_run *run)
{
    char a[DT_PAGE_NUMBER_BYTES], note[64] = "";
    if (run->last_step >= 0) {
        if (isfinite(run->facts->total_steps))
            snprintf(note, sizeof(note), "of %s",
                     dt_page_count(a, run->facts->total_steps));
        char b[DT_PAGE_NUMBER_BYTES];
        put_tile(out, "Steps", dt_page_count(b, (double)run->last_step), note);
    }
    if (isfinite(run->tokens))
        put_tile(out, "Tokens", dt_page_number(a, run->tokens), NULL);
    if (isfinite(run->seconds)) {
        note[0] = '\0';
        if (run->facts->start_count > 1)
            snprintf(note, sizeof(note), "in %zu starts",
                     run->facts->start_count);
        put_tile(out, "Time", dt_page_duration(a, run->seconds), note);
    }
}

/* Writes the share, with the restarts of the run. */
static void put_goodput(FILE *out, const struct dt_page_run *run)
{
    const struct dt_account_sums *sums = &run->account.sums;
    const double good = good_share(run);
    char text[32], note[96] = "share of the time in steps";
    if (!isfinite(good))
        return;
    snprintf(text, sizeof(text), "%.1f %%", 100 * good);
    if (sums->known && sums->starts > 1)
        snprintf(note, sizeof(note), "%ld restart%s, %ld step%s done again",
                 sums->starts - 1, sums->starts == 2 ? "" : "s", sums->redone,
                 sums->redone == 1 ? "" : "s");
    put_tile(out, "Goodput", text, note);
}

static void put_speed(FILE *out, const struct dt_page_run *run)
{
    char a[DT_PAGE_NUMBER_BYTES], b[DT_PAGE_NUMBER_BYTES], note[96];
    const struct dt_curve *rate =
        dt_page_find(run, DT_SPLIT_TRAIN, "tokens_per_s");
    const double mfu = dt_page_mean(run, "mfu");
    if (rate && rate->count > 0) {
        snprintf(note, sizeof(note), "best %s", dt_page_number(a, rate->max));
        put_tile(out, "Tokens per second",
                 dt_page_number(b, dt_page_mean(run, "tokens_per_s")), note);
    }
    if (isfinite(mfu)) {
        snprintf(a, sizeof(a), "%.1f %%", 100 * mfu);
        snprintf(note, sizeof(note), "of %s FLOP/s a rank%s%.30s",
                 dt_page_number(b, run->facts->peak_flops),
                 run->facts->peak_name ? ", " : "",
                 run->facts->peak_name ? run->facts->peak_name : "");
        put_tile(out, "MFU", a, isfinite(run->facts->peak_flops) ? note : NULL);
    }
    put_goodput(out, run);
}

static void put_costs(FILE *out, const struct dt_page_run *run)
{
    char a[DT_PAGE_NUMBER_BYTES], note[96] = "";
    const struct dt_curve *peak = dt_page_find(run, DT_SPLIT_TRAIN, "mem_peak");
    if (peak && peak->count > 0)
        put_tile(out, "Peak memory", dt_page_bytes(a, peak->max),
                 "of the fullest rank");
    if (!isfinite(run->joules) || run->joules <= 0)
        return;
    if (run->tokens > 0)
        snprintf(note, sizeof(note), "%.3g J a token",
                 run->joules / run->tokens);
    const bool large = run->joules >= 3.6e6;
    snprintf(a, sizeof(a), "%.3g %s", run->joules / (large ? 3.6e6 : 3600),
             large ? "kWh" : "Wh");
    put_tile(out, "Energy", a, note);
}

/* --- the head --- */

static void put_about(FILE *out, const struct dt_page_run *run)
{
    char text[DT_PAGE_NUMBER_BYTES];
    const struct dt_history_facts *facts = run->facts;
    fputs("<p class=\"about\">", out);
    if (facts->family) {
        dt_page_text(out, facts->family, 60);
        if (isfinite(facts->parameters))
            fprintf(out, ", %s parameters",
                    dt_page_number(text, facts->parameters));
    }
    if (facts->train_data) {
        dt_page_put(out, facts->family ? " \u00b7 " : "", facts->train_data,
                    120, "");
        if (isfinite(facts->rows))
            fprintf(out, ", %s rows", dt_page_count(text, facts->rows));
    }
    if (isfinite(facts->world)) {
        fprintf(out, " \u00b7 %s %s", dt_page_count(text, facts->world),
                facts->world == 1 ? "rank" : "ranks");
        if (facts->node_count > 0)
            fprintf(out, " on %zu %s", facts->node_count,
                    facts->node_count == 1 ? "node" : "nodes");
    }
    if (facts->device_count > 0 && facts->devices[0][0])
        dt_page_put(out, " \u00b7 ", facts->devices[0], 60, "");
    fputs("</p>\n", out);
}

static void put_problems(FILE *out, const struct dt_page_run *run)
{
    static const char *const names[] = {[DT_HISTORY_METRICS] = "metrics.jsonl",
                                        [DT_HISTORY_EVENTS] = "events.jsonl",
                                        [DT_HISTORY_RANKS] = "ranks.jsonl"};
    if (run->facts->problem)
        dt_page_put(out, "<p class=\"banner\">run.json was not read: ",
                    run->facts->problem, 300, "</p>\n");
    for (int i = 0; i < DT_HISTORY_FILES; i++) {
        const long damaged =
            dt_history_damaged(run->history, (enum dt_history_file)i);
        if (damaged > 0)
            fprintf(out,
                    "<p class=\"banner\">%s: %ld damaged %s left out.</p>\n",
                    names[i], damaged, damaged == 1 ? "line is" : "lines are");
    }
}

void dt_page_head(FILE *out, const struct dt_page_run *run, double now)
{
    const struct dt_page_verdict verdict = dt_page_judge(run, now);
    fprintf(out, "<header class=\"%s\">\n<p class=\"kicker\">disttrain report",
            verdict.class);
    if (run->facts->algorithm)
        dt_page_put(out, " \u00b7 ", run->facts->algorithm, 20, "");
    dt_page_put(out, "</p>\n<h1><bdi>", run->facts->name, 120, "</bdi></h1>\n");
    fprintf(out, "<p class=\"verdict\"><span class=\"badge\">%s</span> ",
            verdict.word);
    dt_page_put(out, "<span>", verdict.text, 500, "</span></p>\n");
    put_about(out, run);
    fputs("</header>\n", out);
    put_problems(out, run);
    fputs("<dl class=\"tiles\">\n", out);
    put_rewards(out, run);
    put_last(out, run, "loss", "Training loss", "");
    put_held_out(out, run, "loss", "Held-out loss", false);
    put_progress(out, run);
    put_speed(out, run);
    put_costs(out, run);
    fputs("</dl>\n", out);
    if (run->facts->resume && strcmp(verdict.word, "finished") != 0)
        dt_page_put(out, "<h2>To resume it</h2>\n<pre><code>",
                    run->facts->resume, 4000, "</code></pre>\n");
}
