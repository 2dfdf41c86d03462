/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.c - run.output_dir, which belongs to one run at a time (rank 0)
 *
 * Fault points: output.take, before it is taken; output.taken, once it is.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/epoch.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "run/dir/dir.h"
#include "run/dir/owner.h"

/* Ignores the owner's files, those of keepers, and the model that was made
 * there, or half of it. A directory that cannot be read does not count as
 * empty.
 */
static bool directory_is_empty(const struct dt_conf *conf)
{
    const char *path = conf->run.output_dir;
    const char *made =
        dt_conf_composes(conf) ? dt_str_base_name(conf->model.path) : ".";
    DIR *dir = opendir(path);
    const struct dirent *entry;
    bool empty = dir || errno == ENOENT;
    while (dir && empty && (entry = readdir(dir)))
        empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
                !strcmp(entry->d_name, made) ||
                dt_ckpt_is_rest(entry->d_name, made) ||
                !strcmp(entry->d_name, DT_EPOCH_DIR) ||
                !strncmp(entry->d_name, ".owner", 6);
    if (dir)
        closedir(dir);
    return empty;
}

/* Removes the checkpoints of the previous run, and says so first, while the
 * user can still stop it.
 */
static int remove_checkpoints(struct dt_run *run, struct dt_error *err)
{
    long newest = -1;
    int count = dt_ckpt_count(run->spec.ckpt_root, &newest, err);
    if (count > 0)
        dt_log(DT_LOG_WARN, "algo",
               "run.overwrite: removes %s, with %d checkpoint%s up to step "
               "%ld; with training.resume: auto the run would have resumed",
               run->spec.ckpt_root, count, count > 1 ? "s" : "", newest);
    return count < 0 ? -1 : dt_file_remove_tree(run->spec.ckpt_root, err);
}

static bool is_fresh(const struct dt_conf *conf)
{
    return conf->training.resume == DT_CONF_RESUME_NONE &&
           !conf->training.restarted && !conf->training.eval_only;
}

int dt_run_check_free(const struct dt_conf *conf, struct dt_error *err)
{
    enum dt_hold hold;
    if (!is_fresh(conf) || conf->run.overwrite || directory_is_empty(conf))
        return 0;
    if (dt_hold_find(conf->run.output_dir, &hold, err) < 0)
        return -1;
    if (hold >= DT_HOLD_TAKEN)
        return 0;
    return dt_error_set(err, EX_CANTCREAT,
                        "%s: run.output_dir is not empty; set training.resume: "
                        "auto to resume it, run.overwrite: true to start a new "
                        "run, or name another directory",
                        conf->run.output_dir);
}

/* Prepares the directory for a new run. */
static int begin_output(struct dt_run *run, struct dt_error *err)
{
    const struct dt_conf *conf = &run->spec.conf;
    if (dt_run_check_free(conf, err) < 0 ||
        (conf->run.overwrite && !directory_is_empty(conf) &&
         remove_checkpoints(run, err) < 0))
        return -1;
    return dt_hold_set(conf->run.output_dir, DT_HOLD_TAKEN, err);
}

int dt_run_take_output(struct dt_run *run, bool continues, struct dt_error *err)
{
    const struct dt_conf *conf = &run->spec.conf;
    const char *output = conf->run.output_dir;
    bool writes = !conf->training.eval_only || conf->logging.to_jsonl;
    dt_fault("output.take");
    if (writes &&
        !(run->owner = dt_owner_take(output, DT_OWNER_BEAT_MS, run->stop, err)))
        return -1;
    if (!continues && is_fresh(conf) && begin_output(run, err) < 0)
        return -1;
    dt_fault("output.taken");
    return writes ? dt_file_mkdirs(conf->logging.dir, err) : 0;
}

/* Another run writes there: this one must not write any more. */
static int leave_output(struct dt_run *run)
{
    dt_report_destroy(run->report);
    run->report = NULL;
    return -1;
}

/* Makes a removed directory of checkpoints again. `found` is the result of
 * dt_owner_check. That directory exists since the run began: if it is missing,
 * so is everything to resume from. 1: that or the owner file was removed.
 */
static int note_removed(const struct dt_spec *spec, int found,
                        struct dt_error *removed)
{
    const bool gone = access(spec->ckpt_root, F_OK) < 0 && errno == ENOENT;
    if (gone) {
        dt_error_set(removed, EX_CANTCREAT,
                     "%s: was removed or moved during the run; it is created "
                     "again, without the checkpoints that were in it",
                     found == 1 ? spec->conf.run.output_dir : spec->ckpt_root);
        dt_file_mkdirs(spec->ckpt_root, NULL); /* else the save says why not */
        dt_hold_set(spec->conf.run.output_dir, DT_HOLD_ALL, NULL);
    } else if (found == 1) {
        dt_error_set(removed, EX_CANTCREAT,
                     "%s/.owner: was removed during the run; it is created "
                     "again, but another run could have begun meanwhile",
                     spec->conf.run.output_dir);
    }
    return gone || found == 1;
}

int dt_run_look_at_output(const struct dt_run *run, struct dt_error *removed,
                          struct dt_error *err)
{
    const int found = run->owner ? dt_owner_check(run->owner, err) : 0;
    if (found < 0 || !run->owner || run->spec.conf.training.eval_only)
        return found < 0 ? -1 : 0;
    return note_removed(&run->spec, found, removed);
}

int dt_run_check_output(struct dt_run *run, struct dt_error *err)
{
    struct dt_error removed;
    const int found = dt_run_look_at_output(run, &removed, err);
    if (found < 0)
        return leave_output(run);
    if (found > 0)
        dt_run_warn(run, "%s", removed.text);
    return 0;
}

bool dt_run_holds_output(void *run)
{
    struct dt_owner *owner = ((struct dt_run *)run)->owner;
    return !owner || dt_owner_holds(owner);
}

int dt_run_keep_output(struct dt_run *run, struct dt_error *err)
{
    return dt_run_holds_output(run) ? 0 : dt_run_check_output(run, err);
}
