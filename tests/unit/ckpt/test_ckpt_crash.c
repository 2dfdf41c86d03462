/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ckpt_crash.c - after a crash there is the old checkpoint or the new one
 *
 * Before each call of a save that reaches the disk, states are made that a loss
 * of power could leave: of files that were not synced any beginning is there,
 * and of new names in directories that were not synced the last ones are gone.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/unit/ckpt/ckpt_root.h"

enum { STATES = 1000, EACH = 4, MOST = 64 };

static char crashed[sizeof(root)]; /* the state */
static int states, old_ones, new_ones;
static float old_value, new_value;

/* Files that were not synced. */
static ino_t dirty[MOST];
static int dirty_count;

/* New names, in order, with the directories that were not synced. */
static struct change {
    char dir[400], call[16], from[400], to[400], link[100];
} changes[MOST];
static int change_count;

static ino_t inode_of(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 ? st.st_ino : 0;
}

static bool is_dirty(ino_t inode)
{
    for (int i = 0; i < dirty_count; i++)
        if (dirty[i] == inode)
            return true;
    return false;
}

/* --- a state --- */

/* The whole file, or any beginning of one that was not synced. */
static void copy_file(const char *from, const char *to)
{
    char data[1 << 14];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT, 0666);
    ssize_t n = read(in, data, sizeof(data));
    assert_true(in >= 0 && out >= 0 && n >= 0 && n < (ssize_t)sizeof(data));
    if (is_dirty(inode_of(from)))
        n = rand() % (n + 1);
    assert_int_equal(write(out, data, (size_t)n), n);
    close(in);
    close(out);
}

static void copy_tree(const char *from, const char *to)
{
    char a[1000], b[1000], target[200];
    DIR *dir = opendir(from);
    assert_int_equal(mkdir(to, 0777), 0);
    for (struct dirent *e; (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(a, sizeof(a), "%s/%s", from, e->d_name);
        snprintf(b, sizeof(b), "%s/%s", to, e->d_name);
        ssize_t n = readlink(a, target, sizeof(target) - 1);
        if (n >= 0) {
            target[n] = '\0';
            assert_int_equal(symlink(target, b), 0);
        } else if (e->d_type == DT_DIR) {
            copy_tree(a, b);
        } else {
            copy_file(a, b);
        }
    }
    closedir(dir);
}

/* The path in the state. */
static const char *there(const char *path)
{
    static char paths[2][1000];
    static int turn;
    char *to = paths[turn++ % 2];
    snprintf(to, sizeof(paths[0]), "%s%s", crashed, path + strlen(root));
    return to;
}

static void undo(const struct change *c)
{
    const char *from = there(c->from), *to = there(c->to);
    if (strcmp(c->call, "renameat2") == 0) {
        renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE);
        return;
    }
    if (strcmp(c->call, "rename") != 0) { /* create, symlink */
        unlink(to);
        return;
    }
    rename(to, from);
    if (c->link[0])
        assert_int_equal(symlink(c->link, to), 0);
}

static void crash(void)
{
    struct dt_error err = {0};
    char saved[sizeof(root)];
    copy_tree(root, crashed);
    for (int i = change_count, left = rand() % (change_count + 1); i-- > left;)
        undo(&changes[i]);
    memcpy(saved, root, sizeof(root));
    snprintf(root, sizeof(root), "%s", crashed);
    const float found = found_value();
    memcpy(root, saved, sizeof(root));
    if (found != old_value && found != new_value)
        fail_msg("state %d: %g", states, (double)found);
    old_ones += found == old_value;
    new_ones += found == new_value;
    states++;
    assert_int_equal(dt_file_remove_tree(crashed, &err), 0);
}

/* --- what is not synced --- */

/* A change in the directory `from` is one in `to` from now on. */
static void move_change(struct change *c, const char *from, const char *to)
{
    char path[sizeof(c->to)];
    const size_t n = strlen(from);
    if (strncmp(c->to, from, n) != 0 || c->to[n] != '/')
        return;
    snprintf(path, sizeof(path), "%s%s", to, c->to + n);
    memcpy(c->to, path, sizeof(path));
    snprintf(c->dir, sizeof(c->dir), "%s", to);
}

static void note_change(const char *call, const char *from, const char *to)
{
    struct stat st;
    if (strcmp(call, "rename") == 0 && lstat(to, &st) == 0 &&
        S_ISDIR(st.st_mode)) /* it fails, and they are exchanged next */
        return;
    for (int i = 0; i < change_count; i++)
        move_change(&changes[i], from, to);
    struct change *c = &changes[change_count++];
    assert_true(change_count <= MOST);
    *c = (struct change){.link = ""};
    snprintf(c->call, sizeof(c->call), "%s", call);
    snprintf(c->from, sizeof(c->from), "%s", from);
    snprintf(c->to, sizeof(c->to), "%s", to);
    snprintf(c->dir, sizeof(c->dir), "%.*s", (int)(strrchr(to, '/') - to), to);
    ssize_t n = readlink(to, c->link, sizeof(c->link) - 1);
    c->link[n > 0 ? n : 0] = '\0';
}

static void note_sync(const char *path)
{
    const ino_t inode = inode_of(path);
    int left = 0;
    for (int i = 0; i < dirty_count; i++)
        if (dirty[i] != inode)
            dirty[left++] = dirty[i];
    dirty_count = left;
    left = 0;
    for (int i = 0; i < change_count; i++)
        if (strcmp(changes[i].dir, path) != 0)
            changes[left++] = changes[i];
    change_count = left;
}

static int before(const char *call, const char *a, const char *b)
{
    if (strcmp(call, "mkdir") == 0 || strcmp(call, "close") == 0)
        return 0; /* the next call has the same states */
    for (int i = 0; i < EACH; i++)
        crash();
    if (strcmp(call, "fsync") == 0)
        note_sync(a);
    else if (strcmp(call, "write") == 0 && !is_dirty(inode_of(a)))
        dirty[dirty_count++] = inode_of(a);
    else if (strcmp(call, "create") == 0)
        note_change(call, a, a);
    else if (b)
        note_change(call, a, b);
    return 0;
}

/* --- saves --- */

static void add(struct dt_ckpt_writer *writer, const char *file, float value)
{
    struct dt_error err = {0};
    float data[WEIGHTS];
    struct dt_buffer buf = {data, sizeof(data), &dt_cpu};
    const struct dt_ckpt_tensor tensor = {
        "w", 1, {WEIGHTS}, dt_view_of(&buf, DT_F32), DT_F32, false, 0};
    for (int i = 0; i < WEIGHTS; i++)
        data[i] = value;
    assert_int_equal(dt_ckpt_add_tensors(writer, file, &tensor, 1, NULL, &err),
                     0);
}

/* Two ranks save a step from memory, and older ones go. */
static void save_from_memory(long step, float value)
{
    struct dt_error err = {0};
    static char memory[2][1 << 16] __attribute__((aligned(4096)));
    struct dt_ckpt_stage *stages[2];
    struct dt_ckpt_writer *writers[2];
    const struct dt_ckpt_keep keep = {.limit = 1, .step = step};
    for (int r = 0; r < 2; r++)
        stages[r] = dt_ckpt_stage_create(memory[r], sizeof(memory[r]), &err);
    writers[0] = dt_ckpt_stage_begin(stages[0], root, step, &err);
    writers[1] = dt_ckpt_stage_join(stages[1], root, step, 1,
                                    dt_ckpt_nonce(writers[0]), &err);
    add(writers[0], "model.safetensors", value);
    assert_int_equal(dt_ckpt_add_text(writers[0], "state.json", "{}\n", &err),
                     0);
    add(writers[1], "other.safetensors", value);
    for (int r = 2; r-- > 0;)
        assert_int_equal(dt_ckpt_write(writers[r], &err), 0);
    assert_int_equal(dt_ckpt_merge(writers[0], dt_ckpt_sums(writers[1]), &err),
                     0);
    dt_ckpt_abandon(writers[1]);
    assert_int_equal(dt_ckpt_commit(writers[0], &err), 0);
    assert_int_equal(dt_ckpt_prune(root, &keep, &err), 0);
    for (int r = 0; r < 2; r++)
        dt_ckpt_stage_destroy(stages[r]);
}

/* A new step, or the same one again. */
static void any_crash_leaves_the_old_one_or_the_new_one(void **state)
{
    (void)state;
    snprintf(crashed, sizeof(crashed), "%s", scratch_path("crashed"));
    srand(1);
    save_from_memory(1, 1);
    for (int i = 1; states < STATES; i++) {
        old_value = (float)i;
        new_value = (float)(i + 1);
        disk_watch(before);
        save_from_memory(1 + i / 2, new_value);
        disk_watch(NULL);
        dirty_count = change_count = 0;
    }
    assert_true(old_ones > STATES / 10 && new_ones > STATES / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(any_crash_leaves_the_old_one_or_the_new_one,
                               setup),
    };
    return cmocka_run_group_tests_name("ckpt_crash", tests, NULL, NULL);
}
