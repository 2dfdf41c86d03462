/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_plugin.c - finds out why `srun --help` does not show --disttrain */
#include "config.h"

#include <elf.h>
#include <errno.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/child.h"
#include "base/file.h"
#include "base/str.h"
#include "doctor/doctor_impl.h"

/* --- plugstack.conf and the files that it includes --- */

enum {
    FILE_BYTES = 1024 * 1024,
    DEPTH = 8, /* of nested includes */
};

/* One plugin, or an include that matches no file. */
struct entry {
    char *file; /* the file with the line */
    int line;
    char *path;      /* the plugin, as written; NULL: an include */
    char *arguments; /* of the plugin, separated by blanks; or the include's
                      * pattern
                      */
};

struct plugstack {
    struct entry *entries; /* in Slurm's order */
    size_t count;
};

static const char blanks[] = " \t\r";

/* Returns the next word of *rest and moves *rest past it; "" at the end of the
 * line.
 */
static char *next_word(char **rest)
{
    *rest += strspn(*rest, blanks);
    char *word = *rest;
    *rest += strcspn(*rest, blanks);
    if (**rest)
        *(*rest)++ = '\0';
    return word;
}

static int add_entry(struct plugstack *stack, const char *file, int line,
                     const char *path, const char *arguments,
                     struct dt_error *err)
{
    struct entry entry = {
        .file = strdup(file),
        .line = line,
        .path = path ? strdup(path) : NULL,
        .arguments = strdup(arguments),
    };
    struct entry *entries =
        realloc(stack->entries, (stack->count + 1) * sizeof(*entries));
    if (entries)
        stack->entries = entries;
    if (!entries || !entry.file || !entry.arguments || (path && !entry.path)) {
        free(entry.file);
        free(entry.path);
        free(entry.arguments);
        return dt_error_set(err, EX_OSERR, "out of memory");
    }
    entries[stack->count++] = entry;
    return 0;
}

static int read_file(struct plugstack *stack, const char *path, int depth,
                     struct dt_error *err);

/* Reads the files of an include. A relative pattern starts at the directory of
 * the including file.
 */
static int include_files(struct plugstack *stack, const char *file, int line,
                         const char *pattern, int depth, struct dt_error *err)
{
    char full[PATH_MAX];
    char folder[PATH_MAX];
    glob_t found;
    int rc = 0;
    snprintf(folder, sizeof(folder), "%s", file);
    int n = pattern[0] == '/' ? snprintf(full, sizeof(full), "%s", pattern)
                              : snprintf(full, sizeof(full), "%s/%s",
                                         dirname(folder), pattern);
    if (n < 0 || (size_t)n >= sizeof(full) || depth == DEPTH)
        return dt_error_set(err, EX_DATAERR,
                            "%s:%d: include %s is nested "
                            "too deeply or too long",
                            file, line, pattern);
    if (glob(full, 0, NULL, &found) != 0)
        return add_entry(stack, file, line, NULL, full, err);
    for (size_t i = 0; i < found.gl_pathc && rc == 0; i++)
        rc = read_file(stack, found.gl_pathv[i], depth + 1, err);
    globfree(&found);
    return rc;
}

static int read_line(struct plugstack *stack, const char *file, int number,
                     char *line, int depth, struct dt_error *err)
{
    line[strcspn(line, "#")] = '\0';
    char *kind = next_word(&line);
    char *what = next_word(&line);
    if (kind[0] == '\0')
        return 0;
    bool plugin =
        strcasecmp(kind, "required") == 0 || strcasecmp(kind, "optional") == 0;
    if (what[0] == '\0' || (!plugin && strcasecmp(kind, "include") != 0))
        return dt_error_set(err, EX_DATAERR,
                            "%s:%d: expected \"required FILE\", \"optional "
                            "FILE\" or \"include FILES\"",
                            file, number);
    if (!plugin)
        return include_files(stack, file, number, what, depth, err);
    return add_entry(stack, file, number, what, line, err);
}

static int read_file(struct plugstack *stack, const char *path, int depth,
                     struct dt_error *err)
{
    char *text = dt_file_read(path, FILE_BYTES, err);
    char *rest = text;
    int number = 0;
    int rc = text ? 0 : -1;
    for (char *line; rc == 0 && (line = strsep(&rest, "\n")) != NULL;)
        rc = read_line(stack, path, ++number, line, depth, err);
    free(text);
    return rc;
}

/* Reads `path` and the files that it includes. -1: EX_NOINPUT, EX_DATAERR,
 * EX_OSERR, with the entries read so far. Call plugstack_fini in any case.
 */
static int plugstack_init(struct plugstack *stack, const char *path,
                          struct dt_error *err)
{
    *stack = (struct plugstack){0};
    return read_file(stack, path, 0, err);
}

static void plugstack_fini(struct plugstack *stack)
{
    for (size_t i = 0; i < stack->count; i++) {
        free(stack->entries[i].file);
        free(stack->entries[i].path);
        free(stack->entries[i].arguments);
    }
    free(stack->entries);
}

/* Returns the value of KEY=VALUE in a slurm.conf, to be freed; the case of KEY
 * does not matter. NULL: there is none, or the file cannot be read.
 */
static char *slurm_conf_get(const char *path, const char *key)
{
    char *text = dt_file_read(path, FILE_BYTES, NULL);
    char *rest = text;
    char *value = NULL;
    size_t len = strlen(key);
    for (char *line; !value && (line = strsep(&rest, "\n")) != NULL;) {
        line += strspn(line, blanks);
        if (strncasecmp(line, key, len) != 0)
            continue;
        line += len + strspn(line + len, blanks);
        if (*line++ != '=')
            continue;
        line += strspn(line, blanks);
        line[strcspn(line, " \t\r#")] = '\0';
        value = strdup(line);
    }
    free(text);
    return value;
}

/* --- the checks --- */

enum {
    ASK_MS = 5000,
    IDENTITY_BYTES = 512,
};

/* The plugin contains this text with its version, that of Slurm, and the
 * runtime for which it was built; see spank/plugin.c.
 */
static const char identity[] = "disttrain-spank %31s for Slurm %x %511s";
static const char identity_begin[] = "disttrain-spank ";

/* The state of one examination. */
struct look {
    const struct dt_doctor_slurm *slurm;
    FILE *out;
    int wrong;
};

static void print_finding(struct look *look, const char *kind, const char *fmt,
                          ...) __attribute__((format(printf, 3, 4)));
static void print_finding(struct look *look, const char *kind, const char *fmt,
                          ...)
{
    va_list ap;
    fprintf(look->out, "%s: ", kind);
    va_start(ap, fmt);
    vfprintf(look->out, fmt, ap);
    va_end(ap);
    fputc('\n', look->out);
    look->wrong += strcmp(kind, "wrong") == 0;
}

/* Finds the path of plugstack.conf, which need not exist. */
static void find_plugstack(const struct dt_doctor_slurm *slurm,
                           char path[PATH_MAX])
{
    char folder[PATH_MAX];
    char *named = slurm_conf_get(slurm->conf, "PlugStackConfig");
    snprintf(folder, sizeof(folder), "%s", slurm->conf);
    if (named)
        snprintf(path, PATH_MAX, "%s", named);
    else
        snprintf(path, PATH_MAX, "%.4000s/plugstack.conf", dirname(folder));
    free(named);
}

static bool is_named(const struct entry *entry, const char *name)
{
    return entry->path && strstr(dt_str_base_name(entry->path), name);
}

/* Finds the line of our plugin, and warns of problems with other lines. */
static const struct entry *find_entry(struct look *look,
                                      const struct plugstack *stack)
{
    const struct entry *found = NULL;
    for (size_t i = 0; i < stack->count; i++) {
        const struct entry *entry = &stack->entries[i];
        if (!entry->path)
            print_finding(look, "warning", "%s:%d: no file matches include %s",
                          entry->file, entry->line, entry->arguments);
        else if (is_named(entry, "disttrain") && found)
            print_finding(
                look, "warning",
                "%s:%d: the plugin is loaded a second time: remove the line",
                entry->file, entry->line);
        else if (is_named(entry, "disttrain"))
            found = entry;
        else if (is_named(entry, "pyxis") && found)
            print_finding(
                look, "warning",
                "%s:%d: %s comes after ours and will replace the variables "
                "of the tasks: move our line, %s:%d, after it",
                entry->file, entry->line, entry->path, found->file,
                found->line);
    }
    return found;
}

/* Finds the file that Slurm loads for a line. */
static bool find_file(struct look *look, const struct entry *entry,
                      char path[PATH_MAX])
{
    const char *dirs = look->slurm->plugin_dir;
    snprintf(path, PATH_MAX, "%s", entry->path);
    if (entry->path[0] != '/' && !dirs) {
        print_finding(look, "wrong",
                      "%s: PluginDir is unknown: does scontrol show "
                      "config work here?",
                      entry->path);
        return false;
    }
    for (const char *dir = dirs; entry->path[0] != '/' && dir && *dir;) {
        int len = (int)strcspn(dir, ":");
        snprintf(path, PATH_MAX, "%.*s/%s", len, dir, entry->path);
        if (access(path, F_OK) == 0)
            break;
        dir += len + (dir[len] == ':');
    }
    if (access(path, R_OK) == 0)
        return true;
    if (errno == ENOENT && entry->path[0] != '/')
        print_finding(
            look, "wrong",
            "%s is not in PluginDir=%s: install it there, or write its full "
            "path into %s:%d",
            entry->path, dirs, entry->file, entry->line);
    else
        print_finding(look, "wrong", "%s: %s: %s", path, strerror(errno),
                      errno == EACCES
                          ? "chmod a+r, and a+x for its folders"
                          : "install the plugin there, on this host too");
    return false;
}

/* Returns class and machine of an ELF file in one number; 0: it is not an ELF
 * file.
 */
static unsigned elf_kind(const struct dt_map *map)
{
    Elf64_Ehdr header; /* both fields are at the same place in a 32-bit file */
    if (map->bytes < sizeof(header))
        return 0;
    memcpy(&header, map->data, sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return 0;
    return (unsigned)header.e_machine << 8 | header.e_ident[EI_CLASS];
}

static bool same_machine(const struct dt_map *map)
{
    struct dt_map self;
    if (dt_map_init(&self, "/proc/self/exe", NULL) < 0)
        return false;
    bool same = elf_kind(map) != 0 && elf_kind(map) == elf_kind(&self);
    dt_map_fini(&self);
    return same;
}

/* A build of the plugin fits all releases with the same first two numbers. */
static bool same_series(unsigned built_for, const char *srun)
{
    unsigned major;
    unsigned minor;
    return sscanf(srun, "%u.%u", &major, &minor) == 2 &&
           built_for >> 8 == (major << 8 | minor);
}

/* Checks the identity of the plugin; `runtime` receives the program that it
 * runs by default.
 */
static void check_identity(struct look *look, const char *path,
                           const char *text, char runtime[IDENTITY_BYTES])
{
    char version[32];
    unsigned number;
    const char *srun = look->slurm->version;
    if (sscanf(text, identity, version, &number, runtime) != 3) {
        print_finding(look, "wrong",
                      "%s is not disttrain's plugin, or damaged: install "
                      "it again",
                      path);
        return;
    }
    unsigned major = number >> 16;
    unsigned minor = number >> 8 & 0xff;
    if (srun && !same_series(number, srun))
        print_finding(
            look, "wrong",
            "%s was built for Slurm %u.%02u, and this is %s: build it again "
            "with the headers of this release",
            path, major, minor, srun);
    else
        print_finding(look, "ok", "%s is for Slurm %u.%02u", path, major,
                      minor);
    if (strcmp(version, PACKAGE_VERSION) != 0)
        print_finding(
            look, "wrong",
            "%s is of disttrain %s, and this program of " PACKAGE_VERSION
            ": install the same release of both",
            path, version);
}

static bool check_file(struct look *look, const char *path,
                       char runtime[IDENTITY_BYTES])
{
    struct dt_error err;
    struct dt_map map;
    int before = look->wrong;
    if (dt_map_init(&map, path, &err) < 0) {
        print_finding(look, "wrong", "%s", err.text);
        return false;
    }
    if (!same_machine(&map)) {
        print_finding(look, "wrong",
                      "%s is not a shared object for this machine: "
                      "install the one of this architecture",
                      path);
    } else {
        const char *at = memmem(map.data, map.bytes, identity_begin,
                                sizeof(identity_begin) - 1);
        char text[IDENTITY_BYTES] = "";
        if (at) {
            size_t left = map.bytes - (size_t)(at - (const char *)map.data);
            size_t len = left < sizeof(text) ? left : sizeof(text) - 1;
            memcpy(text, at, len);
        }
        check_identity(look, path, text, runtime);
    }
    dt_map_fini(&map);
    return look->wrong == before;
}

/* Checks the program: runtime=PATH of the line, or the default of the plugin.
 */
static void check_runtime(struct look *look, const struct entry *entry,
                          char *runtime)
{
    struct dt_error err;
    char text[128] = "";
    char *const argv[] = {runtime, "--version", NULL};
    const char *word = entry->arguments + strspn(entry->arguments, blanks);
    for (; *word; word += strspn(word, blanks)) {
        const char *path = dt_str_after(word, "runtime=");
        if (path)
            snprintf(runtime, IDENTITY_BYTES, "%.*s",
                     (int)strcspn(path, blanks), path);
        word += strcspn(word, blanks);
    }
    if (access(runtime, X_OK) != 0) {
        print_finding(look, "wrong",
                      "the program %s: %s: install it there, or set "
                      "runtime=PATH in %s:%d",
                      runtime, strerror(errno), entry->file, entry->line);
        return;
    }
    int rc = dt_child_ask(argv, ASK_MS, text, sizeof(text), &err);
    text[strcspn(text, "\n")] = '\0';
    if (rc != 0)
        print_finding(look, "wrong", "%s --version: %s", runtime,
                      rc < 0 ? err.text : "it fails");
    else if (strcmp(text, PACKAGE_STRING) != 0)
        print_finding(look, "wrong",
                      "the program %s is \"%s\", and this one \"" PACKAGE_STRING
                      "\": install the same release of both",
                      runtime, text);
    else
        print_finding(look, "ok", "the program %s is %s", runtime, text);
}

static void check_plugstack(struct look *look, const char *plugstack)
{
    struct plugstack stack;
    struct dt_error err;
    char path[PATH_MAX];
    char runtime[IDENTITY_BYTES];
    if (plugstack_init(&stack, plugstack, &err) < 0) {
        print_finding(look, "wrong", "%s", err.text);
        if (err.status == EX_NOINPUT)
            print_finding(look, "note",
                          "it should have the line \"required "
                          "spank_disttrain.so\", or include a file that has");
        plugstack_fini(&stack);
        return;
    }
    const struct entry *entry = find_entry(look, &stack);
    if (entry)
        print_finding(look, "ok", "%s:%d: %s", entry->file, entry->line,
                      entry->path);
    else
        print_finding(look, "wrong",
                      "no line of %s, or of what it includes, names "
                      "spank_disttrain.so: add \"required spank_disttrain.so\"",
                      plugstack);
    if (entry && find_file(look, entry, path) &&
        check_file(look, path, runtime))
        check_runtime(look, entry, runtime);
    plugstack_fini(&stack);
}

bool dt_doctor_check_plugin(const struct dt_doctor_slurm *slurm, FILE *out)
{
    struct look look = {.slurm = slurm, .out = out};
    char plugstack[PATH_MAX];
    if (!slurm->conf) {
        print_finding(&look, "wrong",
                      "no slurm.conf here, in SLURM_CONF or the usual "
                      "places: is this host part of the cluster?");
    } else {
        print_finding(&look, "ok", "%s", slurm->conf);
        find_plugstack(slurm, plugstack);
        check_plugstack(&look, plugstack);
    }
    if (slurm->helps)
        print_finding(&look, "ok", "srun --help works, and %s --disttrain",
                      slurm->shows ? "has" : "does not have");
    else
        print_finding(&look, "wrong", "srun --help fails: run it to see why");
    if (look.wrong > 0)
        fprintf(out, "verdict: %s, because of what is wrong above\n",
                slurm->shows ? "srun shows --disttrain, which will not work"
                             : "srun does not show --disttrain");
    else if (!slurm->shows)
        fputs("verdict: srun does not show --disttrain, for an unknown "
              "reason: run srun -vvv --help\n",
              out);
    else
        fputs("verdict: srun shows --disttrain\n", out);
    return look.wrong == 0 && slurm->shows;
}

/* --- the Slurm on this host --- */

enum { TEXT_BYTES = 256 * 1024 };

/* Where Slurm looks for slurm.conf, and where a configless client keeps its
 * copy.
 */
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
    char *named = conf ? slurm_conf_get(conf, "PluginDir") : NULL;
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
