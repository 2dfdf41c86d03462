/* SPDX-License-Identifier: Apache-2.0 */
/* launcher.c - programs that start ranks by themselves, such as torchrun */
#include "config.h"

#include <string.h>

#include "base/launcher.h"

#define RANKS "starts ranks of its own in every task"

static const struct row {
    const char *name;   /* of the program */
    const char *verb;   /* its next word; NULL: any */
    const char *module; /* after python -m; NULL: none */
    const char *does;
} rows[] = {
    {"torchrun", NULL, "torch.distributed.run", RANKS},
    {"torch.distributed.launch", NULL, "torch.distributed.launch",
     RANKS ", and appends --local-rank, which scripts that know --local_rank "
           "refuse: read LOCAL_RANK"},
    {"accelerate", "launch", "accelerate.commands.launch",
     RANKS ", and its --num_processes is the total of all machines"},
    {"deepspeed", NULL, "deepspeed.launcher.runner",
     RANKS ", and with --num_nodes but no hostfile takes 127.0.0.1 for the "
           "master"},
    {"composer", NULL, "composer.cli.launcher", RANKS},
    {"colossalai", "run", NULL, RANKS},
    {"horovodrun", NULL, "horovod.runner.launch", RANKS},
    {"mpirun", NULL, NULL, RANKS},
    {"mpiexec", NULL, NULL, RANKS},
    {"srun", NULL, NULL, "starts a step of its own in every task"},
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* python, python3, /usr/bin/python3.11 */
static bool is_python(const char *word)
{
    static const char name[] = "python";
    word = base_name(word);
    size_t len = strlen(name);
    return strncmp(word, name, len) == 0 &&
           word[len + strspn(word + len, "0123456789.")] == '\0';
}

static bool is_script(const char *word)
{
    size_t len = strlen(word);
    return len > 3 && strcmp(word + len - 3, ".py") == 0;
}

/* Goes past env and its assignments. */
static size_t skip_env(const char *const *words, size_t count)
{
    size_t i = 0;
    if (count == 0 || strcmp(base_name(words[0]), "env") != 0)
        return 0;
    for (i = 1; i < count && strchr(words[i], '='); i++)
        ;
    return i;
}

/* Goes past python and its options; *module: the word there is that of -m. */
static size_t skip_python(const char *const *words, size_t count, size_t i,
                          bool *module)
{
    *module = false;
    if (i == count || !is_python(words[i]))
        return i;
    for (i++; i < count && words[i][0] == '-' && !*module; i++) {
        *module = strcmp(words[i], "-m") == 0;
        if (strcmp(words[i], "-W") == 0 || strcmp(words[i], "-X") == 0)
            i++;
    }
    return i < count ? i : count;
}

static const struct row *find_row(const char *const *words, size_t count,
                                  size_t i, bool module)
{
    for (size_t r = 0; r < sizeof(rows) / sizeof(*rows); r++) {
        const struct row *row = &rows[r];
        if (module && row->module && strcmp(words[i], row->module) == 0)
            return row;
        if (!module && strcmp(base_name(words[i]), row->name) == 0 &&
            (!row->verb ||
             (i + 1 < count && strcmp(words[i + 1], row->verb) == 0)))
            return row;
    }
    return NULL;
}

/* Options of launchers have values of their own, so only what looks like
 * python's is taken for the program.
 */
static void find_program(const char *const *words, size_t count, size_t i,
                         struct dt_launcher *found)
{
    found->program = count;
    found->python = "";
    for (; i < count && found->program == count; i++) {
        if (is_script(words[i]) || is_python(words[i])) {
            found->program = i;
            found->python = is_script(words[i]) ? "python3 " : "";
        } else if (i + 1 < count && (strcmp(words[i], "-m") == 0 ||
                                     strcmp(words[i], "--module") == 0)) {
            found->program = i + 1;
            found->python = "python3 -m ";
        }
    }
}

bool dt_launcher_find(const char *const *words, size_t count,
                      struct dt_launcher *found)
{
    bool module;
    size_t i = skip_python(words, count, skip_env(words, count), &module);
    const struct row *row =
        i < count ? find_row(words, count, i, module) : NULL;
    if (!row)
        return false;
    found->name = row->name;
    found->does = row->does;
    find_program(words, count, i + 1, found);
    return true;
}
