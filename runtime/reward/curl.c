/* SPDX-License-Identifier: Apache-2.0 */
/* curl.c - finds libcurl's functions */
#include "config.h"

#include "reward/curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define LIBRARY "libcurl.so.4"

static struct dt_curl table;
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
    DT_CURL_CALLS(FIND)
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

const struct dt_curl *dt_curl_load(struct dt_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_once);
    if (is_loaded)
        return &table;
    *err = failure;
    return NULL;
}
