/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_plugin.c - finds out why `srun --help` does not show --disttrain */
#include "config.h"

#include <elf.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/child.h"
#include "base/file.h"
#include "doctor/doctor_plugin.h"
#include "doctor/plugstack.h"

enum {
    ASK_MS = 5000,
    IDENTITY_BYTES = 512,
};

/* The plugin contains this text with its own version, Slurm's, and the runtime
 * that it was built for; see spank/plugin.c.
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
    char *named = dt_doctor_slurm_conf_get(slurm->conf, "PlugStackConfig");
    snprintf(folder, sizeof(folder), "%s", slurm->conf);
    if (named)
        snprintf(path, PATH_MAX, "%s", named);
    else
        snprintf(path, PATH_MAX, "%.4000s/plugstack.conf", dirname(folder));
    free(named);
}

static bool is_named(const struct dt_doctor_entry *entry, const char *name)
{
    const char *slash = entry->path ? strrchr(entry->path, '/') : NULL;
    const char *file = slash ? slash + 1 : entry->path;
    return file && strstr(file, name);
}

/* Finds the line of our plugin, and warns of problems with other lines. */
static const struct dt_doctor_entry *find_entry(
    struct look *look, const struct dt_doctor_plugstack *stack)
{
    const struct dt_doctor_entry *found = NULL;
    for (size_t i = 0; i < stack->count; i++) {
        const struct dt_doctor_entry *entry = &stack->entries[i];
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
static bool find_file(struct look *look, const struct dt_doctor_entry *entry,
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

/* Checks the plugin's identity; runtime receives the program that it runs by
 * default.
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

/* Checks the program of the line's runtime=PATH, or the plugin's default. */
static void check_runtime(struct look *look,
                          const struct dt_doctor_entry *entry, char *runtime)
{
    struct dt_error err;
    char text[128] = "";
    static const char key[] = "runtime=";
    static const char blanks[] = " \t\r";
    char *const argv[] = {runtime, "--version", NULL};
    const char *word = entry->arguments + strspn(entry->arguments, blanks);
    for (; *word; word += strspn(word, blanks)) {
        size_t len = strcspn(word, blanks);
        if (strncmp(word, key, strlen(key)) == 0)
            snprintf(runtime, IDENTITY_BYTES, "%.*s", (int)(len - strlen(key)),
                     word + strlen(key));
        word += len;
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
    struct dt_doctor_plugstack stack;
    struct dt_error err;
    char path[PATH_MAX];
    char runtime[IDENTITY_BYTES];
    if (dt_doctor_plugstack_init(&stack, plugstack, &err) < 0) {
        print_finding(look, "wrong", "%s", err.text);
        if (err.status == EX_NOINPUT)
            print_finding(look, "note",
                          "it should have the line \"required "
                          "spank_disttrain.so\", or include a file that has");
        dt_doctor_plugstack_fini(&stack);
        return;
    }
    const struct dt_doctor_entry *entry = find_entry(look, &stack);
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
    dt_doctor_plugstack_fini(&stack);
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
