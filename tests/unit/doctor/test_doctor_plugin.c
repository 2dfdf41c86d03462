/* SPDX-License-Identifier: Apache-2.0 */
/* test_doctor_plugin.c - every reason for which srun lacks --disttrain */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "doctor/doctor_impl.h"
#include "tests/unit/scratch.h"

enum { NOBODY = 65534 };

static char text[8192];

/* Writes a file from a string. */
static void put(const char *name, const char *content)
{
    scratch_write(name, content, strlen(content));
}

/* A shared object as far as its first bytes go, with our words in it. */
static void put_plugin(const char *name, const char *words)
{
    char bytes[512] = {0};
    FILE *self = fopen("/proc/self/exe", "rb");
    assert_non_null(self);
    assert_int_equal(fread(bytes, 1, 64, self), 64);
    fclose(self);
    snprintf(bytes + 100, sizeof(bytes) - 100, "%s", words);
    scratch_write(name, bytes, sizeof(bytes));
}

static void put_good_plugin(const char *name, const char *slurm)
{
    char words[400];
    snprintf(words, sizeof(words),
             "disttrain-spank " PACKAGE_VERSION " for Slurm %s %s", slurm,
             scratch_path("disttrain"));
    put_plugin(name, words);
}

/* A cluster in which everything is right. */
static int setup(void **state)
{
    (void)state;
    unlink(scratch_path("other.conf"));
    unlink(scratch_path("spank_disttrain.so"));
    put("slurm.conf", "ClusterName=c\n");
    put("plugstack.conf", "# ours\nrequired spank_disttrain.so\n");
    put_good_plugin("spank_disttrain.so", "0x160508");
    put("disttrain", "#!/bin/sh\necho " PACKAGE_STRING "\n");
    return chmod(scratch_path("disttrain"), 0755);
}

static bool check_with(struct dt_doctor_slurm slurm)
{
    FILE *out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    bool good = dt_doctor_check_plugin(&slurm, out);
    fclose(out);
    return good;
}

static bool check(bool shows)
{
    char conf[512];
    char dirs[512];
    snprintf(conf, sizeof(conf), "%s", scratch_path("slurm.conf"));
    snprintf(dirs, sizeof(dirs), "/nowhere:%s", scratch_path(""));
    dirs[strlen(dirs) - 1] = '\0';
    return check_with((struct dt_doctor_slurm){.conf = conf,
                                               .plugin_dir = dirs,
                                               .version = "22.05.2",
                                               .helps = true,
                                               .shows = shows});
}

/* The scratch directory's name in text becomes "DIR". */
static void expect(const char *want)
{
    char shown[8192] = "";
    char dir[512];
    snprintf(dir, sizeof(dir), "%s", scratch_path(""));
    dir[strlen(dir) - 1] = '\0';
    const char *rest = text;
    for (const char *at; (at = strstr(rest, dir)) != NULL;) {
        strncat(shown, rest, (size_t)(at - rest));
        strcat(shown, "DIR");
        rest = at + strlen(dir);
    }
    strcat(shown, rest);
    if (!strstr(shown, want))
        fail_msg("expected:\n%s\nin:\n%s", want, shown);
}

static void expect_wrong(const char *want)
{
    assert_false(check(false));
    expect(want);
    expect("\nverdict: srun does not show --disttrain, because of what is "
           "wrong above\n");
}

static void a_correct_installation_passes_all_checks(void **state)
{
    (void)state;
    assert_true(check(true));
    expect("ok: DIR/slurm.conf\n"
           "ok: DIR/plugstack.conf:2: spank_disttrain.so\n"
           "ok: DIR/spank_disttrain.so is for Slurm 22.05\n"
           "ok: the program DIR/disttrain is " PACKAGE_STRING "\n"
           "ok: srun --help works, and has --disttrain\n"
           "verdict: srun shows --disttrain\n");
    assert_false(check(false));
    expect("verdict: srun does not show --disttrain, for an unknown reason: "
           "run srun -vvv --help\n");
}

static void included_plugstack_files_are_followed(void **state)
{
    (void)state;
    put("slurm.conf", " plugstackconfig = other.conf # relative: not allowed\n"
                      "PlugStackConfig=ignored\n");
    expect_wrong("wrong: other.conf: ");
    char line[600];
    snprintf(line, sizeof(line), "PlugStackConfig=%s\n",
             scratch_path("other.conf"));
    put("slurm.conf", line);
    put("other.conf", "include plugstack.co*\n  include none.d/*.conf\n");
    assert_true(check(true));
    expect("ok: DIR/plugstack.conf:2: spank_disttrain.so\n");
    expect("warning: DIR/other.conf:2: no file matches include "
           "DIR/none.d/*.conf\n");
    put("plugstack.conf", "include plugstack.conf\n");
    expect_wrong(
        "wrong: DIR/plugstack.conf:1: include plugstack.conf is nested "
        "too deeply or too long\n");
}

static void a_plugstack_without_the_plugin_is_reported(void **state)
{
    (void)state;
    put("plugstack.conf", "required other.so\n");
    expect_wrong("wrong: no line of DIR/plugstack.conf, or of what it "
                 "includes, names spank_disttrain.so: add \"required "
                 "spank_disttrain.so\"\n");
    put("plugstack.conf", "spank_disttrain.so\n");
    expect_wrong("wrong: DIR/plugstack.conf:1: expected \"required FILE\", "
                 "\"optional FILE\" or \"include FILES\"\n");
    unlink(scratch_path("plugstack.conf"));
    expect_wrong("wrong: DIR/plugstack.conf: ");
    expect("note: it should have the line \"required spank_disttrain.so\", or "
           "include a file that has\n");
}

static void plugins_in_the_wrong_order_are_reported(void **state)
{
    (void)state;
    put("plugstack.conf", "optional /x/spank_pyxis.so\n"
                          "required spank_disttrain.so\n");
    assert_true(check(true));
    assert_null(strstr(text, "warning"));
    put("plugstack.conf", "required spank_disttrain.so\n"
                          "optional /x/spank_pyxis.so a=b\n"
                          "optional /y/spank_disttrain.so\n");
    assert_true(check(true));
    expect("warning: DIR/plugstack.conf:2: /x/spank_pyxis.so comes after "
           "ours and will replace the variables of the tasks: move our line, "
           "DIR/plugstack.conf:1, after it\n");
    expect("warning: DIR/plugstack.conf:3: the plugin is loaded a second "
           "time: remove the line\n");
}

static void a_missing_or_damaged_plugin_is_reported(void **state)
{
    (void)state;
    unlink(scratch_path("spank_disttrain.so"));
    expect_wrong("wrong: spank_disttrain.so is not in "
                 "PluginDir=/nowhere:DIR: install it there, or write its "
                 "full path into DIR/plugstack.conf:2\n");
    put("plugstack.conf", "required /nowhere/spank_disttrain.so\n");
    expect_wrong("wrong: /nowhere/spank_disttrain.so: No such file or "
                 "directory: install the plugin there, on this host too\n");
    setup(NULL);
    put("spank_disttrain.so", "text");
    expect_wrong("wrong: DIR/spank_disttrain.so is not a shared object for "
                 "this machine: install the one of this architecture\n");
    put_plugin("spank_disttrain.so", "something else");
    expect_wrong("wrong: DIR/spank_disttrain.so is not disttrain's plugin, or "
                 "damaged: install it again\n");
}

static void an_unreadable_plugin_is_reported(void **state)
{
    uid_t self = geteuid();
    (void)state;
    chmod(scratch_path("spank_disttrain.so"), 0);
    if (self == 0) { /* root may read everything, and nobody may not */
        chmod(scratch_root, 0755);
        assert_int_equal(setresuid(NOBODY, NOBODY, 0), 0);
    }
    expect_wrong("wrong: DIR/spank_disttrain.so: Permission denied: chmod a+r, "
                 "and a+x for its folders\n");
    assert_int_equal(setresuid(self, self, self), 0);
}

static void a_plugin_of_another_release_is_reported(void **state)
{
    (void)state;
    put_good_plugin("spank_disttrain.so", "0x170b03");
    expect_wrong("wrong: DIR/spank_disttrain.so was built for Slurm 23.11, and "
                 "this is 22.05.2: build it again with the headers of this "
                 "release\n");
    put_plugin("spank_disttrain.so",
               "disttrain-spank 9.9.9 for Slurm 0x160501 /bin/true");
    expect_wrong("wrong: DIR/spank_disttrain.so is of disttrain 9.9.9, and "
                 "this program of " PACKAGE_VERSION
                 ": install the same release of both\n");
}

static void an_unusable_runtime_program_is_reported(void **state)
{
    (void)state;
    put("plugstack.conf",
        "required spank_disttrain.so allow_runtime=/a runtime=/gone\n");
    expect_wrong("wrong: the program /gone: No such file or directory: install "
                 "it there, or set runtime=PATH in DIR/plugstack.conf:1\n");
    put("disttrain", "#!/bin/sh\necho disttrain 9.9.9\n");
    put("plugstack.conf", "required spank_disttrain.so\n");
    expect_wrong("wrong: the program DIR/disttrain is \"disttrain 9.9.9\", and "
                 "this one \"" PACKAGE_STRING "\": install the same release of "
                 "both\n");
    put("disttrain", "#!/bin/sh\nexit 1\n");
    expect_wrong("wrong: DIR/disttrain --version: it fails\n");
}

static void a_host_without_slurm_is_reported(void **state)
{
    (void)state;
    assert_false(check_with((struct dt_doctor_slurm){.version = NULL}));
    expect("wrong: no slurm.conf here, in SLURM_CONF or the usual places: is "
           "this host part of the cluster?\n"
           "wrong: srun --help fails: run it to see why\n");
    char conf[512];
    snprintf(conf, sizeof(conf), "%s", scratch_path("slurm.conf"));
    assert_false(check_with((struct dt_doctor_slurm){.conf = conf}));
    expect("wrong: spank_disttrain.so: PluginDir is unknown: does scontrol "
           "show config work here?\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_correct_installation_passes_all_checks, setup),
        cmocka_unit_test_setup(included_plugstack_files_are_followed, setup),
        cmocka_unit_test_setup(a_plugstack_without_the_plugin_is_reported,
                               setup),
        cmocka_unit_test_setup(plugins_in_the_wrong_order_are_reported, setup),
        cmocka_unit_test_setup(a_missing_or_damaged_plugin_is_reported, setup),
        cmocka_unit_test_setup(an_unreadable_plugin_is_reported, setup),
        cmocka_unit_test_setup(a_plugin_of_another_release_is_reported, setup),
        cmocka_unit_test_setup(an_unusable_runtime_program_is_reported, setup),
        cmocka_unit_test_setup(a_host_without_slurm_is_reported, setup),
    };
    return cmocka_run_group_tests_name("doctor_plugin", tests, NULL, NULL);
}
