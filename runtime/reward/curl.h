/* SPDX-License-Identifier: Apache-2.0 */
/*
 * curl.h - libcurl's functions, loaded only if a server is asked
 *
 * libcurl brings some thirty libraries along. Linked, they would cost every
 * rank of every run 20 ms and a search for each on a shared file system.
 */
#ifndef DT_REWARD_CURL_H
#define DT_REWARD_CURL_H

#include <curl/curl.h>

#include "base/error.h"

#define DT_CURL_CALLS(X)                                                       \
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

struct dt_curl {
#define DT_CURL_MEMBER(name) __typeof__(curl_##name) *name;
    DT_CURL_CALLS(DT_CURL_MEMBER)
#undef DT_CURL_MEMBER
};

/* Loads and initializes libcurl once; any thread may call it. The table lives
 * until the program ends. NULL: EX_UNAVAILABLE, with the missing part.
 */
const struct dt_curl *dt_curl_load(struct dt_error *err);

#endif
