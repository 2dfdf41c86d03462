/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt_rename.c - brings entries to their places */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "ckpt/ckpt_impl.h"

char *dt_ckpt_format(struct dt_error *err, const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n >= 0)
        return text;
    dt_error_set(err, EX_OSERR, "checkpoint: out of memory");
    return NULL;
}

static int rename_error(const char *from, const char *to, int bad,
                        struct dt_error *err)
{
    return dt_error_set(err, EX_IOERR, "%s: cannot rename to %s: %s", from, to,
                        strerror(bad));
}

/* rename(2), or the failure that a test injects. Returns 0 or an errno. */
static int try_rename(const char *from, const char *to)
{
    return dt_fault("ckpt.rename") ? EIO : rename(from, to) < 0 ? errno : 0;
}

int dt_ckpt_rename(const char *from, const char *to, struct dt_error *err)
{
    int bad = try_rename(from, to);
    return bad ? rename_error(from, to, bad, err) : 0;
}

/* Replaces RENAME_EXCHANGE on file systems that do not support it, such as NFS.
 * For a moment nothing is at `to`; dt_ckpt_find then takes the entry with
 * OLD_PREFIX instead.
 */
static int exchange_in_steps(const char *from, const char *to,
                             struct dt_error *err)
{
    const char *name = strrchr(to, '/') + 1;
    char *old =
        dt_ckpt_format(err, "%.*s" OLD_PREFIX "%s", (int)(name - to), to, name);
    int rc = -1;
    if (old && dt_file_remove(old, err) == 0 &&
        dt_ckpt_rename(to, old, err) == 0) {
        rc = dt_ckpt_rename(from, to, err);
        /* If this fails, the next dt_ckpt_begin repairs it. */
        rename(old, rc < 0 ? to : from);
    }
    free(old);
    return rc;
}

int dt_ckpt_replace(const char *from, const char *to, struct dt_error *err)
{
    int bad = try_rename(from, to);
    if (bad == EEXIST || bad == ENOTEMPTY || bad == ENOTDIR)
        bad = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) < 0
                  ? errno
                  : 0;
    if (bad == EINVAL || bad == ENOSYS || bad == EOPNOTSUPP)
        return exchange_in_steps(from, to, err);
    return bad ? rename_error(from, to, bad, err) : 0;
}

int dt_ckpt_clear(const char *root, const char *path, struct dt_error *err)
{
    if (dt_file_remove(path, err) == 0)
        return 0;
    char *aside = dt_ckpt_format(NULL, "%s/" TEMP_PREFIX "aside-XXXXXX", root);
    int rc = -1;
    if (aside && mkdtemp(aside) && (rc = rename(path, aside)) < 0)
        rmdir(aside);
    free(aside);
    return rc < 0 ? dt_error_add(err, EX_IOERR, "remove it by hand") : 0;
}
