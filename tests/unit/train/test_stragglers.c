/* SPDX-License-Identifier: Apache-2.0 */
/* test_stragglers.c - slow ranks are found, and no others; causes */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "train/watch/watch_impl.h"
#include "base/rng.h"
#include "tests/unit/scratch.h"

/* --- runs that are made up --- */

/* A run, in windows of slow_ranks.c: of three seconds, or of five steps if these
 * take longer. Another process comes to the CPUs of each rank at times.
 */
struct scene {
    const char *name;
    size_t world;
    double step;        /* seconds */
    double noise;       /* of a step, as a part of it */
    double calm, taken; /* seconds between two visits, and of one; calm 0: none
                         */
};

/* The rank that is slow, how much, and from when on; in seconds. */
struct slow {
    int rank; /* -1: none */
    double by, from;
};

enum { RANKS_MAX = 16 };

static const double visit = 0.7;   /* a step takes so much longer */
static const double stall_s = 0.1; /* that any step may take more ... */
static const double stalls = 0.2;  /* ... so often in a second */

static uint64_t draws;

static double uniform(uint64_t seed)
{
    return dt_rng_draw(seed, draws++, 0, 0);
}

static double normal(uint64_t seed)
{
    return sqrt(-2 * log(1 - uniform(seed))) * cos(2 * M_PI * uniform(seed));
}

/* Whether another process uses the CPUs of a rank, and until when. */
struct visitor {
    bool here;
    double until;
};

/* The part of the time up to `to` in which it does. */
static double visited(struct visitor *visitor, const struct scene *scene,
                      double from, double to, uint64_t seed)
{
    double sum = 0, at = from;
    while (scene->calm > 0 && at < to) {
        const double end = fmin(to, visitor->until);
        sum += visitor->here ? end - at : 0;
        at = end;
        if (at < visitor->until)
            break;
        visitor->here = !visitor->here;
        visitor->until -= (visitor->here ? scene->taken : scene->calm) *
                          log(1 - uniform(seed));
    }
    return sum / (to - from);
}

/* Seconds of a step in a window. */
static double step_of(const struct scene *scene, struct visitor *visitor,
                      double from, double to, uint64_t seed)
{
    const double steps = (to - from) / scene->step;
    const double noise =
        scene->noise * (0.8 + 0.6 * normal(seed) / sqrt(steps));
    const double stalled = uniform(seed) < stalls * (to - from) ? stall_s : 0;
    return scene->step * (1 + noise) *
               (1 + visit * visited(visitor, scene, from, to, seed)) +
           stalled / steps;
}

/* Plays `seconds` of a run. Returns the first rank that is named, and when. */
static int play(const struct scene *scene, struct slow slow, double seconds,
                uint64_t seed, double *when)
{
    const double window = fmax(3, 5 * scene->step);
    struct dt_error err;
    struct dt_stragglers *s = dt_stragglers_create(scene->world, &err);
    struct visitor visitors[RANKS_MAX] = {0};
    double steps[RANKS_MAX], excess;
    int found = -1;
    draws = 0;
    assert_non_null(s);
    for (double at = 0; found < 0 && at < seconds; at += window) {
        for (size_t r = 0; r < scene->world; r++)
            steps[r] = step_of(scene, &visitors[r], at, at + window, seed);
        if (slow.rank >= 0)
            steps[slow.rank] *=
                1 +
                slow.by * fmin(fmax(at + window - slow.from, 0) / window, 1);
        found = dt_stragglers_add(s, steps, &excess);
        *when = at + window;
        if (found >= 0 && scene->calm == 0 &&
            fabs(excess - slow.by) > 0.05 + 0.1 * scene->noise)
            fail_msg("%s: %g in place of %g", scene->name, excess, slow.by);
    }
    dt_stragglers_destroy(s);
    return found;
}

/* Of so many runs with a rank that becomes 20 % slower, those in which it is
 * named within a minute or 100 steps; and those that name another one.
 */
static int count_named(const struct scene *scene, int runs, int *wrong)
{
    const double limit = fmax(60, 100 * scene->step);
    int named = 0;
    *wrong = 0;
    for (int run = 0; run < runs; run++) {
        const struct slow slow = {.rank = run % (int)scene->world,
                                  .by = 0.2,
                                  .from = run % 2 ? 0 : 90 + 0.37 * run};
        double when;
        const int found =
            play(scene, slow, slow.from + 5 * limit, (uint64_t)run, &when);
        *wrong += found != slow.rank || when < slow.from;
        named += found == slow.rank && when - slow.from <= limit;
    }
    return named;
}

/* How often a rank is named within so many hours, if none is slow, by parts of
 * ten minutes.
 */
static int count_false(const struct scene *scene, int hours)
{
    const struct slow none = {.rank = -1};
    int named = 0;
    double when;
    for (int part = 0; part < 6 * hours; part++)
        named += play(scene, none, 600, 1000 + (uint64_t)part, &when) >= 0;
    return named;
}

static const struct scene quiet[] = {
    {"short steps, two ranks", 2, 0.1, 0.1, 0, 0},
    {"short steps, 16 ranks", 16, 0.1, 0.1, 0, 0},
    {"long steps", 4, 1, 0.1, 0, 0},
    {"steps of any length", 2, 0.1, 0.5, 0, 0},
};

/* As on a machine with other work to do. */
static const struct scene busy[] = {
    {"two seconds in a minute", 2, 0.1, 0.1, 60, 2},
    {"three seconds in 23", 2, 0.1, 0.1, 20, 3},
    {"three seconds in 23, long steps", 4, 1, 0.1, 20, 3},
};

enum { RUNS = 500, HOURS = 100 };

static void a_rank_slowed_by_20_percent_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
        int wrong, named = count_named(&quiet[i], RUNS, &wrong);
        print_message("# %s: named in time in %d of %d runs, wrongly in %d\n",
                      quiet[i].name, named, RUNS, wrong);
        assert_int_equal(wrong, 0);
        assert_true(named >= (quiet[i].noise > 0.1 ? RUNS * 99 / 100 : RUNS));
    }
}

static void no_rank_is_named_in_quiet_runs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++)
        assert_int_equal(count_false(&quiet[i], HOURS), 0);
}

/* There both are a question of how long others use the CPUs. */
static void other_work_of_seconds_names_few(void **state)
{
    static const double least[] = {0.95, 0.7, 0.75}, most[] = {0.02, 0.4, 0.4};
    (void)state;
    for (size_t i = 0; i < sizeof(busy) / sizeof(busy[0]); i++) {
        int wrong, named = count_named(&busy[i], RUNS, &wrong);
        int names = count_false(&busy[i], HOURS);
        print_message("# %s: named in time in %d of %d runs, wrongly in %d; "
                      "%d names in %d quiet hours\n",
                      busy[i].name, named, RUNS, wrong, names, HOURS);
        assert_true(named >= least[i] * RUNS && wrong <= RUNS / 50);
        assert_true(names <= most[i] * HOURS);
    }
}

/* --- causes --- */

static const char *cause_of(struct dt_slowness slow)
{
    static char text[256];
    dt_slowness_cause(&slow, text, sizeof(text));
    return text;
}

static void the_likely_cause_is_named(void **state)
{
    const struct dt_strain none = {NAN, 0, 0, 1};
    struct dt_slowness slow = {.excess_s = 0.1, .strain = none, .median = none};
    (void)state;
    assert_non_null(strstr(cause_of(slow), "counts no cause"));
    slow.strain.preempted = 40;
    assert_non_null(strstr(cause_of(slow), "preempted 40 times a step"));
    slow.strain.faults = 12;
    assert_non_null(strstr(cause_of(slow), "12 pages a step back from a "));
    slow.data_wait_s = 0.08;
    assert_non_null(strstr(cause_of(slow), "0.08 s a step for data"));
    slow.strain.steal_s = 0.07;
    assert_non_null(strstr(cause_of(slow), "hypervisor takes 0.07 s a step"));
    slow.strain.throttled_s = 0.06;
    assert_non_null(strstr(cause_of(slow), "is throttled for 0.06 s a step"));
    slow.median.throttled_s = 0.05; /* as all of them are */
    assert_null(strstr(cause_of(slow), "throttled"));
}

static void put(const char *name, const char *text)
{
    char folder[512];
    snprintf(folder, sizeof(folder), "%s", scratch_path(name));
    *strrchr(folder, '/') = '\0';
    assert_int_equal(dt_file_mkdirs(folder, NULL), 0);
    scratch_write(name, text, strlen(text));
}

static void counters_are_those_of_the_nearest_group(void **state)
{
    struct dt_strain strain;
    (void)state;
    put("proc/stat", "cpu  1 2 3 4 5 6 7 800 9 10\ncpu0 1 2 3 4 5 6 7 800\n");
    put("proc/self/cgroup", "0::/slurm/job_1/step_0/task_0\n");
    put("sys/fs/cgroup/slurm/job_1/cpu.stat",
        "usage_usec 9\nnr_throttled 3\nthrottled_usec 2500000\n");
    put("sys/fs/cgroup/cpu.stat", "throttled_usec 1\n");
    dt_strain_read(&strain, scratch_root);
    assert_true(strain.throttled_s == 2.5);
    assert_true(strain.steal_s > 0 && strain.steal_s <= 8);
    put("proc/self/cgroup", "3:cpuset:/a\n2:cpu,cpuacct:/job\n0::/none\n");
    put("sys/fs/cgroup/cpu,cpuacct/job/cpu.stat", "throttled_time 500000000\n");
    dt_strain_read(&strain, scratch_root);
    assert_true(strain.throttled_s == 0.5);
    dt_strain_read(&strain, "/nowhere");
    assert_true(isnan(strain.throttled_s) && isnan(strain.steal_s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_slowed_by_20_percent_is_named),
        cmocka_unit_test(no_rank_is_named_in_quiet_runs),
        cmocka_unit_test(other_work_of_seconds_names_few),
        cmocka_unit_test(the_likely_cause_is_named),
        cmocka_unit_test(counters_are_those_of_the_nearest_group),
    };
    return cmocka_run_group_tests_name("stragglers", tests, NULL, NULL);
}
