/* SPDX-License-Identifier: Apache-2.0 */
/* secret.c - finds secrets by their names and by their looks */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/secret.h"

enum { LEAST_KEY = 16 }; /* characters of a key without its beginning */

/* Whether a word of n bytes is one of `words`. */
static bool is_one_of(const char *const *words, const char *word, size_t n)
{
    for (; *words; words++)
        if (strlen(*words) == n && strncasecmp(*words, word, n) == 0)
            return true;
    return false;
}

bool dt_secret_name(const char *name)
{
    static const char *const secret[] = {
        "token",      "secret",      "secrets", "password", "passwd",
        "passphrase", "credential",  "auth",    "apikey",   "authorization",
        "bearer",     "credentials", "pw",      NULL};
    static const char *const last[] = {"key", NULL};
    size_t n = 0;
    for (const char *p = name; *p; p += n + (p[n] != '\0')) {
        n = 0;
        while (isalpha((unsigned char)p[n]))
            n++;
        if (is_one_of(secret, p, n) ||
            (p[n] == '\0' && p > name && is_one_of(last, p, n)))
            return true;
    }
    return false;
}

/* The length of a secret at the start of `text`; 0: there is none. */
static size_t secret_at(const char *text)
{
    static const char *const beginnings[] = {"hf_",         "sk-",    "ghp_",
                                             "gho_",        "AKIA",   "xoxb-",
                                             "github_pat_", "glpat-", NULL};
    static const char key[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    for (const char *const *b = beginnings; *b; b++) {
        size_t n = strlen(*b), rest;
        if (strncmp(text, *b, n) == 0 &&
            (rest = strspn(text + n, key)) >= LEAST_KEY)
            return n + rest;
    }
    return 0;
}

/* The length of "user:password" at the start of what follows a "://", if a '@'
 * ends it; else 0.
 */
static size_t user_at(const char *text)
{
    size_t n = strcspn(text, "@/ \"'");
    return text[n] == '@' ? n : 0;
}

/* The length of what follows "Bearer " or "Basic "; 0: it is neither. */
static size_t authorization_at(const char *text)
{
    return strncasecmp(text, "bearer ", 7) == 0 ||
                   strncasecmp(text, "basic ", 6) == 0
               ? strcspn(text, "\"'\n")
               : 0;
}

char *dt_secret_remove(const char *value)
{
    char *to = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&to, &bytes);
    if (!out)
        return NULL;
    for (const char *p = value; *p;) {
        bool begins = p == value || !isalnum((unsigned char)p[-1]);
        size_t n = begins ? secret_at(p) : 0;
        if (n == 0 && begins)
            n = authorization_at(p);
        if (n == 0 && p >= value + 3 && strncmp(p - 3, "://", 3) == 0)
            n = user_at(p);
        if (n > 0)
            fputs(DT_SECRET_REMOVED, out);
        else
            putc(p[n++], out);
        p += n;
    }
    if (fclose(out) == 0)
        return to;
    free(to);
    return NULL;
}
