/* SPDX-License-Identifier: Apache-2.0 */
/* slurm.c - finds out about the Slurm on this host */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "doctor/doctor_plugin.h"
#include "doctor/plugstack.h"

enum {
    ASK_MS = 5000,
    TEXT_BYTES = 256 * 1024,
};

/* Where Slurm looks for it, and where a configless client keeps its copy. */
static const char *const usual[] = {
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/run/slurm/conf/slurm.conf",
};

static const char *find_conf(void)
{
    const char *path = getenv("SLURM_CONF");
    if (path)
        return access(path, F_OK) == 0 ? path : NULL;
    for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++)
        if (access(usual[i], F_OK) == 0)
            return usual[i];
    return NULL;
}

/* Finds PluginDir. Its default is compiled into Slurm, so the controller has to
 * be asked.
 */
static char *find_plugin_dir(const char *conf, char *text)
{
    char *const argv[] = {"scontrol", "show", "config", NULL};
    char *named = conf ? dt_doctor_slurm_conf_get(conf, "PluginDir") : NULL;
    if (named || dt_child_ask(argv, ASK_MS, text, TEXT_BYTES, NULL) != 0)
        return named;
    char *line = strstr(text, "\nPluginDir ");
    line = line ? strstr(line, "= ") : NULL;
    if (!line)
        return NULL;
    line += 2;
    line[strcspn(line, " \n")] = '\0';
    return strdup(line);
}

/* Parses "slurm-wlm 22.05.8" of scontrol; srun would load the plugin first. */
static bool find_version(char version[64])
{
    char *const argv[] = {"scontrol", "--version", NULL};
    char text[64] = "";
    bool works = dt_child_ask(argv, ASK_MS, text, sizeof(text), NULL) == 0;
    return works && sscanf(text, "%*s %63s", version) == 1;
}

bool dt_doctor_plugin(FILE *out)
{
    char *const help[] = {"srun", "--help", NULL};
    char version[64];
    char *text = calloc(1, TEXT_BYTES);
    if (!text)
        return false;
    struct dt_doctor_slurm slurm = {.conf = find_conf()};
    char *plugin_dir = find_plugin_dir(slurm.conf, text);
    slurm.plugin_dir = plugin_dir;
    slurm.version = find_version(version) ? version : NULL;
    slurm.helps = dt_child_ask(help, ASK_MS, text, TEXT_BYTES, NULL) == 0;
    slurm.shows = slurm.helps && strstr(text, "--disttrain");
    bool good = dt_doctor_check_plugin(&slurm, out);
    free(plugin_dir);
    free(text);
    return good;
}
