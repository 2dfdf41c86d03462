/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.c - reads images that rows of data name, and none outside the root */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(SYS_openat2) && __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#define HAVE_OPENAT2
#endif

#include "base/fault.h"
#include "base/file.h"
#include "base/str.h"
#include "image/store.h"

enum { SHOWN = 200 }; /* bytes of a path in a message */

/* A copy of a row's text that a message can have on one line. */
static const char *shown(const char *from, char text[SHOWN + 1])
{
    snprintf(text, SHOWN + 1, "%s", from);
    dt_str_hide_controls(text);
    return text;
}

/* Whether the file that is open, wherever links led, is within the root. */
static bool is_within(int fd, int root)
{
    char link[64], at[PATH_MAX], top[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, at, sizeof(at) - 1);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", root);
    const ssize_t bytes = readlink(link, top, sizeof(top) - 1);
    if (n < 0 || bytes < 0)
        return false;
    return n > bytes && memcmp(at, top, (size_t)bytes) == 0 &&
           (bytes == 1 || at[bytes] == '/'); /* 1: the root of all */
}

/* Opens the place that the path names without reading it, looks where that is,
 * and opens it again.
 */
static int open_checked(int root, const char *path)
{
    char link[64];
    const int found = openat(root, path, O_PATH | O_CLOEXEC);
    if (found < 0)
        return -1;
    int fd = -1;
    if (is_within(found, root)) {
        snprintf(link, sizeof(link), "/proc/self/fd/%d", found);
        fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } else {
        errno = EXDEV;
    }
    const int bad = errno;
    close(found);
    errno = bad;
    return fd;
}

/* Opens a relative path that stays within the root. -1: errno; EXDEV, it leads
 * out. openat2 knows with one call that it does; it also fails before Linux
 * 5.6, in some containers, and for an absolute link that leads back into the
 * root, which is fine.
 */
static int open_within(int root, const char *path)
{
#ifdef HAVE_OPENAT2
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    if (!dt_fault("image.openat2")) {
        const long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
        if (fd >= 0)
            return (int)fd;
    }
#endif
    return open_checked(root, path);
}

/* The rest of an absolute path after the root, or NULL: it begins elsewhere. */
static const char *below(const char *path, const char *root)
{
    size_t bytes = strlen(root);
    while (bytes > 0 && root[bytes - 1] == '/')
        bytes--;
    if (strncmp(path, root, bytes) != 0 || path[bytes] != '/')
        return NULL;
    return path + bytes + strspn(path + bytes, "/");
}

static int open_path(const char *from, const char *root, struct dt_error *err)
{
    char text[SHOWN + 1];
    const char *path = from[0] == '/' ? below(from, root) : from;
    const int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return dt_error_set(err, EX_NOINPUT, "%s: cannot open: %s", root,
                            strerror(errno));
    const int fd = path ? open_within(dir, path) : -1;
    const int bad = path ? errno : EXDEV;
    close(dir);
    if (fd >= 0)
        return fd;
    if (bad == EXDEV)
        return dt_error_set(err, EX_DATAERR,
                            "%s: outside of %s, where images are: it, or a "
                            "link in it, leads out",
                            shown(from, text), root);
    return dt_error_set(err, dt_file_is_missing(bad) ? EX_NOINPUT : EX_IOERR,
                        "%s: cannot open in %s: %s", shown(from, text), root,
                        strerror(bad));
}

/* data:image/png;base64,... ; the kind of image is in its bytes. */
static int decode_uri(struct dt_image_file *file, const char *uri,
                      const struct dt_image_limits *limits,
                      struct dt_error *err)
{
    static const char mark[] = ";base64";
    const char *comma = strchr(uri, ',');
    const size_t head = comma ? (size_t)(comma - uri) : 0;
    if (head < sizeof(mark) - 1 ||
        strncasecmp(comma - (sizeof(mark) - 1), mark, sizeof(mark) - 1) != 0)
        return dt_error_set(err, EX_DATAERR,
                            "a data: URI that is not base64: expected "
                            "data:image/...;base64,...");
    const size_t count = strlen(comma + 1);
    if (count / 4 > limits->bytes / 3)
        return dt_error_set(err, EX_DATAERR,
                            "a data: URI of %zu bytes: at most %zu bytes of "
                            "an image are read",
                            count, limits->bytes);
    file->data = malloc(count / 4 * 3 + 1);
    if (!file->data)
        return dt_error_set(err, EX_OSERR, "a data: URI: out of memory");
    const ptrdiff_t bytes = dt_base64_decode(comma + 1, count, file->data);
    if (bytes >= 0) {
        file->bytes = (size_t)bytes;
        return 0;
    }
    free(file->data);
    *file = (struct dt_image_file){0};
    return dt_error_set(err, EX_DATAERR,
                        "a data: URI whose base64 is damaged or cut short");
}

int dt_image_fetch(struct dt_image_file *file, const char *from,
                   const char *root, const struct dt_image_limits *limits,
                   struct dt_error *err)
{
    char text[SHOWN + 1];
    *file = (struct dt_image_file){0};
    if (strncasecmp(from, "data:", 5) == 0)
        return decode_uri(file, from, limits, err);
    if (strstr(from, "://"))
        return dt_error_set(err, EX_DATAERR,
                            "%s: nothing is fetched from the network: "
                            "download the images, and name them by paths",
                            shown(from, text));
    if (!root)
        return dt_error_set(err, EX_CONFIG,
                            "%s: an image by its path, and no directory is "
                            "given that images are in "
                            "(data.image_root)",
                            shown(from, text));
    const int fd = open_path(from, root, err);
    return fd < 0 ? -1
                  : dt_image_read(file, fd, shown(from, text), limits, err);
}
