/* SPDX-License-Identifier: Apache-2.0 */
/* board.c - how far a worker is, for its keeper */
#include "config.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/inherited.h"
#include "segment/board.h"

static const uint64_t magic = 0x32647262746b6474; /* "dtktbrd2" */

/* The page. */
struct page {
    uint64_t magic;
    _Atomic int64_t step, patience_ms;
    uint64_t started;
    struct dt_said said;
};

struct dt_board {
    int fd;
    struct page *page;
};

/* Takes fd, and closes it on failure. */
static struct dt_board *map_page(int fd, struct dt_error *err)
{
    struct dt_board *board = malloc(sizeof(*board));
    void *page = board ? mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE,
                              MAP_SHARED, fd, 0)
                       : MAP_FAILED;
    if (page == MAP_FAILED) {
        dt_error_set(err, EX_OSERR, "segment: cannot map a page: %s",
                     strerror(errno));
        close(fd);
        free(board);
        return NULL;
    }
    *board = (struct dt_board){fd, page};
    return board;
}

struct dt_board *dt_board_create(struct dt_error *err)
{
    int fd = memfd_create("disttrain-board", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof(struct page)) < 0) {
        dt_error_set(err, EX_OSERR, "segment: memfd_create: %s",
                     strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    struct dt_board *board = map_page(fd, err);
    if (board) {
        board->page->magic = magic;
        dt_board_clear(board);
    }
    return board;
}

int dt_board_open(struct dt_board **board, struct dt_error *err)
{
    struct dt_inherited inherited;
    struct stat st;
    *board = NULL;
    if (!dt_inherited_find(&inherited))
        return 0;
    if (fstat(inherited.board, &st) < 0 ||
        st.st_size < (off_t)sizeof(struct page))
        return dt_error_set(err, EX_SOFTWARE,
                            "segment: descriptor %d of %s is no board",
                            inherited.board, DT_INHERITED);
    if (!(*board = map_page(inherited.board, err)))
        return -1;
    if ((*board)->page->magic == magic)
        return 0;
    dt_board_close(*board);
    *board = NULL;
    return dt_error_set(err, EX_SOFTWARE,
                        "segment: the board is of another release: start the "
                        "worker with the program of its keeper");
}

int dt_board_fd(const struct dt_board *board)
{
    return board->fd;
}

void dt_board_close(struct dt_board *board)
{
    if (!board)
        return;
    munmap(board->page, sizeof(*board->page));
    close(board->fd);
    free(board);
}

void dt_board_set_step(struct dt_board *board, long step)
{
    if (board)
        atomic_store_explicit(&board->page->step, step, memory_order_release);
}

uint64_t *dt_board_started(struct dt_board *board)
{
    return board ? &board->page->started : NULL;
}

struct dt_said *dt_board_said(struct dt_board *board)
{
    return board ? &board->page->said : NULL;
}

void dt_board_set_patience(struct dt_board *board, double seconds)
{
    if (board)
        atomic_store_explicit(&board->page->patience_ms,
                              (int64_t)(seconds * 1e3), memory_order_release);
}

double dt_board_patience(const struct dt_board *board)
{
    return 1e-3 * (double)atomic_load_explicit(&board->page->patience_ms,
                                               memory_order_acquire);
}

void dt_board_clear(struct dt_board *board)
{
    dt_board_set_step(board, -1);
    dt_board_set_patience(board, 0);
    board->page->started = 0;
}

long dt_board_step(const struct dt_board *board)
{
    return (long)atomic_load_explicit(&board->page->step, memory_order_acquire);
}
