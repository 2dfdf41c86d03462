/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_status.c - any bytes as a status.json: read and drawn at any size */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "live/state.h"
#include "top/top_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text, size_t size)
{
    const size_t n = strnlen(text, size);
    if (n == size)
        abort();
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            abort();
}

static void check_state(const struct dt_live_state *s)
{
    check_text(s->name, sizeof(s->name));
    check_text(s->job, sizeof(s->job));
    check_text(s->verdict, sizeof(s->verdict));
    check_text(s->phase, sizeof(s->phase));
    if (s->row_count > DT_LIVE_RANKS || s->loss_count > DT_LIVE_LOSSES ||
        s->event_count > DT_LIVE_EVENTS || s->world < 0)
        abort();
    for (size_t i = 0; i < s->event_count; i++)
        check_text(s->events[i].text, sizeof(s->events[i].text));
    for (size_t i = 0; i < s->row_count; i++)
        check_text(s->rows[i].host, sizeof(s->rows[i].host));
}

static void draw_state(struct dt_live_state *s, FILE *out)
{
    static const int sizes[][2] = {{200, 0}, {80, 24}, {20, 10}, {1, 1}};
    static char *const problem[] = {"a problem"}, *const path[] = {"a/b"};
    for (size_t i = 0; i < 4; i++) {
        struct dt_top_view view = {.columns = sizes[i][0],
                                   .rows = sizes[i][1],
                                   .utf8 = i % 2,
                                   .end = "\n",
                                   .sort = (enum dt_top_sort)i,
                                   .scroll = i,
                                   .now = 1.7e9};
        dt_top_draw(out, s, &view);
        dt_top_draw_list(out, &s, problem, path, 1, &view);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dt_live_state state;
    static FILE *nowhere;
    struct dt_error err;
    char *text = malloc(size + 1);
    if (!text || (!nowhere && !(nowhere = fopen("/dev/null", "we"))))
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    if (dt_live_parse_status(&state, "status.json", text, &err) == 0) {
        check_state(&state);
        draw_state(&state, nowhere);
    } else if (!err.text[0]) {
        abort();
    }
    free(text);
    return 0;
}
