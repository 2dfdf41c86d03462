/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - finds the job size that sbatch or salloc has been asked for */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "slurm/request.h"

enum { WORDS_MAX = 1024 };

/* option is NULL if no option sets the variable; a job has it nevertheless. */
static const struct {
    const char *option;
    char letter;
    const char *variable;
} sizes[] = {
    {"nodes", 'N', "SLURM_JOB_NUM_NODES"},
    {"ntasks", 'n', "SLURM_NTASKS"},
    {"ntasks-per-node", 0, "SLURM_NTASKS_PER_NODE"},
    {"gpus-per-node", 0, "SLURM_GPUS_PER_NODE"},
    {"cpus-per-task", 'c', "SLURM_CPUS_PER_TASK"},
    {"partition", 'p', "SLURM_JOB_PARTITION"},
    {NULL, 0, "SLURM_GPUS_ON_NODE"},
    {NULL, 0, "SLURM_JOB_CPUS_PER_NODE"},
};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* Returns the value that `word`, or the word after it, gives to an option;
 * NULL: none.
 */
static const char *option_value(const char *word, const char *next,
                                const char *option, char letter)
{
    size_t n = strlen(option);
    if (letter && word[0] == '-' && word[1] == letter)
        return word[2] ? word + 2 : next;
    if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, option, n) != 0)
        return NULL;
    if (word[2 + n] == '=')
        return word + 3 + n;
    return word[2 + n] == '\0' ? next : NULL;
}

/* Sets the variables that are not set yet. A range such as 2-4 does not
 * determine a size, so it is ignored.
 */
static void export_sizes(char *const *word, int count)
{
    for (int i = 0; i < count; i++)
        for (size_t s = 0; s < SIZES; s++) {
            const char *value =
                sizes[s].option
                    ? option_value(word[i], i + 1 < count ? word[i + 1] : NULL,
                                   sizes[s].option, sizes[s].letter)
                    : NULL;
            if (value && (sizes[s].letter == 'p' || !strchr(value, '-')))
                setenv(sizes[s].variable, value, 0);
        }
}

static bool is_separator(const char *word)
{
    return strcmp(word, ":") == 0 || strcmp(word, "hetjob") == 0 ||
           strcmp(word, "packjob") == 0;
}

/* Opens the script if it is a regular file: sbatch has already read it, and a
 * pipe would be empty now.
 */
static FILE *open_script(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return fdopen(fd, "r");
    if (fd >= 0)
        close(fd);
    return NULL;
}

static void drop_quotes(char *word)
{
    char *to = word;
    for (; *word; word++)
        if (*word != '"' && *word != '\'')
            *to++ = *word;
    *to = '\0';
}

/* Reads the words of the #SBATCH lines, which end at the first command. The
 * caller frees each word. Returns their number.
 */
static int read_script(const char *path, char **word)
{
    char *line = NULL;
    size_t size = 0;
    int count = 0;
    FILE *script = path[0] ? open_script(path) : NULL;
    while (script && getline(&line, &size, script) >= 0 &&
           strchr("#\n", line[0])) {
        if (strncmp(line, "#SBATCH", strlen("#SBATCH")) != 0)
            continue;
        char *rest = line + strlen("#SBATCH");
        for (char *w = strtok(rest, " \t\r\n");
             w && w[0] != '#' && count < WORDS_MAX; w = strtok(NULL, " \t\r\n"))
            if ((word[count] = strdup(w)))
                drop_quotes(word[count++]);
    }
    free(line);
    if (script)
        fclose(script);
    return count;
}

bool dt_submission_export_request(const char *script,
                                  const struct dt_srun_words *words)
{
    char *word[WORDS_MAX];
    int count = read_script(script, word);
    bool one = true;
    for (int i = 0; i < words->count; i++)
        one = one && !is_separator(words->word[i]);
    for (int i = 0; i < count; i++)
        one = one && !is_separator(word[i]);
    for (size_t s = 0; one && s < SIZES; s++)
        unsetenv(sizes[s].variable);
    if (one) {
        export_sizes(words->word, words->count);
        export_sizes(word, count);
    }
    while (count > 0)
        free(word[--count]);
    return one;
}
