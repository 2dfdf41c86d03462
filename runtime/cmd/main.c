/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the program `disttrain`: chooses the subcommand */
#include "config.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sysexits.h>

#include "base/proc.h"
#include "base/secret.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "contract/contract.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"train", dt_cmd_train, "train as a configuration says, on every rank"},
    {"check", dt_cmd_check, "check a configuration and list every mistake"},
    {"plan", dt_cmd_plan, "predict memory and time before anything is queued"},
    {"sbatch", dt_cmd_sbatch, "print or submit the batch script of a job"},
    {"steps", dt_cmd_steps, "run the steps of a batch job; its script does it"},
    {"prepare", dt_cmd_prepare, "tokenize data files before training"},
    {"generate", dt_cmd_generate, "print text sampled from a trained model"},
    {"export", dt_cmd_export, "write a checkpoint as a Hugging Face model"},
    {"verify", dt_cmd_verify, "compare checkpoints with their checksums"},
    {"trace", dt_cmd_trace, "take a trace of a run that is running"},
    {"report", dt_cmd_report,
     "explain runs: a page of HTML, plots, comparison"},
    {"doctor", dt_cmd_doctor, "find the nodes of a job that break runs"},
    {"top", dt_cmd_top, "show what a run is doing now"},
    {"console", dt_cmd_console,
     "filter srun's output by rank; the plugin starts it"},
    {"keep", dt_cmd_keep, "start a command again on all ranks when one fails"},
    {"info", dt_cmd_info, "print version, features and libraries"},
};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *out)
{
    fputs("usage: disttrain COMMAND [ARGUMENTS]\n"
          "       srun [OPTIONS] --disttrain=FILE\n\n"
          "Trains language models on every rank of a Slurm step.\n\n",
          out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
    fputs("\n  --version  print the version\n"
          "  --help     print this; `disttrain COMMAND --help` and\n"
          "             `man disttrain-COMMAND` say more\n",
          out);
}

static int unknown_command(const char *name)
{
    const char *names[COMMAND_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[i] = commands[i].name;
    const char *nearest = dt_str_nearest(name, names, COMMAND_COUNT);
    fprintf(stderr, "disttrain: no command '%s'", name);
    if (strcmp(name, "reward") == 0)
        fputs("; a program of type command answers other programs, too: start "
              "it there, see Rewards in disttrain.yaml(5)",
              stderr);
    else if (nearest)
        fprintf(stderr, "; did you mean '%s'?", nearest);
    fputs("\nusage: disttrain COMMAND [ARGUMENTS], see disttrain --help\n",
          stderr);
    return EX_USAGE;
}

/* Whether the command computes, with threads that wait for each other. */
static bool computes(const char *name)
{
    return strcmp(name, "train") == 0 || strcmp(name, "generate") == 0;
}

/* Whether this program began with SIGHUP ignored, as below nohup. UCX, which
 * some builds of PMIx load, takes that signal before main, so this is found out
 * before any library begins.
 */
static bool ignores_hangup;

static void look_at_hangup(void)
{
    struct sigaction now;
    ignores_hangup =
        sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

__attribute__((section(".preinit_array"),
               used)) static void (*const at_first)(void) = look_at_hangup;

int main(int argc, char **argv)
{
    if (ignores_hangup)
        signal(SIGHUP, SIG_IGN);
    /* A process that ignores SIGCHLD is not told how its children end, and it
     * may have inherited that.
     */
    signal(SIGCHLD, SIG_DFL);
    prctl(PR_SET_NAME, DT_PROC_NAME); /* see DT_PROC_SELF */
    dt_secret_learn_environment();

    /* If srun has no command, the plugin starts this program without arguments;
     * the environment names the configuration.
     */
    bool trains = argc == 1 && getenv(DT_ENV_CONFIG);
    if (trains && getenv(DT_ENV_COMMAND))
        return dt_cmd_command();
    if ((trains || (argc > 1 && computes(argv[1]))) && dt_cmd_spin_limit())
        dt_cmd_spin_restart(argv);
    if (trains)
        return dt_cmd_train(1, (char *[]){"train", NULL});
    if (argc == 1) {
        print_help(stderr);
        return EX_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        print_help(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version")) {
        puts(PACKAGE_STRING);
        return 0;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    return unknown_command(argv[1]);
}
