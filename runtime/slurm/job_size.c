/* SPDX-License-Identifier: Apache-2.0 */
/* job_size.c - how large a job is or is going to be, and how many ranks it has
 */
#include "config.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "slurm/slurm_impl.h"

/* --- the job of this process --- */

/* Returns the smallest number in a variable such as "16(x2),8"; 0 if it is not
 * set or has no number.
 */
static long smallest_number(const char *name)
{
    const char *text = getenv(name);
    long smallest = 0;
    while (text && *text) {
        long number = strtol(text, NULL, 10);
        if (number > 0 && (smallest == 0 || number < smallest))
            smallest = number;
        text += strcspn(text, ",");
        text += *text == ',';
    }
    return smallest;
}

/* Counts GPUs in "4", "a100:4" or "a100:2,h100:2"; a type alone is one. NULL
 * has none.
 */
static long count_gpus(const char *text)
{
    long count = 0;
    while (text && *text) {
        size_t len = strcspn(text, ",");
        const char *colon = memrchr(text, ':', len);
        const char *number = colon ? colon + 1 : text;
        count += isdigit((unsigned char)*number) ? strtol(number, NULL, 10) : 1;
        text += len + (text[len] == ',');
    }
    return count;
}

void dt_slurm_size_read(struct dt_slurm_size *size)
{
    const char *partition = getenv("SLURM_JOB_PARTITION");
    long gpus = count_gpus(getenv("SLURM_GPUS_PER_NODE"));
    *size = (struct dt_slurm_size){
        .nodes = smallest_number("SLURM_JOB_NUM_NODES"),
        .ranks = smallest_number("SLURM_NTASKS"),
        .ranks_per_node = smallest_number("SLURM_NTASKS_PER_NODE"),
        .cpus_per_rank = smallest_number("SLURM_CPUS_PER_TASK"),
        .cpus_per_node = smallest_number("SLURM_JOB_CPUS_PER_NODE"),
        .gpus_per_node = gpus ? gpus : smallest_number("SLURM_GPUS_ON_NODE"),
        .partition = partition ? strdup(partition) : NULL,
    };
}

void dt_slurm_size_fini(struct dt_slurm_size *size)
{
    free(size->partition);
    size->partition = NULL;
}

/* --- requests --- */

enum { WORDS_MAX = 1024 };

/* Short options without a value, or with an optional one in the same word;
 * every other takes the rest of the word or the next word.
 */
#define ALONE "hHOQsuvVW" /* of sbatch and salloc */
#define ALONE_SRUN "EHOQVXZhlsuv"
#define SAME_WORD "IkK"

enum option {
    NODES,
    NODELIST,
    NODEFILE,
    NTASKS,
    NTASKS_PER_NODE,
    NTASKS_PER_GPU,
    CPUS_PER_TASK,
    CPUS_PER_GPU,
    TRES_PER_TASK,
    GPUS,
    GPUS_PER_NODE,
    GPUS_PER_TASK,
    GPUS_PER_SOCKET,
    GRES,
    EXCLUSIVE,
    PARTITION,
    ARRAY,
    OPTIONS,
};

static const struct {
    const char *name;
    char letter;
    bool same_word;       /* the value is optional, and not the next word */
    const char *variable; /* after SBATCH_ or SALLOC_; NULL: none */
} options[OPTIONS] = {
    [NODES] = {"nodes", 'N', false, NULL},
    [NODELIST] = {"nodelist", 'w', false, NULL},
    [NODEFILE] = {"nodefile", 'F', false, NULL},
    [NTASKS] = {"ntasks", 'n', false, NULL},
    [NTASKS_PER_NODE] = {"ntasks-per-node", 0, false, NULL},
    [NTASKS_PER_GPU] = {"ntasks-per-gpu", 0, false, "NTASKS_PER_GPU"},
    [CPUS_PER_TASK] = {"cpus-per-task", 'c', false, NULL},
    [CPUS_PER_GPU] = {"cpus-per-gpu", 0, false, "CPUS_PER_GPU"},
    [TRES_PER_TASK] = {"tres-per-task", 0, false, "TRES_PER_TASK"},
    [GPUS] = {"gpus", 'G', false, "GPUS"},
    [GPUS_PER_NODE] = {"gpus-per-node", 0, false, "GPUS_PER_NODE"},
    [GPUS_PER_TASK] = {"gpus-per-task", 0, false, "GPUS_PER_TASK"},
    [GPUS_PER_SOCKET] = {"gpus-per-socket", 0, false, "GPUS_PER_SOCKET"},
    [GRES] = {"gres", 0, false, "GRES"},
    [EXCLUSIVE] = {"exclusive", 0, true, "EXCLUSIVE"},
    [PARTITION] = {"partition", 'p', false, "PARTITION"},
    [ARRAY] = {"array", 'a', false, "ARRAY_INX"},
};

/* Returns the option that `--name`, of `len` characters, stands for: by its
 * name or, as for getopt_long, its beginning; OPTIONS if it is another one.
 * Slurm refuses a word that could be several options.
 */
static enum option find_long(const char *name, size_t len)
{
    enum option found = OPTIONS;
    for (int i = 0; i < OPTIONS; i++) {
        if (len < 3 || strncmp(name, options[i].name, len) != 0)
            continue;
        if (options[i].name[len] == '\0')
            return (enum option)i;
        found = (enum option)i;
    }
    return found;
}

static enum option find_short(char letter)
{
    int i = 0;
    while (i < OPTIONS && options[i].letter != letter)
        i++;
    return (enum option)i;
}

/* Keeps the values of the options among the words; later ones replace earlier
 * ones. A value belongs to the words. `alone` has short options without a
 * value.
 */
static void read_words(char *const *word, int count, const char *alone,
                       const char **value)
{
    for (int i = 0; i < count; i++) {
        enum option option;
        const char *text;
        bool next = false;
        if (word[i][0] != '-' || word[i][1] == '\0')
            continue;
        if (word[i][1] == '-') {
            size_t len = strcspn(word[i] + 2, "=");
            text = word[i][2 + len] ? word[i] + 3 + len : "";
            option = find_long(word[i] + 2, len);
            next = option < OPTIONS && word[i][2 + len] == '\0' &&
                   !options[option].same_word;
        } else {
            text = word[i] + 1 + strspn(word[i] + 1, alone);
            option = *text ? find_short(*text) : OPTIONS;
            next = *text && !strchr(SAME_WORD, *text) && text[1] == '\0';
            text += *text != '\0';
        }
        if (next && ++i == count)
            break;
        if (option < OPTIONS)
            value[option] = next ? word[i] : text;
    }
}

static void read_variables(const char *prefix, const char **value)
{
    char name[64];
    for (int i = 0; i < OPTIONS; i++) {
        if (!options[i].variable)
            continue;
        snprintf(name, sizeof(name), "%s%s", prefix, options[i].variable);
        if (getenv(name))
            value[i] = getenv(name);
    }
}

/* Opens a regular file: sbatch has read its script already, and a pipe would be
 * empty now. NULL: it is none.
 */
static FILE *open_regular(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return fdopen(fd, "r");
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* sbatch looks for a script in the current directory, then in PATH. */
static FILE *open_script(const char *script)
{
    const char *dir = getenv("PATH");
    char path[PATH_MAX];
    FILE *file = open_regular(script);
    while (!file && dir && !strchr(script, '/')) {
        size_t len = strcspn(dir, ":");
        snprintf(path, sizeof(path), "%.*s/%s", (int)len, dir, script);
        file = len > 0 ? open_regular(path) : NULL;
        dir = dir[len] ? dir + len + 1 : NULL;
    }
    return file;
}

/* Takes the next word of a line, as sbatch does: quotes and backslashes count,
 * and a # begins a comment. Returns the rest of the line; NULL: no more words.
 */
static char *next_word(char *line, char **word)
{
    char *to, quote = '\0';
    while (isspace((unsigned char)*line))
        line++;
    if (*line == '\0' || *line == '#')
        return NULL;
    for (*word = to = line; *line; line++) {
        if (*line == '\\' && line[1])
            *to++ = *++line;
        else if (quote ? *line == quote : strchr("'\"", *line) != NULL)
            quote = quote ? '\0' : *line;
        else if (!quote && (isspace((unsigned char)*line) || *line == '#'))
            break;
        else
            *to++ = *line;
    }
    char *rest = line + (isspace((unsigned char)*line) ? 1 : strlen(line));
    *to = '\0';
    return rest;
}

/* Reads the words of the #SBATCH lines, which end at the first command. The
 * caller frees each word. Returns their number; -1: the script cannot be read.
 */
static int read_script(const char *path, char **word)
{
    static const char magic[] = "#SBATCH";
    char *line = NULL;
    size_t size = 0;
    int count = 0;
    FILE *script = open_script(path);
    if (!script)
        return -1;
    while (getline(&line, &size, script) >= 0) {
        char *next, *rest = line + strlen(magic);
        char first = line[strspn(line, " \t\r\n\v\f")];
        if (first != '#' && first != '\0')
            break;
        if (strncmp(line, magic, strlen(magic)) != 0)
            continue;
        while (count < WORDS_MAX && (rest = next_word(rest, &next)))
            if ((word[count] = strdup(next)))
                count++;
    }
    free(line);
    fclose(script);
    return count;
}

/* Returns the number of a text that is one, or a range of one; otherwise 0. */
static long one_number(const char *text)
{
    char *end;
    long number = text ? strtol(text, &end, 10) : 0;
    if (text && *end == '-' && strtol(end + 1, &end, 10) != number)
        return 0;
    return text && *end == '\0' && number > 0 ? number : 0;
}

/* Counts GPUs in a list of resources, such as "gpu:a100:4,tmp:5G". */
static long count_gres(const char *text)
{
    long count = 0;
    for (size_t len; text && *text; text += len + (text[len] == ',')) {
        char entry[256];
        len = strcspn(text, ",");
        snprintf(entry, sizeof(entry), "%.*s", (int)len, text);
        const char *item = strncmp(entry, "gres/", 5) ? entry : entry + 5;
        if (strncmp(item, "gpu", 3) != 0 || !strchr(":=", item[3]))
            continue; /* strchr finds the end as well */
        count += item[3] ? count_gpus(item + 4) : 1;
    }
    return count;
}

/* Returns the number of hosts in the text after a "[", such as "2-4,7]", and
 * goes to the "]"; 0: it cannot be told.
 */
static long count_range(const char **list)
{
    const char *at = *list;
    long count = 0;
    do {
        char *end;
        long first = strtol(at, &end, 10);
        long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        if (end == at || last < first || last - first > INT_MAX)
            return 0;
        count += last - first + 1;
        at = end;
    } while (*at++ == ',');
    *list = at - 1;
    return **list == ']' ? count : 0;
}

/* Returns the number of hosts in "n1,n[2-4,7]"; 0: it cannot be told. */
static long count_hosts(const char *list)
{
    long count = 0, hosts = 1;
    for (; list && *list && hosts > 0; list++) {
        if (strchr("/ \n", *list))
            return 0; /* a file, or a form that is not known */
        if (*list == ',') {
            count += hosts;
            hosts = 1;
        } else if (*list == '[') {
            list++;
            hosts *= count_range(&list);
        }
    }
    return list && hosts > 0 && hosts < INT_MAX ? count + hosts : 0;
}

/* Notes the sizes that nothing asks for. */
static void find_open(const char *const *value, struct dt_slurm_size *size)
{
    bool shares = !value[EXCLUSIVE] || value[EXCLUSIVE][0] != '\0';
    size->any_nodes = !value[NODES] && size->nodes == 0;
    if (size->any_nodes &&
        (size->ranks == 1 ||
         (!value[NTASKS] && !value[GPUS] && !value[NODEFILE]))) {
        size->one_node = !value[NODELIST];
        size->any_nodes = !size->one_node;
    }
    size->no_ranks = shares && !value[NTASKS] && !value[NTASKS_PER_NODE] &&
                     !value[NTASKS_PER_GPU];
    size->no_cpus = shares && !value[CPUS_PER_TASK] && !value[CPUS_PER_GPU] &&
                    !value[TRES_PER_TASK];
    size->no_gpus = shares && size->gpus == 0 && size->gpus_per_node == 0 &&
                    !value[GPUS_PER_TASK] && !value[GPUS_PER_SOCKET] &&
                    !value[TRES_PER_TASK];
}

/* Whether something is asked of ranks that is not their number. */
static bool is_unclear(const char *const *value,
                       const struct dt_slurm_size *size)
{
    return (value[NTASKS] && size->ranks == 0) ||
           (value[NTASKS_PER_NODE] && size->ranks_per_node == 0) ||
           value[NTASKS_PER_GPU];
}

/* Whether a list of indexes has several whose jobs may run at once: not 3, and
 * not 0-3%1.
 */
static bool run_together(const char *indexes)
{
    const char *limit = indexes ? strchr(indexes, '%') : NULL;
    return indexes && strpbrk(indexes, ",-") &&
           !(limit && strtol(limit + 1, NULL, 10) == 1);
}

static void fill_size(const char *const *value, struct dt_slurm_size *size)
{
    size->nodes =
        value[NODES] ? one_number(value[NODES]) : count_hosts(value[NODELIST]);
    size->ranks = one_number(value[NTASKS]);
    size->ranks_per_node = one_number(value[NTASKS_PER_NODE]);
    size->cpus_per_rank = one_number(value[CPUS_PER_TASK]);
    size->gpus = count_gpus(value[GPUS]);
    size->gpus_per_node = value[GPUS_PER_NODE]
                              ? count_gpus(value[GPUS_PER_NODE])
                              : count_gres(value[GRES]);
    size->unclear_ranks = is_unclear(value, size);
    size->array = value[ARRAY] != NULL;
    size->array_together = run_together(value[ARRAY]);
    if (value[PARTITION])
        size->partition = strdup(value[PARTITION]);
}

/* Whether the words are those of one component of a job. */
static bool is_one_component(char *const *word, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(word[i], ":") == 0 || strcmp(word[i], "hetjob") == 0 ||
            strcmp(word[i], "packjob") == 0)
            return false;
    return true;
}

bool dt_request_read_step(const struct dt_srun_words *words,
                          struct dt_slurm_size *size)
{
    const char *value[OPTIONS] = {NULL};
    *size = (struct dt_slurm_size){0};
    read_variables("SLURM_", value);
    read_words(words->word, words->count, ALONE_SRUN, value);
    fill_size(value, size);
    return is_one_component(words->word, words->count) &&
           !dt_srun_has(words, "jobid", '\0') &&
           (size->ranks > 0 ||
            (!size->unclear_ranks && !value[NODEFILE] &&
             (value[NODES] ? size->nodes > 0 : !value[NODELIST])));
}

bool dt_request_read(const char *script, const struct dt_srun_words *words,
                     struct dt_slurm_size *size)
{
    char *word[WORDS_MAX];
    const char *value[OPTIONS] = {NULL};
    bool wraps = dt_srun_has(words, "wrap", '\0');
    int read = script[0] ? read_script(script, word) : 0;
    int count = read > 0 ? read : 0;
    bool one = is_one_component(words->word, words->count) &&
               is_one_component(word, count);
    *size = (struct dt_slurm_size){0};
    read_words(word, count, ALONE, value);
    read_variables(script[0] || wraps ? "SBATCH_" : "SALLOC_", value);
    read_words(words->word, words->count, ALONE, value);
    if (one)
        fill_size(value, size);
    if (one && read >= 0)
        find_open(value, size);
    while (count > 0)
        free(word[--count]);
    return one;
}

/* --- keepers --- */

bool dt_job_is_kept(const struct dt_conf *conf)
{
    return conf->launch.keeper == DT_CONF_KEEPER_ON ||
           (conf->launch.keeper == DT_CONF_KEEPER_AUTO && conf->trains &&
            conf->launch.command.count == 0);
}

bool dt_job_outlives(const struct dt_conf *conf)
{
    return dt_job_is_kept(conf) &&
           (conf->launch.spares > 0 || conf->launch.min_ranks > 0);
}

/* A busy host needs seconds to answer. Where an error costs a restart only, it
 * has fewer of them, unless the user wants otherwise.
 */
double dt_job_outage(const struct dt_conf *conf, bool outlives)
{
    const double least = outlives ? 5 : 15;
    if (!conf || !dt_conf_given(conf, "distributed.outage_s"))
        return least;
    return fmax(least, (double)conf->distributed.outage_s);
}

/* --- ranks --- */

/* The first number that is known; 1: none is. */
static long first_of(long a, long b, long c)
{
    return a > 0 ? a : b > 0 ? b : c > 0 ? c : 1;
}

long dt_world_launch(const struct dt_conf *conf)
{
    long nodes = conf->launch.nodes, each = conf->launch.ntasks_per_node;
    return nodes + each > 0 ? first_of(nodes, 0, 0) * first_of(each, 0, 0) : 0;
}

/* Ranks of a step or job that has spares, which have none. */
static long without_spares(long ranks, long spares, long each)
{
    return ranks > spares * each ? ranks - spares * each : ranks;
}

/* Which of its variables and words srun prefers depends on the release where
 * both name a number: SLURM_NTASKS of a job and --nodes.
 */
long dt_world_srun(const struct dt_conf *conf,
                   const struct dt_srun_words *words)
{
    struct dt_slurm_size asked, has;
    const long spares = dt_job_outlives(conf) ? conf->launch.spares : 0;
    bool known = dt_request_read_step(words, &asked);
    dt_slurm_size_read(&has);
    const long nodes =
        first_of(asked.nodes, has.nodes, conf->launch.nodes + spares);
    long each = first_of(asked.ranks_per_node, has.ranks_per_node,
                         conf->launch.ntasks_per_node);
    long ranks = known ? nodes * each : 0;
    if (known && asked.ranks > 0)
        ranks = asked.ranks;
    else if (known && has.ranks > 0)
        ranks = asked.nodes + asked.ranks_per_node > 0 ? 0 : has.ranks;
    each = ranks % nodes == 0 ? ranks / nodes : each;
    dt_slurm_size_fini(&asked);
    dt_slurm_size_fini(&has);
    return without_spares(ranks, spares, each);
}

long dt_world_job(const struct dt_conf *conf, const struct dt_slurm_size *size)
{
    const long spares = conf->launch.spares, ranks = size->ranks;
    const long nodes = size->one_node ? 1 : size->nodes;
    long each = size->ranks_per_node ? size->ranks_per_node
                                     : conf->launch.ntasks_per_node;
    if (ranks == 0)
        return size->unclear_ranks ? 0
                                   : without_spares(nodes * each, spares, each);
    const long on = nodes > 0 ? nodes : conf->launch.nodes + spares;
    if (on > 0 && ranks % on == 0)
        each = ranks / on;
    return without_spares(ranks, spares, each);
}

long dt_world_script(const struct dt_conf *conf,
                     const struct dt_srun_words *extra)
{
    struct dt_slurm_size asked;
    long ranks = 0, nodes = conf->launch.nodes;
    long each = conf->launch.ntasks_per_node;
    bool known = dt_request_read_step(extra, &asked);
    if (asked.nodes > conf->launch.spares)
        asked.nodes -= conf->launch.spares;
    if (known && asked.ranks > 0)
        ranks = asked.ranks;
    else if (known && asked.nodes + asked.ranks_per_node + nodes + each > 0)
        ranks = first_of(asked.nodes, nodes, 0) *
                first_of(asked.ranks_per_node, each, 0);
    dt_slurm_size_fini(&asked);
    return ranks;
}

long dt_world_batch(const struct dt_conf *conf, long ranks, long pinned)
{
    struct dt_conf_problems problems = {0}, warnings = {0};
    struct dt_conf_overrides overrides = {0};
    struct dt_conf *copy = NULL;
    char pin[64];
    long batch = 0;
    int rc = 0;
    for (size_t i = 0; i < conf->overrides.count && rc == 0; i++)
        rc = dt_conf_overrides_add(&overrides, conf->overrides.text[i], NULL);
    snprintf(pin, sizeof(pin), "training.train_batch_size=%ld", pinned);
    if (rc == 0 && pinned > 0)
        rc = dt_conf_overrides_add(&overrides, pin, NULL);
    if (rc == 0)
        copy = dt_conf_load(conf->file, &overrides, &problems, &warnings);
    if (copy && dt_conf_resolve_batch(copy, (int)ranks, NULL) == 0)
        batch = copy->training.train_batch_size;
    dt_conf_destroy(copy);
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    dt_conf_overrides_fini(&overrides);
    return batch;
}

int dt_world_check(struct dt_conf *conf, long ranks)
{
    struct dt_error err;
    if (!conf->trains || ranks <= 0 || ranks > INT_MAX ||
        dt_conf_resolve_batch(conf, (int)ranks, &err) == 0)
        return EX_OK;
    fprintf(stderr, "%s\n", err.text);
    return err.status;
}
