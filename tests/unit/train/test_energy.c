/* SPDX-License-Identifier: Apache-2.0 */
/* test_energy.c - counters of energy: wraps, resets, refusals */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/device.h"
#include "tests/unit/sysfs.h"

enum { NOBODY = 65534 };

#define ZONES "sys/class/powercap/intel-rapl"

static void zone(const char *root, const char *name, const char *kind,
                 const char *energy)
{
    sysfs_write(root, kind, ZONES "%s/name", name);
    sysfs_write(root, "1000000\n", ZONES "%s/max_energy_range_uj", name);
    sysfs_write(root, energy, ZONES "%s/energy_uj", name);
}

static struct dt_energy *open_node(const char *root)
{
    struct dt_energy *energy = dt_energy_open(
        &(struct dt_energy_options){.node = true, .root = scratch_path(root)});
    assert_non_null(energy);
    return energy;
}

static double cpu_joules(struct dt_energy *energy)
{
    struct dt_energy_reading reading;
    dt_energy_read(energy, &reading);
    assert_true(reading.gpu_j == 0);
    return reading.cpu_j;
}

static void packages_and_dram_count_and_their_parts_do_not(void **state)
{
    (void)state;
    zone("two", ":0", "package-0\n", "100\n");
    zone("two", ":1", "package-1\n", "999000\n");
    zone("two", ":0:0", "core\n", "5\n");
    zone("two", ":0:2", "dram\n", "0\n");
    zone("two", ":2", "psys\n", "0\n");
    zone("two", "-mmio:0", "package-0\n", "100\n");
    struct dt_energy *energy = open_node("two");
    assert_true(cpu_joules(energy) == 0);
    assert_string_equal(dt_energy_problem(energy), "");
    zone("two", ":0", "package-0\n", "500100\n");
    zone("two", ":0:0", "core\n", "400000\n");
    zone("two", ":0:2", "dram\n", "250000\n");
    zone("two", ":2", "psys\n", "900000\n");
    zone("two", "-mmio:0", "package-0\n", "900000\n");
    assert_true(fabs(cpu_joules(energy) - 0.75) < 1e-9);
    zone("two", ":1", "package-1\n", "9000\n"); /* it wraps */
    assert_true(fabs(cpu_joules(energy) - 0.76) < 1e-9);
    zone("two", ":1", "package-1\n", "8999\n"); /* and again */
    assert_true(fabs(cpu_joules(energy) - 1.759999) < 1e-9);
    dt_energy_close(energy);
}

static void without_rights_it_is_unknown_and_said(void **state)
{
    uid_t self = geteuid();
    (void)state;
    zone("denied", ":0", "package-0\n", "100\n");
    chmod(scratch_path("denied/" ZONES ":0/energy_uj"), 0);
    if (self == 0) { /* root may read everything, and nobody may not */
        chmod(scratch_root, 0755);
        assert_int_equal(setresuid(NOBODY, NOBODY, 0), 0);
    }
    struct dt_energy *energy = open_node("denied");
    double joules = cpu_joules(energy);
    assert_int_equal(setresuid(self, self, self), 0);
    assert_true(isnan(joules));
    assert_string_equal(dt_energy_problem(energy), "RAPL: permission denied");
    dt_energy_close(energy);
}

static void a_counter_that_cannot_be_read_says_why(void **state)
{
    (void)state;
    zone("folder", ":0", "package-0\n", "100\n");
    unlink(scratch_path("folder/" ZONES ":0/energy_uj"));
    mkdir(scratch_path("folder/" ZONES ":0/energy_uj"), 0755);
    struct dt_energy *energy = open_node("folder");
    assert_true(isnan(cpu_joules(energy)));
    assert_string_equal(dt_energy_problem(energy), "RAPL: Is a directory");
    dt_energy_close(energy);
}

static void a_node_without_counters_says_so(void **state)
{
    (void)state;
    struct dt_energy *energy = open_node("nothing");
    assert_true(isnan(cpu_joules(energy)));
    assert_string_equal(dt_energy_problem(energy),
                        "RAPL: no counter on this node");
    dt_energy_close(energy);
}

static void a_counter_that_disappears_is_unknown_from_then_on(void **state)
{
    (void)state;
    zone("gone", ":0", "package-0\n", "100\n");
    struct dt_energy *energy = open_node("gone");
    assert_true(cpu_joules(energy) == 0);
    zone("gone", ":0", "package-0\n", "");
    assert_true(isnan(cpu_joules(energy)));
    zone("gone", ":0", "package-0\n", "200\n");
    assert_true(isnan(cpu_joules(energy)));
    assert_string_equal(dt_energy_problem(energy),
                        "RAPL: its counter cannot be read any more");
    dt_energy_close(energy);
}

/* --- NVML --- */

static struct dt_energy *open_gpu(const char *counter, const char *id,
                                  const char *library)
{
    setenv("FAKE_NVML", counter, 1);
    struct dt_energy *energy =
        dt_energy_open(&(struct dt_energy_options){.gpu = id, .nvml = library});
    assert_non_null(energy);
    return energy;
}

static double gpu_joules(struct dt_energy *energy)
{
    struct dt_energy_reading reading;
    dt_energy_read(energy, &reading);
    assert_true(reading.cpu_j == 0);
    return reading.gpu_j;
}

#define GPU "0000:18:00.0"
#define LIBRARY "./tests/unit/train/fake_nvml.so"

static void the_counter_of_the_gpu_is_read(void **state)
{
    (void)state;
    struct dt_energy *energy = open_gpu("5000000", GPU, LIBRARY);
    assert_true(gpu_joules(energy) == 0);
    setenv("FAKE_NVML", "5001500", 1);
    assert_true(gpu_joules(energy) == 1.5);
    assert_string_equal(dt_energy_problem(energy), "");
    dt_energy_close(energy);
}

/* As when its driver is loaded anew. It may have counted further since than it
 * had at the beginning of the run.
 */
static void a_gpu_counter_that_goes_back_is_unknown_and_said(void **state)
{
    static const char *const later[] = {"10", "5001000"};
    (void)state;
    for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
        struct dt_energy *energy = open_gpu("5000000", GPU, LIBRARY);
        setenv("FAKE_NVML", "5001500", 1);
        assert_true(gpu_joules(energy) == 1.5);
        setenv("FAKE_NVML", later[i], 1);
        assert_true(isnan(gpu_joules(energy)));
        assert_string_equal(dt_energy_problem(energy),
                            "NVML: the GPU's counter failed or was reset");
        dt_energy_close(energy);
    }
}

static void a_gpu_that_does_not_count_is_unknown_and_said(void **state)
{
    static const struct {
        const char *counter, *id, *library, *problem;
    } cases[] = {
        {"none", GPU, LIBRARY, "NVML: this GPU does not count energy"},
        {"no driver", GPU, LIBRARY, "NVML: no driver answers"},
        {"1", "0000:99:00.0", LIBRARY, "NVML: it does not see this GPU"},
        {"1", GPU, "/nonexistent.so", "NVML: there is no libnvidia-ml"},
        {"1", GPU, "libc.so.6", "NVML: its library is too old"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dt_energy *energy =
            open_gpu(cases[i].counter, cases[i].id, cases[i].library);
        assert_true(isnan(gpu_joules(energy)));
        assert_string_equal(dt_energy_problem(energy), cases[i].problem);
        dt_energy_close(energy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packages_and_dram_count_and_their_parts_do_not),
        cmocka_unit_test(without_rights_it_is_unknown_and_said),
        cmocka_unit_test(a_counter_that_cannot_be_read_says_why),
        cmocka_unit_test(a_node_without_counters_says_so),
        cmocka_unit_test(a_counter_that_disappears_is_unknown_from_then_on),
        cmocka_unit_test(the_counter_of_the_gpu_is_read),
        cmocka_unit_test(a_gpu_counter_that_goes_back_is_unknown_and_said),
        cmocka_unit_test(a_gpu_that_does_not_count_is_unknown_and_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
