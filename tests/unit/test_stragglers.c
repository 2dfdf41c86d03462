/* SPDX-License-Identifier: Apache-2.0 */
/* test_stragglers.c - slow ranks are found, and no others; causes */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "algo/stragglers.h"
#include "base/rng.h"
#include "tests/unit/scratch.h"

enum { RUNS = 20, STEPS = 15 };

/* --- runs that are made up --- */

struct scene {
    size_t world;
    int slow; /* this rank, -1: none */
    double by;
    long from, steps;
    double seconds; /* of a step */
    double noise;   /* of a step, as a part of it */
};

static uint64_t draws;

static double uniform(uint64_t seed)
{
    return dt_rng_draw(seed, draws++, 0, 0);
}

static double normal(uint64_t seed)
{
    return sqrt(-2 * log(1 - uniform(seed))) * cos(2 * M_PI * uniform(seed));
}

/* A step with noise, and with something else that takes the CPU for 0.1 s, once
 * in five seconds.
 */
static double step_of(const struct scene *scene, size_t rank, long step,
                      uint64_t seed)
{
    double seconds = scene->seconds * (1 + scene->noise * fabs(normal(seed)));
    if (uniform(seed) < 0.2 * scene->seconds)
        seconds += 0.1;
    if ((int)rank == scene->slow && step >= scene->from)
        seconds *= 1 + scene->by;
    return seconds;
}

/* Plays a run with windows as in watch.c. Returns the first rank that is named,
 * and after which step.
 */
static int play(const struct scene *scene, uint64_t seed, long *step)
{
    struct dt_error err;
    struct dt_stragglers *s = dt_stragglers_create(scene->world, &err);
    double sums[64] = {0}, excess;
    int found = -1;
    draws = 0;
    assert_non_null(s);
    for (*step = 1; found < 0 && *step <= scene->steps; ++*step) {
        for (size_t r = 0; r < scene->world; r++)
            sums[r] += step_of(scene, r, *step, seed);
        if (*step % STEPS > 0 || sums[0] < 8)
            continue;
        found = dt_stragglers_add(s, sums, &excess);
        memset(sums, 0, sizeof(sums));
        if (found >= 0 && fabs(excess - scene->by) > 0.06)
            fail_msg("%g in place of %g", excess, scene->by);
    }
    --*step;
    dt_stragglers_destroy(s);
    return found;
}

/* From the start and later, with 2 to 16 ranks, of short steps and long ones.
 */
static void a_rank_slowed_by_20_percent_is_named(void **state)
{
    static const size_t worlds[] = {2, 4, 16};
    (void)state;
    for (int run = 0; run < RUNS; run++) {
        struct scene scene = {.world = worlds[run % 3],
                              .by = 0.2,
                              .from = run % 2 ? 1 : 300 + 7 * run,
                              .steps = 3000,
                              .seconds = run % 4 < 2 ? 0.1 : 1,
                              .noise = 0.05};
        long step;
        scene.slow = run % (int)scene.world;
        int found = play(&scene, (uint64_t)run, &step);
        const double steps = (double)(step - scene.from);
        if (found != scene.slow || (steps > 100 && steps * scene.seconds > 60))
            fail_msg("run %d: rank %d in place of %d after %g steps", run,
                     found, scene.slow, steps);
    }
}

static void no_rank_is_named_in_quiet_runs(void **state)
{
    (void)state;
    for (int run = 0; run < RUNS; run++) {
        const struct scene scene = {.world = run % 2 ? 8 : 2,
                                    .slow = -1,
                                    .steps = 6000,
                                    .seconds = run % 4 < 2 ? 0.1 : 1,
                                    .noise = run % 5 == 0 ? 0.5 : 0.1};
        long step;
        int found = play(&scene, (uint64_t)(100 + run), &step);
        if (found >= 0)
            fail_msg("run %d: rank %d at step %ld", run, found, step);
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
        cmocka_unit_test(the_likely_cause_is_named),
        cmocka_unit_test(counters_are_those_of_the_nearest_group),
    };
    return cmocka_run_group_tests_name("stragglers", tests, NULL, NULL);
}
