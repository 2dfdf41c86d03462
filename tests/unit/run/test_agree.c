/* SPDX-License-Identifier: Apache-2.0 */
/* test_agree.c - what ranks compare before they do anything together */
#include "config.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>

#include "run/exchange.h"
#include "base/clock.h"
#include "conf/keys/schema.h"
#include "tests/unit/run_data.h"
#include "tests/unit/world.h"

#ifdef HAVE_GLOO

static struct dt_comm *connect(const struct dt_comm_world *world)
{
    const struct dt_comm_options options = {.interface = "lo",
                                            .timeout_ms = 30000};
    struct dt_error err;
    struct dt_comm *comm = dt_comm_create("gloo", world, &options, &err);
    if (!comm)
        fprintf(stderr, "%s\n", err.text);
    return comm;
}

/* A copy whose values and places can be set; it owns nothing. */
struct copy {
    struct dt_conf conf;
    struct dt_conf_place places[1024];
};

static void copy_conf(struct copy *copy, const struct dt_conf *conf)
{
    copy->conf = *conf;
    assert(dt_conf_key_count <= 1024);
    memcpy(copy->places, conf->place,
           dt_conf_key_count * sizeof(copy->places[0]));
    copy->conf.place = copy->places;
}

/* The value of the first word, or of the first one of another value; the same
 * where there is no other.
 */
static int word(const struct dt_conf_key *key, int which)
{
    const struct dt_conf_word *w = key->words;
    while (which && w->name && (w->value == key->words->value || w->waits))
        w++;
    return (int)(w->name ? w->value : key->words->value);
}

/* Whether the file can give a key two values. */
static bool has_two(const struct dt_conf_key *key)
{
    return key->type != DT_CONF_ENUM || word(key, 0) != word(key, 1);
}

/* Gives a key the first (0) or the second (1) of two values. */
static void give(struct copy *copy, size_t row, int which)
{
    static char *texts[] = {"one", "two"}, *files[] = {"one"};
    static double weights[] = {2, 3};
    static struct dt_conf_reward functions[2] = {
        {.type = DT_CONF_REWARD_EXACT, .name = "exact", .weight = 1},
        {.type = DT_CONF_REWARD_EXACT, .name = "exact", .weight = 2}};
    const struct dt_conf_key *key = &dt_conf_keys[row];
    void *at = (char *)&copy->conf + key->offset;
    copy->places[row].line = 1;
    switch (key->type) {
    case DT_CONF_BOOL:
        *(bool *)at = which;
        break;
    case DT_CONF_SET:
        *(bool *)((char *)&copy->conf + key->words[0].value) = which;
        break;
    case DT_CONF_INT:
    case DT_CONF_SIZE:
    case DT_CONF_COUNT:
    case DT_CONF_INT_OR_WORD:
    case DT_CONF_RANGE:
        *(long *)at = (long)key->min + 1 + which;
        break;
    case DT_CONF_U64:
        *(uint64_t *)at = (uint64_t)which;
        break;
    case DT_CONF_FLOAT:
    case DT_CONF_BETAS:
        *(double *)at = which;
        break;
    case DT_CONF_ENUM:
    case DT_CONF_OLD_OR_WORD:
    case DT_CONF_FILE_OR_WORD:
        *(int *)at = word(key, which);
        break;
    case DT_CONF_BOOL_OR_WORD:
        *(int *)at = which;
        break;
    case DT_CONF_STRING:
    case DT_CONF_FREE:
    case DT_CONF_DIR:
    case DT_CONF_OLD_DIR:
        *(char **)at = texts[which];
        break;
    case DT_CONF_FILES:
    case DT_CONF_STRINGS:
    case DT_CONF_WEIGHTS:
        *(struct dt_conf_list *)at = (struct dt_conf_list){
            .text = key->type == DT_CONF_FILES ? files : texts + which,
            .weight = weights + which,
            .count = 1};
        break;
    case DT_CONF_REWARDS:
        copy->conf.reward = (struct dt_conf_rewards){functions + which, 1};
        break;
    case DT_CONF_IGNORED:
    case DT_CONF_UNUSED:
        break;
    }
}

/* Keys whose value may differ. */
static bool may_differ(enum dt_conf_type type)
{
    return type == DT_CONF_DIR || type == DT_CONF_OLD_DIR ||
           type == DT_CONF_IGNORED || type == DT_CONF_UNUSED;
}

static char *given_text(const struct dt_conf *conf)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    dt_conf_print_given(conf, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* The first line in which the second text is another one. */
static const char *difference(const char *a, const char *b)
{
    const char *line = b;
    for (; *a && *a == *b; a++, b++)
        if (*b == '\n')
            line = b + 1;
    return *a || *b ? line : "";
}

static void every_key_is_in_what_ranks_compare(void **state)
{
    struct dt_conf *conf = load("max_length: 4, train: a.txt", "");
    struct copy copy;
    (void)state;
    for (size_t i = 0; i < dt_conf_key_count; i++) {
        const char *path = dt_conf_keys[i].path;
        bool rewards = dt_conf_keys[i].type == DT_CONF_REWARDS;
        bool differs =
            !may_differ(dt_conf_keys[i].type) && has_two(&dt_conf_keys[i]);
        char *texts[3], line[128];
        copy_conf(&copy, conf);
        copy.places[i].line = 0;
        texts[0] = given_text(&copy.conf);
        for (int n = 0; n < 2; n++) {
            copy_conf(&copy, conf);
            give(&copy, i, n);
            texts[1 + n] = given_text(&copy.conf);
        }
        snprintf(line, sizeof(line), "%s%s: ", path,
                 rewards ? "[0].weight" : "");
        const char *found = difference(texts[1], texts[2]);
        if (strncmp(found, line, differs ? strlen(line) : 1) != 0 &&
            (differs || *found))
            fail_msg("%s: \"%s\"", line, found);
        found = difference(texts[0], texts[1]);
        if (strncmp(found, path, strlen(path)) != 0)
            fail_msg("%s, once: \"%s\"", path, found);
        for (int n = 0; n < 3; n++)
            free(texts[n]);
    }
    dt_conf_destroy(conf);
}

/* Configurations of both ranks, and what rank 0 says. */
struct pair {
    struct dt_conf *conf[2];
    const char *lines[2];
};

static int compare_files(const struct dt_comm_world *world, void *arg)
{
    const struct pair *pair = arg;
    struct dt_comm *comm = connect(world);
    char wanted[512];
    struct dt_error err;
    if (!comm)
        return -1;
    int rc = dt_agree_conf(comm, pair->conf[world->rank], &err);
    snprintf(wanted, sizeof(wanted),
             "%s%s: rank 1 on h1 has read \"%s\", and rank 0 on h0 \"%s\": two "
             "versions of the file; start the run again when all nodes see the "
             "same one",
             world->rank ? "comm/gloo: barrier: rank 0 on h0 failed: " : "",
             pair->conf[0]->file, pair->lines[0], pair->lines[1]);
    dt_comm_abandon(comm, &err);
    if (rc < 0 && strcmp(err.text, wanted) == 0)
        return 0;
    return fprintf(stderr, "expected \"%s\", got \"%s\"\n", wanted, err.text);
}

static void both_versions_of_a_line_are_shown_without_secrets(void **state)
{
    static const char *const cases[][4] = {
        {"checkpoint: {steps: 10}", "checkpoint: {steps: 20}",
         "checkpoint.steps: 20", "checkpoint.steps: 10"},
        {"env: {MY_TOKEN: s3cret}", "env: {MY_TOKEN: another}",
         "env.MY_TOKEN: (removed)", "env.MY_TOKEN: (removed)"},
        {"env: {FIRST: 1, SECOND: 2}", "env: {SECOND: 2}", "env: 1 variables",
         "env: 2 variables"},
    };
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pair pair = {.lines = {cases[i][2], cases[i][3]}};
        for (int rank = 0; rank < 2; rank++)
            pair.conf[rank] =
                load("max_length: 4, train: a.txt", cases[i][rank]);
        world_threads(2, compare_files, &pair);
        for (int rank = 0; rank < 2; rank++)
            dt_conf_destroy(pair.conf[rank]);
    }
}

/* Hosts of three ranks, of which two are on one. */
static const char *host_of(void *ctx, int rank)
{
    static const char *const hosts[] = {"n1", "n2", "n2"};
    (void)ctx;
    return hosts[rank];
}

/* Directories of ranks; what all of them say, NULL: nothing. */
struct place {
    const char *dirs[3];
    const char *wanted;
    int wait_ms;
};

static int look(const struct dt_comm_world *world, void *arg)
{
    const struct place *place = arg;
    struct dt_comm_world here = *world;
    struct dt_error err = {0};
    here.host = host_of;
    struct dt_comm *comm = connect(&here);
    if (!comm)
        return -1;
    int rc = dt_agree_directory(comm, place->dirs[world->rank], place->wait_ms,
                                &err);
    if (rc != (place->wanted ? -1 : 0) ||
        (place->wanted && !strstr(err.text, place->wanted)))
        return fprintf(stderr, "%d, \"%s\"\n", rc, err.text);
    if (rc < 0)
        dt_comm_abandon(comm, &err);
    else
        dt_comm_destroy(comm);
    return 0;
}

static size_t entries_in(const char *path)
{
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, NULL);
    assert_true(n >= 2);
    for (int i = 0; i < n; i++)
        free(entries[i]);
    free(entries);
    return (size_t)n - 2;
}

/* One below, at and above a whole number of the pieces that are sent. */
static int share_bytes(const struct dt_comm_world *world, void *arg)
{
    struct dt_comm *comm = connect(world);
    struct dt_error err;
    (void)arg;
    if (!comm)
        return -1;
    for (size_t bytes = 251; bytes <= 253; bytes++) {
        unsigned char data[256];
        for (size_t i = 0; i < sizeof(data); i++)
            data[i] = world->rank == 1 ? (unsigned char)(0xff - i) : 0x55;
        if (dt_gather_bytes_of(comm, 1, data, bytes, &err) < 0)
            return fprintf(stderr, "%s\n", err.text);
        for (size_t i = 0; i < sizeof(data); i++)
            if (data[i] != (i < bytes || world->rank == 1
                                ? (unsigned char)(0xff - i)
                                : 0x55))
                return fprintf(stderr, "%zu bytes: [%zu]\n", bytes, i);
    }
    dt_comm_destroy(comm);
    return 0;
}

static void all_ranks_get_the_bytes_of_one(void **state)
{
    (void)state;
    world_threads(3, share_bytes, NULL);
}

static void a_directory_of_each_host_is_refused(void **state)
{
    char shared[256], local[256];
    (void)state;
    snprintf(shared, sizeof(shared), "%s", scratch_path("shared"));
    snprintf(local, sizeof(local), "%s", scratch_path("local"));
    mkdir(shared, 0777);
    mkdir(local, 0777);
    struct place own = {{shared, local, local},
                        ": what rank 0 on n1 makes there is not seen on "
                        "n2: each has a directory of its own. All ranks write "
                        "checkpoints, so run.output_dir has to be on a file "
                        "system that all nodes share",
                        50};
    world_threads(3, look, &own);
    struct place same = {{shared, shared, shared}, NULL, 50};
    world_threads(3, look, &same);
    assert_int_equal(entries_in(shared) + entries_in(local), 0);
}

/* The other hosts' view of the directory is late. */
static void *show(void *path)
{
    char *const *paths = path;
    while (entries_in(paths[0]) == 0)
        dt_clock_sleep(0.001);
    dt_clock_sleep(0.05); /* they look in vain first */
    assert_int_equal(symlink(paths[0], paths[1]), 0);
    return NULL;
}

static void a_file_that_caches_show_later_is_waited_for(void **state)
{
    char shared[256], view[256], *paths[] = {shared, view};
    pthread_t thread;
    (void)state;
    snprintf(shared, sizeof(shared), "%s", scratch_path("shared2"));
    snprintf(view, sizeof(view), "%s", scratch_path("view"));
    mkdir(shared, 0777);
    struct place late = {{shared, view, view}, NULL, 60000};
    pthread_create(&thread, NULL, show, paths);
    world_threads(3, look, &late);
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_of_each_host_is_refused),
        cmocka_unit_test(all_ranks_get_the_bytes_of_one),
        cmocka_unit_test(a_file_that_caches_show_later_is_waited_for),
        cmocka_unit_test(every_key_is_in_what_ranks_compare),
        cmocka_unit_test(both_versions_of_a_line_are_shown_without_secrets),
    };
    write_text("a.txt", "abcdefghij");
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    puts("1..0 # SKIP no gloo");
    return 0;
}

#endif
