/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_sbatch.c - `disttrain sbatch`: prints or submits a batch script */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "cmd/cmd_impl.h"
#include "conf/conf.h"
#include "contract/contract.h"
#include "slurm/job.h"

struct options {
    bool submit, dry_run;
    const char *file;
    struct dt_script script;
};

static const struct dt_option table[] = {
    {"submit", NULL, "pass the script to sbatch instead",
     DT_INTO(struct options, submit), .excludes = "dry-run"},
    {"dry-run", NULL,
     "print the srun line and the environment of each rank instead; nothing is "
     "queued",
     DT_INTO(struct options, dry_run)},
    {"array", "=LIST",
     "make one job for each index; run.output_dir in FILE must contain "
     "${SLURM_ARRAY_TASK_ID}",
     DT_INTO(struct options, script.array)},
    {DT_CMD_SET,
     .help = "take this value, whatever FILE says, now and in the job"},
    {0},
};

static const struct dt_cmd_line line = {
    "sbatch",
    "usage: disttrain sbatch [--submit | --dry-run] [--array=LIST]\n"
    "                        [--set KEY=VALUE]... FILE\n"
    "                        [-- --SBATCH-OPTION[=VALUE]...]\n\n"
    "Prints the batch script of the job that launch: in FILE describes.\n",
    table, "Options after -- are added to the script and override FILE.\n"};

static int parse_extra(const struct dt_srun_words *extra)
{
    for (int i = 0; i < extra->count; i++)
        if (strncmp(extra->word[i], "--", 2) != 0 ||
            strpbrk(extra->word[i], "\r\n"))
            return dt_cmd_usage_error(
                "sbatch", "expected --OPTION or --OPTION=VALUE, got '%s'",
                extra->word[i]);
    return DT_CMD_RUN;
}

/* Returns DT_CMD_RUN, or the exit status. */
static int parse_options(int argc, char **argv, struct options *options)
{
    int status = dt_cmd_parse(&line, argc, argv, options);
    if (status != DT_CMD_RUN)
        return status;
    const char *array = options->script.array;
    if (array && array[strspn(array, "0123456789,-:%")] != '\0')
        return dt_cmd_usage_error("sbatch",
                                  "--array=%s: expected indexes such as 0-3 "
                                  "or 1,5%%2",
                                  array);
    if (optind == argc)
        return dt_cmd_usage_error("sbatch", "expected one FILE");
    options->file = argv[optind];
    options->script.with_sum = options->submit;
    options->script.extra.word = argv + optind + 1;
    options->script.extra.count = argc - optind - 1;
    return parse_extra(&options->script.extra);
}

static bool is_array(const struct dt_script *script)
{
    return script->array || dt_srun_has(&script->extra, "array", '\0');
}

/* The jobs of an array must not overwrite each other's files. */
static int check_array(const struct options *options,
                       const struct dt_conf *conf)
{
    const char *text = dt_submission_shared(conf);
    return text ? dt_conf_print_problem(conf, options->file, "run.output_dir",
                                        text, stderr)
                : EX_OK;
}

static int check_config(const struct options *options, struct dt_conf *conf)
{
    if (!conf->trains && conf->launch.command.count == 0)
        return dt_conf_print_problem(
            conf, options->file, "launch.command",
            "nothing to run: the file has no algorithm either", stderr);
    int status = dt_cmd_check_training(options->file, conf);
    if (status == EX_OK)
        status =
            dt_world_check(conf, dt_world_script(conf, &options->script.extra));
    if (status == EX_OK && is_array(&options->script))
        status = check_array(options, conf);
    return status;
}

/* Pipes the script to sbatch; returns its exit status. */
static int submit_script(const char *script, size_t bytes)
{
    char *const argv[] = {"sbatch", NULL};
    posix_spawn_file_actions_t files;
    int fd[2], status = 0;
    pid_t pid;
    if (pipe2(fd, O_CLOEXEC) != 0) {
        perror("disttrain sbatch: pipe");
        return EX_OSERR;
    }
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, fd[0], STDIN_FILENO);
    int rc = posix_spawnp(&pid, argv[0], &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    close(fd[0]);
    if (rc != 0) {
        fprintf(stderr, "disttrain sbatch: cannot run sbatch: %s\n",
                strerror(rc));
        close(fd[1]);
        return EX_UNAVAILABLE;
    }
    signal(SIGPIPE, SIG_IGN);
    while (bytes > 0) {
        ssize_t n = write(fd[1], script, bytes);
        if (n < 0 && errno != EINTR)
            break; /* sbatch has exited and said why */
        script += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    close(fd[1]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EX_SOFTWARE;
}

static int write_script(const struct options *options,
                        const struct dt_conf *conf)
{
    char *script = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&script, &bytes);
    if (!out)
        return EX_OSERR;
    dt_script_print(&options->script, conf, out);
    int status = ferror(out) ? EX_OSERR : EX_OK;
    if (fclose(out) != 0 || !script)
        status = EX_OSERR;
    if (status == EX_OK && options->submit)
        status = submit_script(script, bytes);
    else if (status == EX_OK)
        fwrite(script, 1, bytes, stdout);
    free(script);
    return status;
}

int dt_cmd_sbatch(int argc, char **argv)
{
    struct options options = {0};
    int status = parse_options(argc, argv, &options);
    if (status != DT_CMD_RUN)
        return status;
    dt_promise_begin(is_array(&options.script));
    struct dt_conf *conf = dt_cmd_load("sbatch", options.file, true);
    dt_promise_end();
    status = conf ? check_config(&options, conf) : EX_CONFIG;
    if (status == EX_OK && options.dry_run)
        status = dt_preview(conf);
    else if (status == EX_OK)
        status = write_script(&options, conf);
    dt_conf_destroy(conf);
    return dt_cmd_flush("sbatch", status);
}
