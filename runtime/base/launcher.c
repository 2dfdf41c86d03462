/* SPDX-License-Identifier: Apache-2.0 */
/* launcher.c - programs that start ranks by themselves, such as torchrun */
#include "config.h"

#include <string.h>

#include "base/launcher.h"
#include "base/str.h"

#define RANKS "starts ranks of its own in every task"

static const struct row {
    const char *name;   /* of the program */
    const char *verb;   /* its next word; NULL: any */
    const char *module; /* after python -m; NULL: none */
    const char *does;
    const char *also;
    bool mpi; /* its name may end in .openmpi or the like */
} rows[] = {
    {"torchrun", NULL, "torch.distributed.run", RANKS, "", false},
    {"torch.distributed.launch", NULL, "torch.distributed.launch", RANKS,
     ", and appends --local-rank, which scripts that know --local_rank "
     "refuse: read LOCAL_RANK",
     false},
    {"accelerate", "launch", "accelerate.commands.launch", RANKS,
     ", and its --num_processes is the total of all machines", false},
    {"accelerate-launch", NULL, NULL, RANKS,
     ", and its --num_processes is the total of all machines", false},
    {"deepspeed", NULL, "deepspeed.launcher.runner", RANKS,
     ", and with --num_nodes but no hostfile takes 127.0.0.1 for the master",
     false},
    {"composer", NULL, "composer.cli.launcher", RANKS, "", false},
    {"colossalai", "run", NULL, RANKS, "", false},
    {"horovodrun", NULL, "horovod.runner.launch", RANKS, "", false},
    {"mpirun", NULL, NULL, RANKS, "", true},
    {"mpiexec", NULL, NULL, RANKS, "", true},
    {"orterun", NULL, NULL, RANKS, "", true},
    {"prterun", NULL, NULL, RANKS, "", true},
    {"srun", NULL, NULL, "starts a step of its own in every task", "", false},
};

/* Programs that become another one. */
static const struct wrapper {
    const char *name;
    const char *verb;   /* its next word; NULL: none */
    const char *values; /* short options whose value may be the next word */
} wrappers[] = {
    {"env", NULL, "uC"},
    {"nice", NULL, "n"},
    {"nohup", NULL, ""},
    {"uv", "run", "p"},
};

/* python, python3, /usr/bin/python3.11 */
static bool is_python(const char *word)
{
    const char *version = dt_str_after(dt_str_base_name(word), "python");
    return version && version[strspn(version, "0123456789.")] == '\0';
}

static bool is_script(const char *word)
{
    size_t len = strlen(word);
    return len > 3 && strcmp(word + len - 3, ".py") == 0;
}

static const struct wrapper *find_wrapper(const char *const *words,
                                          size_t count)
{
    for (size_t i = 0; i < sizeof(wrappers) / sizeof(*wrappers); i++) {
        const char *verb = wrappers[i].verb;
        if (strcmp(dt_str_base_name(words[0]), wrappers[i].name) == 0 &&
            (!verb || (count > 1 && strcmp(words[1], verb) == 0)))
            return &wrappers[i];
    }
    return NULL;
}

/* Goes past programs such as env, with their options and assignments. */
static size_t skip_wrappers(const char *const *words, size_t count)
{
    const struct wrapper *wrapper;
    size_t i = 0;
    while (i < count && (wrapper = find_wrapper(words + i, count - i))) {
        i += wrapper->verb ? 2 : 1;
        for (; i < count && (words[i][0] == '-' || strchr(words[i], '=')); i++)
            if (words[i][0] == '-' && words[i][1] && !words[i][2] &&
                strchr(wrapper->values, words[i][1]))
                i++;
    }
    return i < count ? i : count;
}

/* Goes past python and its options to the program, or to the word that -m is
 * in. Returns the name of the module there, or NULL.
 */
static const char *skip_python(const char *const *words, size_t count,
                               size_t *i)
{
    if (*i == count || !is_python(words[*i]))
        return NULL;
    for (++*i; *i < count && words[*i][0] == '-'; ++*i) {
        const char *word = words[*i];
        const char *letter = word + strcspn(word, "mcWX");
        bool last = letter[0] != '\0' && letter[1] == '\0';
        if (word[1] == '-' || *letter == '\0')
            continue;
        *i += last;
        if (*letter == 'm' && *i < count)
            return last ? words[*i] : letter + 1;
        if (*letter == 'c')
            *i = count; /* no program */
        if (*i >= count)
            break;
    }
    *i = *i < count ? *i : count;
    return NULL;
}

/* Whether the word is the program's name, or that of one build of it. */
static bool is_named(const char *word, const struct row *row)
{
    size_t len = strlen(row->name);
    word = dt_str_base_name(word);
    return strncmp(word, row->name, len) == 0 &&
           (word[len] == '\0' || (row->mpi && word[len] == '.'));
}

static const struct row *find_row(const char *const *words, size_t count,
                                  size_t i, const char *module)
{
    for (size_t r = 0; r < sizeof(rows) / sizeof(*rows); r++) {
        const struct row *row = &rows[r];
        if (module && row->module && strcmp(module, row->module) == 0)
            return row;
        if (!module && is_named(words[i], row) &&
            (!row->verb ||
             (i + 1 < count && strcmp(words[i + 1], row->verb) == 0)))
            return row;
    }
    return NULL;
}

/* Options of launchers have values of their own, so only a word that looks like
 * python's, or has a path and cannot be a value, is taken for the program.
 */
static void find_program(const char *const *words, size_t count, size_t i,
                         struct dt_launcher *found)
{
    found->program = count;
    found->python = "";
    for (size_t first = i; i < count && found->program == count; i++) {
        bool is_path = strncmp(words[i], "./", 2) == 0 || words[i][0] == '/';
        if (is_script(words[i]) || is_python(words[i])) {
            found->program = i;
            found->python = is_script(words[i]) ? "python3 " : "";
        } else if (i + 1 < count && (strcmp(words[i], "-m") == 0 ||
                                     strcmp(words[i], "--module") == 0)) {
            found->program = i + 1;
            found->python = "python3 -m ";
        } else if (found->mpi && is_path &&
                   (i == first || words[i - 1][0] != '-')) {
            found->program = i;
        }
    }
}

bool dt_launcher_find(const char *const *words, size_t count,
                      struct dt_launcher *found)
{
    size_t first = skip_wrappers(words, count);
    size_t i = first;
    const char *module = skip_python(words, count, &i);
    const struct row *row =
        i < count ? find_row(words, count, i, module) : NULL;
    if (!row)
        return false;
    *found = (struct dt_launcher){.name = row->name,
                                  .does = row->does,
                                  .also = row->also,
                                  .mpi = row->mpi,
                                  .first = first};
    find_program(words, count, i + 1, found);
    return true;
}
