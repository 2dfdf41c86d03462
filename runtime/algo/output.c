/* SPDX-License-Identifier: Apache-2.0 */
/* output.c - run.output_dir, which belongs to one run at a time (rank 0) */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "algo/run.h"
#include "base/file.h"

/* Ignores the owner's files. A directory that cannot be read does not count as
 * empty.
 */
static bool directory_is_empty(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    bool empty = dir || errno == ENOENT;
    while (dir && empty && (entry = readdir(dir)))
        empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
                !strncmp(entry->d_name, ".owner", 6);
    if (dir)
        closedir(dir);
    return empty;
}

int dt_run_take_output(struct dt_run *run, struct dt_error *err)
{
    const struct dt_conf *conf = &run->conf;
    const char *output = conf->run.output_dir;
    bool fresh = conf->training.resume == DT_CONF_RESUME_NONE &&
                 !conf->training.eval_only;
    bool writes = !conf->training.eval_only || conf->logging.to_jsonl;
    if (writes &&
        !(run->owner = dt_owner_take(output, DT_OWNER_BEAT_MS, run->stop, err)))
        return -1;
    if (fresh && !directory_is_empty(output)) {
        if (!conf->run.overwrite)
            return dt_error_set(err, EX_CANTCREAT,
                                "%s: run.output_dir is not empty; set "
                                "training.resume: auto to resume it, "
                                "run.overwrite: true to start a new run, or "
                                "name another directory",
                                output);
        if (dt_file_remove_tree(run->ckpt_root, err) < 0)
            return -1;
    }
    return writes ? dt_file_mkdirs(conf->logging.dir, err) : 0;
}
