/* SPDX-License-Identifier: Apache-2.0 */
/* test_page.c - the page of a run: whole, hostile, empty, colors, sizes */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "page/page.h"
#include "page/page_impl.h"
#include "tests/unit/count.h"
#include "tests/unit/scratch.h"

enum { PAGE_MAX = 4 << 20 };

static char *page; /* the one written last */

static void write_text(const char *name, const char *text)
{
    scratch_write(name, text, strlen(text));
}

static void forget_run(void)
{
    dt_file_remove_tree(scratch_path("run"), NULL);
    mkdir(scratch_path("run"), 0777);
    free(page);
    page = NULL;
}

/* --- is it well-formed? --- */

/* Whether a tag [s, end) ends itself, as all without content do here. */
static bool ends_itself(const char *end)
{
    return end[-1] == '/';
}

/* Every tag is closed in its order, and no text has a bare & or <. */
static void assert_well_formed(const char *text)
{
    enum { DEPTH = 64 };
    const char *open[DEPTH], *s = strstr(text, "<html");
    size_t depth = 0;
    for (; s && *s; s++) {
        if (*s == '&' && strncmp(s, "&amp;", 5) && strncmp(s, "&lt;", 4) &&
            strncmp(s, "&gt;", 4) && strncmp(s, "&quot;", 6) &&
            strncmp(s, "&#39;", 5))
            fail_msg("a bare &: %.40s", s);
        if (*s != '<')
            continue;
        const char *end = strchr(s, '>');
        if (!end)
            fail_msg("a bare <: %.40s", s);
        const size_t name = strcspn(s + 1, " >/\n");
        if (s[1] == '/') {
            const size_t n = strcspn(s + 2, ">");
            if (depth == 0 || strncmp(open[--depth], s + 2, n) != 0)
                fail_msg("%.20s does not end %.20s", s,
                         depth < DEPTH ? open[depth] : "");
        } else if (!ends_itself(end)) {
            assert_true(depth < DEPTH && name > 0);
            open[depth++] = s + 1;
        }
        s = end;
    }
    assert_int_equal(depth, 0);
}

static const char *write_page(const char *const *runs, size_t count)
{
    struct dt_error err;
    const char *path = scratch_path("page.html");
    const struct dt_page_options options = {
        .runs = runs, .count = count, .html = path, .now = 1.79e9};
    if (dt_page_write(&options, &err) < 0)
        fail_msg("%s", err.text);
    free(page);
    page = dt_file_read(path, PAGE_MAX, &err);
    if (!page)
        fail_msg("%s", err.text);
    assert_well_formed(page);
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "http://"));
    /* only the random name of the directory may have these letters */
    assert_int_equal(count_of(page, "nan"),
                     count_of(page, scratch_path("")) *
                         count_of(scratch_path(""), "nan"));
    return page;
}

static const char *page_of_run(void)
{
    const char *run = scratch_path("run");
    return write_page(&run, 1);
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("expected: %s", part);
}

/* --- runs --- */

/* A run of `count` steps whose loss falls. */
static void write_metrics(const char *name, int count, const char *more)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/metrics.jsonl", name);
    FILE *out = fopen(scratch_path(path), "w");
    assert_non_null(out);
    for (int i = 1; i <= count; i++)
        fprintf(out,
                "{\"step\": %d, \"split\": \"train\", \"loss\": %.6g, \"lr\": "
                "%.6g, \"grad_norm\": %.6g, \"tokens_per_s\": %d%s, \"time\": "
                "%.3f}\n",
                i, 1.5 + 4.0 / i + (i == 333) * 9, 1e-3 / i, 1 + 2.0 / i,
                1000 + i % 7, more, 0.5 * i);
    fclose(out);
}

static void an_older_run_has_its_four_curves_and_no_more(void **state)
{
    (void)state;
    forget_run();
    write_metrics("run", 40, "");
    const char *text = page_of_run();
    assert_has(text, "default-src &#39;none&#39;");
    assert_has(text, "<h1><bdi>run</bdi></h1>");
    assert_has(text, "40 steps; nothing says how the run ended.");
    assert_has(text, "<dt>Training loss</dt><dd>1.6<small>first 5.5, mean of");
    assert_has(text, "training: 5.5 at step 1, least 1.6 at 40, greatest 5.5 "
                     "at 1, last 1.6 at 40");
    assert_has(text, "<div class=\"scroll\" tabindex=\"0\" role=");
    assert_has(text, "id=\"lr-t\"");
    assert_has(text, "id=\"grad-norm-t\"");
    assert_has(text, "id=\"tokens-per-s-t\"");
    assert_null(strstr(text, "step-time-t"));
    assert_null(strstr(text, "Events"));
    assert_null(strstr(text, "Where the time went"));
}

/* Where `part` is in the page; it must be there. */
static const char *place(const char *text, const char *part)
{
    assert_has(text, part);
    return strstr(text, part);
}

static void a_run_that_samples_begins_with_its_reward(void **state)
{
    (void)state;
    forget_run();
    write_metrics("run", 30,
                  ", \"reward\": 0.5, \"kl\": 0.01, "
                  "\"completions/mean_length\": 42, \"entropy\": 1");
    const char *text = page_of_run();
    assert_has(text, "<dl class=\"tiles\">\n<div><dt>Reward</dt><dd>0.5");
    assert_true(place(text, "<dt>Length of completions</dt><dd>42") <
                place(text, "<dt>Training loss</dt>"));
    assert_true(place(text, "id=\"reward-t\"") < place(text, "id=\"kl-t\""));
    assert_true(place(text, "id=\"kl-t\"") <
                place(text, "id=\"mean-length-t\""));
    assert_true(place(text, "id=\"mean-length-t\"") <
                place(text, "id=\"loss-t\""));
    assert_has(text, "id=\"value-1-entropy-t\"");
    assert_null(strstr(text, "value-2"));
    /* of a constant only its value is at the axis */
    assert_null(strstr(text, ">0.75</text>"));
}

static void close_numbers_have_the_digits_that_tell_them_apart(void **state)
{
    (void)state;
    forget_run();
    write_text("run/metrics.jsonl",
               "{\"step\": 1, \"split\": \"train\", \"loss\": 6.8938}\n"
               "{\"step\": 3, \"split\": \"train\", \"loss\": 6.8942}\n");
    const char *text = page_of_run();
    assert_has(text, ">6.8938</text>");
    assert_has(text, ">6.8940</text>");
    assert_has(text, ">1</text><text");
    assert_non_null(strstr(text, ">2</text>"));
    assert_null(strstr(strstr(text, ">2</text>") + 1, ">2</text>"));
}

static void a_failed_run_says_so_with_the_command_to_resume(void **state)
{
    (void)state;
    forget_run();
    write_metrics("run", 100,
                  ", \"tokens\": 10, \"step_s\": 0.5, \"compute_s\": 0.4, "
                  "\"comm_exposed_s\": 0.05, \"energy_j\": 36, "
                  "\"tokens_per_j\": 2");
    write_text("run/events.jsonl",
               "{\"event\": \"start\", \"step\": 0}\n"
               "{\"event\": \"save\", \"step\": 50, \"seconds\": 2, "
               "\"bytes\": 2048}\n"
               "{\"event\": \"failed\", \"step\": 100, \"rank\": 3, "
               "\"host\": \"n7\", \"text\": \"rank 3 was killed\"}\n");
    write_text("run/run.json",
               "{\"name\": \"helper\", \"status\": \"running\", "
               "\"total_steps\": 700, \"resume\": \"srun a.yaml\"}");
    const char *text = page_of_run();
    assert_has(text, "<header class=\"fail\">");
    assert_has(text, "failed</span> <span>rank 3 was killed</span>");
    assert_has(text, "<pre><code>srun a.yaml</code></pre>");
    assert_has(text, "compute 80.0 %");
    assert_has(text, "waiting for communication 10.0 %");
    assert_has(text, "1 saved, the last one at step 50, of 2.00 KiB. Training "
                     "waited 2 s for them");
    assert_has(text, "<dd>1,000</dd>");
    assert_has(text, "<dd>1 Wh<small>3.6 J a token");
    assert_has(text, "<g class=\"kb\"><title>3: rank 3 was killed</title>");
}

/* Of 100 s, without those in the queue: 40 were in steps that the run has, and
 * the last 10 of them are known from its metrics.
 */
static void the_account_of_a_run_is_where_its_time_went(void **state)
{
    (void)state;
    forget_run();
    write_text("run/metrics.jsonl",
               "{\"step\": 40, \"split\": \"train\", \"loss\": 1, "
               "\"comm_exposed_s\": 0.1, \"time\": 40, \"wall\": 1150}\n");
    write_text("run/events.jsonl",
               "{\"event\": \"start\", \"step\": 0, \"wall\": 1010, "
               "\"allocation\": \"7\", \"spent\": {\"startup\": 10}}\n"
               "{\"event\": \"restart\", \"step\": 20, \"wall\": 1030, "
               "\"redone\": 20, \"text\": \"rank 3 was killed\"}\n"
               "{\"event\": \"resume\", \"step\": 0, \"wall\": 1100, "
               "\"allocation\": \"8\", \"spent\": {\"startup\": 20}}\n"
               "{\"event\": \"eval\", \"step\": 30, \"wall\": 1140, "
               "\"spent\": {\"startup\": 20, \"steps\": 30, \"data\": 2, "
               "\"saving\": 3, \"evaluation\": 5}}\n");
    write_text("run/run.json", "{\"name\": \"x\", \"status\": \"running\"}");
    const char *text = page_of_run();
    assert_has(text,
               "<dt>Goodput</dt><dd>40.0 %<small>1 restart, 20 steps done "
               "again</small>");
    assert_has(text, "compute 36.0 % ");
    assert_has(text, "waiting for communication 4.0 % ");
    assert_has(text, "waiting for data 2.0 % ");
    assert_has(text, "saving 3.0 % ");
    assert_has(text, "evaluation 5.0 % ");
    assert_has(text, "start-up 10.0 % ");
    assert_has(text, "recovery 20.0 % ");
    assert_has(text, "steps done again 20.0 % ");
    assert_has(text, "<p>Between jobs: 50 s, in none of the shares.</p>");
    assert_has(text, "<g class=\"kb\"><title>2: rank 3 was killed</title>");
}

/* Nothing that a run was named, or says, becomes markup. */
static void hostile_texts_are_escaped(void **state)
{
    static char json[40000], name[10001];
    (void)state;
    forget_run();
    write_metrics("run", 30, ", \"<script>x</script>\": 1, \"a\\\"'&\": 2");
    memset(name, 'A', sizeof(name) - 1);
    snprintf(json, sizeof(json),
             "{\"name\": \"<script>alert(1)</script>\\\"'&\\u202eabc\", "
             "\"verdict\": \"</style><svg onload=x>\", \"status\": "
             "\"finished\", \"nodes\": [{\"host\": \"<b>%s\"}], \"config\": "
             "{\"<i>\": \"%s\"}, \"given\": [\"<i>\"], \"argv\": [\"<x\"]}",
             name, name);
    write_text("run/run.json", json);
    write_text("run/events.jsonl",
               "{\"event\": \"<u>\", \"step\": 3, \"host\": \"<h>\", "
               "\"text\": \"<img src=x>\"}\n");
    const char *text = page_of_run();
    assert_has(text, "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;"
                     "&amp;\xef\xbf\xbd"
                     "abc</bdi>");
    assert_has(text, "&lt;/style&gt;&lt;svg onload=x&gt;");
    assert_null(strstr(text, "<img"));
    assert_null(strstr(text, "<b>"));
    assert_true(strlen(text) < 200000);
}

static void a_run_may_have_one_point_or_none_or_none_that_is_finite(
    void **state)
{
    (void)state;
    forget_run();
    write_metrics("run", 1, "");
    page_of_run();
    forget_run();
    write_text("run/metrics.jsonl", "");
    assert_has(page_of_run(), "No step has been recorded.");
    write_text("run/metrics.jsonl",
               "{\"step\": 1, \"split\": \"train\", \"loss\": null}\n"
               "{\"step\": 2, \"split\": \"train\", \"loss\": null}\n"
               "damaged\n");
    const char *text = page_of_run();
    assert_has(text, "training: no finite value. 2 values are not finite.");
    assert_has(text, "<path class=\"bad\" d=\"M");
    assert_has(text, "metrics.jsonl: 1 damaged line is left out.");
}

static void eight_runs_are_compared_in_less_than_a_megabyte(void **state)
{
    char path[DT_PAGE_RUNS_MAX][256], name[64], json[256];
    const char *runs[DT_PAGE_RUNS_MAX];
    (void)state;
    for (int i = 0; i < DT_PAGE_RUNS_MAX; i++) {
        snprintf(name, sizeof(name), "run%d", i);
        snprintf(path[i], sizeof(path[i]), "%s", scratch_path(name));
        mkdir(path[i], 0777);
        write_metrics(name, 3000, ", \"tokens\": 10");
        snprintf(json, sizeof(json),
                 "{\"name\": \"r%d\", \"config\": {\"optimizer.lr\": %d, "
                 "\"same\": 1}, \"data\": {\"hash\": \"%d\"}}",
                 i, i / 4, i / 7);
        snprintf(name, sizeof(name), "run%d/run.json", i);
        write_text(name, json);
        runs[i] = path[i];
    }
    const char *text = write_page(runs, DT_PAGE_RUNS_MAX);
    assert_true(strlen(text) < 1000000);
    assert_has(text, "8 r7</bdi> has other data than the first run");
    assert_null(strstr(text, "7 r6</bdi> has other data"));
    assert_has(text, "<code>optimizer.lr</code></th><td>0</td>");
    assert_null(strstr(text, "<code>same</code>"));
    assert_has(text, "+0 <span class=\"unit\">within noise</span>");
    assert_has(text, "id=\"loss-by-tokens-t\"");
    assert_has(text, "id=\"loss-by-time-t\"");
}

/* The first run's loss scatters by 0.1. */
static void a_loss_beyond_the_noise_is_told_in_both_directions(void **state)
{
    static const double losses[] = {2, 1.5, 2.5, 1.95};
    char path[4][256], name[32], text[2048];
    const char *runs[4];
    (void)state;
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "noise%d/metrics.jsonl", i);
        snprintf(path[i], sizeof(path[i]), "%s", scratch_path(name));
        *strrchr(path[i], '/') = '\0';
        runs[i] = path[i];
        mkdir(path[i], 0777);
        text[0] = '\0';
        for (int step = 1; step <= 20; step++)
            snprintf(text + strlen(text), sizeof(text) - strlen(text),
                     "{\"step\": %d, \"split\": \"train\", \"loss\": %.3f}\n",
                     step, losses[i] + (step % 2 ? 0.1 : -0.1));
        write_text(name, text);
    }
    const char *html = write_page(runs, 4);
    assert_has(html, "<td class=\"n\">-0.5</td>");
    assert_has(html, "<td class=\"n\">+0.5</td>");
    assert_has(html, "<td class=\"n\">-0.05 <span class=\"unit\">within");
}

/* Each start of a run counts its time from 0. */
static void the_times_of_all_starts_add_up(void **state)
{
    struct dt_error err;
    (void)state;
    forget_run();
    write_text("run/metrics.jsonl",
               "{\"step\": 1, \"split\": \"train\", \"time\": 300}\n"
               "{\"step\": 2, \"split\": \"train\", \"time\": 20}\n"
               "{\"step\": 3, \"split\": \"train\", \"time\": 50}\n"
               "{\"step\": 4, \"split\": \"train\", \"time\": 7}\n");
    struct dt_page_run *run = dt_page_gather(scratch_path("run"), &err);
    assert_non_null(run);
    assert_true(run->seconds == 300 + 50 + 7);
    dt_page_run_destroy(run);
}

static void plots_are_files_of_svg_without_variables(void **state)
{
    struct dt_error err;
    (void)state;
    forget_run();
    write_metrics("run", 30, "");
    const char *run = scratch_path("run");
    const struct dt_page_options options = {
        .runs = &run, .count = 1, .svg_dir = scratch_path("svg")};
    assert_int_equal(dt_page_write(&options, &err), 0);
    char *svg = dt_file_read(scratch_path("svg/loss.svg"), PAGE_MAX, &err);
    assert_non_null(svg);
    assert_has(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    assert_has(svg, "prefers-color-scheme:dark");
    assert_null(strstr(svg, "var("));
    assert_has(svg, ".paper{fill:#fff}");
    assert_has(svg, ".paper{fill:#14171b}");
    free(svg);
}

static void a_page_that_cannot_be_written_names_its_file(void **state)
{
    struct dt_error err;
    const char *run = scratch_path("run");
    (void)state;
    const struct dt_page_options options = {
        .runs = &run, .count = 1, .html = "/nowhere/page.html"};
    assert_int_equal(dt_page_write(&options, &err), -1);
    assert_non_null(strstr(err.text, "/nowhere/page.html."));
    assert_non_null(strstr(err.text, "cannot create: No such file"));
    assert_int_equal(err.status, EX_CANTCREAT);
}

/* --- the parts --- */

static void a_curve_keeps_every_spike(void **state)
{
    static struct dt_curve curve;
    enum { POINTS = 100000, SPIKE = 54321 };
    (void)state;
    dt_curve_init(&curve, 1);
    for (int i = 0; i < POINTS; i++)
        dt_curve_add(&curve, i, i == SPIKE ? 77 : i % 2);
    assert_true(curve.max == 77 && curve.at_max == SPIKE);
    assert_true(curve.used > DT_CURVE_BINS / 2 - 10 &&
                curve.used <= DT_CURVE_BINS);
    size_t count = 0;
    bool found = false;
    for (size_t i = 0; i < curve.used; i++) {
        count += curve.bin[i].count;
        found =
            found || (curve.bin[i].max == 77 && curve.bin[i].at_max == SPIKE);
    }
    assert_true(found);
    assert_int_equal(count, POINTS);
    const struct dt_curve_tail tail = dt_curve_tail(&curve, 0.1);
    assert_true(fabs(tail.mean - 0.5) < 1e-3);
    assert_true(fabs(tail.deviation - 0.5) < 1e-3);
}

/* Most bins are empty when they are merged, and none has two points at last. */
static void a_bad_point_stays_at_its_place(void **state)
{
    static struct dt_curve curve;
    enum { EVERY = 10, POINTS = DT_CURVE_BINS * 8 / EVERY };
    const double bad[] = {10 * EVERY, 33 * EVERY};
    size_t found = 0;
    (void)state;
    dt_curve_init(&curve, 1);
    for (int i = 0; i < POINTS; i++)
        dt_curve_add(&curve, i * EVERY,
                     i * EVERY == bad[0] || i * EVERY == bad[1] ? NAN : i);
    assert_true(curve.width == 8);
    assert_int_equal(curve.bad, 2);
    for (size_t i = 0; i < curve.used; i++)
        if (curve.bin[i].count == 0 && curve.bin[i].bad > 0)
            assert_true(dt_curve_bin_x(&curve.bin[i]) == bad[found++]);
    assert_int_equal(found, 2);
}

static void ticks_are_round(void **state)
{
    struct dt_axis axis;
    (void)state;
    dt_axis_init(&axis, 0, 700, 10, 0);
    assert_int_equal(axis.count, 8);
    assert_true(axis.tick[0] == 0 && axis.tick[7] == 700);
    dt_axis_init(&axis, 1, 5, 10, DT_AXIS_WHOLE); /* steps */
    assert_int_equal(axis.count, 5);
    dt_axis_init(&axis, 1, 5, 10, 0);
    assert_int_equal(axis.count, 9);
    for (double x = -3; x <= 3; x += 3) { /* a constant */
        dt_axis_init(&axis, x, x, 5, DT_AXIS_LOOSE);
        assert_true(axis.from < x && axis.to > x);
        assert_true(axis.count == 1 && axis.tick[0] == x);
    }
    dt_axis_init(&axis, 6.8938, 6.8942, 5, 0);
    assert_int_equal(dt_axis_digits(&axis), 5);
    dt_axis_init(&axis, 0.02, 900, 5, DT_AXIS_LOG | DT_AXIS_LOOSE);
    for (size_t i = 0; i < axis.count; i++)
        assert_true(fabs(remainder(log10(axis.tick[i]), 1)) < 1e-9);
    dt_axis_init(&axis, 0, 4 * 0x1p30, 5, 0);
    dt_axis_binary(&axis, 5);
    assert_int_equal(axis.count, 5);
    for (size_t i = 0; i < axis.count; i++)
        assert_true(axis.tick[i] == (double)i * 0x1p30);
}

static void numbers_are_short(void **state)
{
    char text[DT_PAGE_NUMBER_BYTES];
    (void)state;
    assert_string_equal(dt_page_number(text, 1.48501), "1.485");
    assert_string_equal(dt_page_number(text, 17193.4), "17,193");
    assert_string_equal(dt_page_number(text, 8.4264e7), "84.26 M");
    assert_string_equal(dt_page_number(text, 2e-5), "2e-05");
    assert_string_equal(dt_page_number(text, NAN), "\u2013");
    assert_string_equal(dt_page_count(text, -1234567), "-1,234,567");
    assert_string_equal(dt_page_bytes(text, 1.25 * 0x1p30), "1.25 GiB");
    assert_string_equal(dt_page_duration(text, 0.85), "850 ms");
    assert_string_equal(dt_page_duration(text, 6.52e-7), "0.652 \u00b5s");
    assert_string_equal(dt_page_duration(text, 200), "3 min 20 s");
    assert_string_equal(dt_page_duration(text, 18120), "5 h 02 min");
    assert_string_equal(dt_page_time(text, 0), "\u2013");
    assert_string_equal(dt_page_time(text, 1.7e9), "2023-11-14 22:13:20 UTC");
}

/* --- contrast, as WCAG 2 computes it --- */

static double luminance(const char *color)
{
    static const double weight[] = {0.2126, 0.7152, 0.0722};
    const bool small = strspn(color + 1, "0123456789abcdef") == 3;
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        char digits[3] = {color[1 + i], color[1 + i], '\0'};
        if (!small)
            memcpy(digits, color + 1 + 2 * i, 2);
        const double c = (double)strtol(digits, NULL, 16) / 255;
        sum += weight[i] *
               (c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4));
    }
    return sum;
}

static const char *color_of(const char *variables, const char *name)
{
    const char *found = strstr(variables, name);
    if (!found)
        fail_msg("no %s", name);
    return found + strlen(name);
}

static void assert_contrast(const char *variables, const char *a, const char *b,
                            double least)
{
    const double x = luminance(color_of(variables, a));
    const double y = luminance(color_of(variables, b));
    const double ratio = (fmax(x, y) + 0.05) / (fmin(x, y) + 0.05);
    if (ratio < least)
        fail_msg("%s on %s has %.2f of %.1f", a, b, ratio, least);
}

static void text_and_lines_have_contrast_in_light_and_dark(void **state)
{
    static const char *const texts[] = {
        "--ink:", "--dim:", "--c1:", "--c2:", "--c3:", "--c4:",
        "--c5:",  "--c6:",  "--c7:", "--c8:", "--bad:"};
    static const char *const badges[] = {
        "--ok:", "--warn:", "--bad:", "--turn:", "--dim:"};
    (void)state;
    const char *light = dt_style_colors;
    const char *dark = strstr(dt_style_colors, "prefers-color-scheme:dark");
    for (int theme = 0; theme < 2; theme++) {
        const char *colors = theme ? dark : light;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
            assert_contrast(colors, texts[i], "--paper:", 4.5);
        for (size_t i = 0; i < sizeof(badges) / sizeof(badges[0]); i++)
            assert_contrast(colors, "--on:", badges[i], 4.5);
        assert_contrast(colors, "--dim:", "--card:", 4.5);
    }
}

/* Of two ranks, the median is the time of the faster one. */
static void the_slow_one_of_two_ranks_is_in_the_heat_map(void **state)
{
    double compute_s[] = {0.1, 0.15};
    const struct dt_report_ranks ranks = {
        .step = 1, .count = 2, .compute_s = compute_s};
    struct dt_rank_times *times = calloc(1, sizeof(*times));
    (void)state;
    dt_rank_times_add(times, &ranks);
    assert_true(fabs(times->cell[0][0].sum - 1) < 1e-9);
    assert_true(fabs(times->cell[1][0].sum - 1.5) < 1e-9);
    dt_rank_times_fini(times);
    free(times);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slow_one_of_two_ranks_is_in_the_heat_map),
        cmocka_unit_test(an_older_run_has_its_four_curves_and_no_more),
        cmocka_unit_test(a_run_that_samples_begins_with_its_reward),
        cmocka_unit_test(close_numbers_have_the_digits_that_tell_them_apart),
        cmocka_unit_test(a_failed_run_says_so_with_the_command_to_resume),
        cmocka_unit_test(the_account_of_a_run_is_where_its_time_went),
        cmocka_unit_test(hostile_texts_are_escaped),
        cmocka_unit_test(
            a_run_may_have_one_point_or_none_or_none_that_is_finite),
        cmocka_unit_test(eight_runs_are_compared_in_less_than_a_megabyte),
        cmocka_unit_test(a_loss_beyond_the_noise_is_told_in_both_directions),
        cmocka_unit_test(the_times_of_all_starts_add_up),
        cmocka_unit_test(plots_are_files_of_svg_without_variables),
        cmocka_unit_test(a_page_that_cannot_be_written_names_its_file),
        cmocka_unit_test(a_curve_keeps_every_spike),
        cmocka_unit_test(a_bad_point_stays_at_its_place),
        cmocka_unit_test(ticks_are_round),
        cmocka_unit_test(numbers_are_short),
        cmocka_unit_test(text_and_lines_have_contrast_in_light_and_dark),
    };
    return cmocka_run_group_tests_name("page", tests, NULL, NULL);
}
