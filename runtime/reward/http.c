/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.c - a reward function that is a server, by libcurl
 *
 * libcurl brings some thirty libraries along. Linked, they would cost every
 * rank of every run 20 ms and a search for each on a shared file system.
 */
#include "config.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/secret.h"
#include "reward/reward_impl.h"

/* --- libcurl's functions, loaded only if a server is asked --- */

#define CURL_CALLS(X)                                                          \
    X(global_init)                                                             \
    X(slist_append)                                                            \
    X(slist_free_all)                                                          \
    X(easy_init)                                                               \
    X(easy_setopt)                                                             \
    X(easy_getinfo)                                                            \
    X(easy_strerror)                                                           \
    X(easy_cleanup)                                                            \
    X(multi_init)                                                              \
    X(multi_add_handle)                                                        \
    X(multi_remove_handle)                                                     \
    X(multi_perform)                                                           \
    X(multi_poll)                                                              \
    X(multi_info_read)                                                         \
    X(multi_cleanup)

struct curl {
#define MEMBER(name) __typeof__(curl_##name) *name;
    CURL_CALLS(MEMBER)
#undef MEMBER
};

#define LIBRARY "libcurl.so.4"

static struct curl table;
static struct dt_error failure;
static bool is_loaded;

static int find_calls(void *library)
{
#define FIND(call)                                                             \
    table.call =                                                               \
        (__typeof__(curl_##call) *)(uintptr_t)dlsym(library, "curl_" #call);   \
    if (!table.call)                                                           \
        return dt_error_set(&failure, EX_UNAVAILABLE,                          \
                            LIBRARY " has no curl_" #call                      \
                                    ": libcurl 7.68 or newer is needed");
    CURL_CALLS(FIND)
#undef FIND
    return 0;
}

static void load_once(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        dt_error_set(&failure, EX_UNAVAILABLE,
                     "%s: rewards of type http need it (Debian: libcurl4)",
                     dlerror());
        return;
    }
    if (find_calls(library) < 0)
        return;
    is_loaded = table.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    if (!is_loaded)
        dt_error_set(&failure, EX_UNAVAILABLE,
                     LIBRARY ": curl_global_init failed");
}

/* Loads and initializes libcurl once; any thread may call it. The table lives
 * until the program ends. NULL: EX_UNAVAILABLE, with the missing part.
 */
static const struct curl *load_curl(struct dt_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_once);
    if (is_loaded)
        return &table;
    *err = failure;
    return NULL;
}

/* --- a server --- */

enum {
    REPLY_BYTES = 1 << 20, /* of an answer, and for each value in it: */
    VALUE_BYTES = 256,     /* larger than for a program: servers log more */
    LOOK_MS = 1000,
};

struct http {
    const struct curl *curl;
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    const char *url; /* of this lane */
    char *shown;     /* it, without secrets */
    json_int_t id;   /* of the last request */
    char why[CURL_ERROR_SIZE];
    char *reply;
    size_t bytes, most; /* read; at most */
    bool too_long;
};

/* Called by curl with a part of the answer. */
static size_t take_part(char *part, size_t size, size_t count, void *ctx)
{
    struct http *http = ctx;
    size_t n = size * count;
    char *reply = n <= http->most - http->bytes
                      ? realloc(http->reply, http->bytes + n + 1)
                      : NULL;
    http->too_long = n > http->most - http->bytes;
    if (!reply)
        return 0;
    memcpy(reply + http->bytes, part, n);
    http->reply = reply;
    http->bytes += n;
    return n;
}

/* Lanes share the addresses evenly. */
static const char *choose_url(const struct dt_reward_lane *lane)
{
    return lane->conf->url.text[lane->number % lane->conf->url.count];
}

/* Each secret is a header. -1: out of memory. */
static int add_headers(struct http *http, char *const *secrets)
{
    for (; secrets && *secrets; secrets++) {
        char *header = NULL;
        size_t n = strcspn(*secrets, "=");
        if (asprintf(&header, "%.*s: %s", (int)n, *secrets, *secrets + n + 1) <
            0)
            return -1;
        for (char *p = header; *p != ':'; p++)
            *p = *p == '_' ? '-' : *p;
        struct curl_slist *more =
            http->curl->slist_append(http->headers, header);
        free(header);
        if (!more)
            return -1;
        http->headers = more;
    }
    return 0;
}

static int open_http(struct dt_reward_lane *lane, struct dt_error *err)
{
    const struct curl *curl = load_curl(err);
    if (!curl || dt_conf_check_secrets(lane->conf, err) < 0)
        return -1;
    struct http *http = calloc(1, sizeof(*http));
    lane->state = http;
    if (http) {
        http->curl = curl;
        http->url = choose_url(lane);
        http->shown = dt_secret_remove(http->url);
        http->multi = curl->multi_init();
        http->easy = curl->easy_init();
        http->headers =
            curl->slist_append(NULL, "Content-Type: application/json");
    }
    if (!http || !http->shown || !http->multi || !http->easy ||
        !http->headers || add_headers(http, lane->conf->secrets) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    long timeout_ms = (long)(lane->conf->timeout_s * 1e3) + 1;
    curl->easy_setopt(http->easy, CURLOPT_URL, http->url);
    curl->easy_setopt(http->easy, CURLOPT_HTTPHEADER, http->headers);
    curl->easy_setopt(http->easy, CURLOPT_TIMEOUT_MS, timeout_ms);
    curl->easy_setopt(http->easy, CURLOPT_NOSIGNAL, 1L);
    curl->easy_setopt(http->easy, CURLOPT_ERRORBUFFER, http->why);
    curl->easy_setopt(http->easy, CURLOPT_WRITEFUNCTION, take_part);
    curl->easy_setopt(http->easy, CURLOPT_WRITEDATA, http);
    curl->easy_setopt(http->easy, CURLOPT_USERAGENT, PACKAGE_STRING);
    return 0;
}

static void close_http(struct dt_reward_lane *lane)
{
    struct http *http = lane->state;
    if (!http)
        return;
    http->curl->easy_cleanup(http->easy);
    http->curl->multi_cleanup(http->multi);
    http->curl->slist_free_all(http->headers);
    free(http->reply);
    free(http->shown);
    free(http);
}

/* Moves the transfer on until it has ended. -1: the lane must stop. */
static int transfer(const struct dt_reward_lane *lane, CURLcode *result,
                    struct dt_error *err)
{
    struct http *http = lane->state;
    double deadline = dt_clock_now() + lane->conf->timeout_s + 10;
    int running = 1, left;
    *result = CURLE_OPERATION_TIMEDOUT;
    while (running) {
        struct curl_waitfd stop = {.fd = lane->stop,
                                   .events = CURL_WAIT_POLLIN};
        if (http->curl->multi_perform(http->multi, &running) != CURLM_OK ||
            (running && http->curl->multi_poll(http->multi, &stop, 1, LOOK_MS,
                                               NULL) != CURLM_OK))
            return dt_error_set(err, EX_OSERR, "%s: curl failed", http->shown);
        if (stop.revents)
            return dt_error_set(err, EX_UNAVAILABLE, "%s: stopped",
                                http->shown);
        if (dt_clock_now() > deadline)
            return 0; /* curl has its own timeout; this one is for its bugs */
    }
    for (CURLMsg *m; (m = http->curl->multi_info_read(http->multi, &left));)
        if (m->msg == CURLMSG_DONE)
            *result = m->data.result;
    return 0;
}

/* The beginning of an answer that is an error, for a message. */
static void show(const struct http *http, char text[100])
{
    size_t n = http->bytes < 99 ? http->bytes : 99;
    for (size_t i = 0; i < n; i++)
        text[i] = http->reply[i] >= ' ' && http->reply[i] <= '~'
                      ? http->reply[i]
                      : '?';
    text[n] = '\0';
}

/* Whether curl and the server succeeded. -1: EX_CONFIG, the server refuses the
 * request and would do so again.
 */
static int check_result(const struct http *http, CURLcode result,
                        struct dt_error *err)
{
    char text[100];
    long code = 0;
    http->curl->easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &code);
    if (http->too_long)
        return dt_error_set(err, EX_PROTOCOL,
                            "%s: an answer of more than %zu bytes", http->shown,
                            http->most);
    if (result != CURLE_OK)
        return dt_error_set(err, EX_UNAVAILABLE, "%s: %s", http->shown,
                            *http->why ? http->why
                                       : http->curl->easy_strerror(result));
    if (code >= 200 && code < 300)
        return 0;
    show(http, text);
    return dt_error_set(err, code >= 500 ? EX_UNAVAILABLE : EX_CONFIG,
                        "%s: status %ld: %s", http->shown, code, text);
}

/* Posts a text; the answer is in http->reply. */
static int post(const struct dt_reward_lane *lane, const char *body,
                struct dt_error *err)
{
    struct http *http = lane->state;
    CURLcode result;
    http->bytes = 0;
    http->too_long = false;
    http->why[0] = '\0';
    http->curl->easy_setopt(http->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                            (curl_off_t)strlen(body));
    http->curl->easy_setopt(http->easy, CURLOPT_POSTFIELDS, body);
    if (http->curl->multi_add_handle(http->multi, http->easy) != CURLM_OK)
        return dt_error_set(err, EX_OSERR, "%s: curl failed", http->shown);
    int rc = transfer(lane, &result, err);
    http->curl->multi_remove_handle(http->multi, http->easy);
    return rc < 0 ? -1 : check_result(http, result, err);
}

/* The body of a request. NULL and err: as dt_reward_request. */
static char *make_body(const struct dt_reward_lane *lane,
                       const struct dt_reward_part *part, json_int_t id,
                       struct dt_error *err)
{
    const struct dt_conf_reward *conf = lane->conf;
    if (!conf->openrlhf)
        return dt_reward_request(part, id,
                                 conf->image_bytes ? lane->images : NULL, err);
    for (size_t i = 0; i < part->count; i++)
        if (dt_reward_at(part, i)->images) {
            dt_error_set(err, EX_DATAERR,
                         "prompt %llu has images, which requests of style "
                         "openrlhf have no place for: write style: disttrain",
                         (unsigned long long)dt_reward_at(part, i)->prompt);
            return NULL;
        }
    char *body = dt_reward_queries(part, conf->answer_column);
    if (!body)
        dt_error_set(err, EX_OSERR, "out of memory");
    return body;
}

static int score_http(struct dt_reward_lane *lane,
                      const struct dt_reward_part *part, double *values,
                      struct dt_error *err)
{
    struct http *http = lane->state;
    const struct dt_conf_reward *conf = lane->conf;
    const struct dt_reward_form form = {
        .id = ++http->id, .count = part->count, .channels = &conf->channels};
    char *body = make_body(lane, part, form.id, err);
    http->most =
        REPLY_BYTES + VALUE_BYTES * part->count * dt_conf_reward_channels(conf);
    int rc = body ? post(lane, body, err) : -1;
    free(body);
    if (rc == 0) {
        const char *reply = http->reply ? http->reply : "";
        rc = conf->openrlhf
                 ? dt_reward_openrlhf(reply, http->bytes, part->count, values,
                                      err)
                 : dt_reward_reply(reply, http->bytes, &form, values, err);
        if (rc < 0)
            dt_error_prefix(err, "%s", http->shown);
    }
    return rc;
}

const struct dt_reward_kind dt_reward_http = {
    .pause_s = 1,
    .open = open_http,
    .score = score_http,
    .close = close_http,
};
