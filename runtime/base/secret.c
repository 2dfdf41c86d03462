/* SPDX-License-Identifier: Apache-2.0 */
/* secret.c - finds secrets by their names, by their looks and by heart */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/secret.h"

enum {
    LEAST_KEY = 16,  /* characters of a key without its beginning */
    LEAST_BARE = 6,  /* of a value after "token: " in a sentence */
    NAME_BYTES = 128 /* of a name that is looked at */
};

/* --- names --- */

struct word {
    const char *text;
    size_t n;
};

/* Whether a word is one of `list`, which has a space around each. */
static bool is_in(const char *list, struct word word)
{
    char text[24];
    if (word.n + 3 > sizeof(text) || word.n == 0)
        return false;
    snprintf(text, sizeof(text), " %.*s ", (int)word.n, word.text);
    for (char *p = text; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return strstr(list, text) != NULL;
}

/* Whether it is, or ends in, a word that means nothing else: PGPASSWORD. */
static bool is_clear(struct word word)
{
    static const char *const ends[] = {"password",  "passwords",  "passwd",
                                       "secret",    "secrets",    "passphrase",
                                       "apikey",    "credential", "credentials",
                                       "accesskey", NULL};
    for (const char *const *end = ends; *end; end++) {
        size_t n = strlen(*end);
        if (n <= word.n && strncasecmp(word.text + word.n - n, *end, n) == 0)
            return true;
    }
    return is_in(" authorization bearer jwt ", word);
}

/* Last words of names that are about something else. */
static const char about[] =
    " file files path dir directory folder sock socket url uri host port user "
    "username email from id ids name names type kind length len size count "
    "limit "
    "max min number column columns field template expires expiry ttl txt yaml "
    "yml json jsonl env toml ini cfg conf sh py so log md pem crt ";
/* Tokens of text. */
static const char of_text[] =
    " pad eos bos unk cls sep mask max min per last first next prev stop end "
    "start begin image video audio special added new num n sub any each single "
    "word text eot eod eom fim tool think current bad ";
/* Keys of data. */
static const char of_data[] =
    " public answer label prompt text input output sort primary foreign dict "
    "json column group cache data image message messages config metric row ref "
    "map list unique partition shard lookup search field index default hot num "
    "chosen rejected ";
static const char of_steps[] =
    " forward backward first second last one per each all reward did low high ";

/* Whether it is written as in "Uid=me;Pwd=...". */
static bool is_title(struct word word)
{
    return word.n > 1 && isupper((unsigned char)word.text[0]) &&
           islower((unsigned char)word.text[1]);
}

/* Whether this word, after the one before it, says that a name is a secret's.
 * `last`: no word follows.
 */
static bool is_secret(struct word before, struct word word, bool last)
{
    bool capital = word.n > 0 && isupper((unsigned char)word.text[0]);
    if (is_clear(word) || is_in(" auth oauth pw ", word))
        return true;
    if (is_in(" token cookie ", word))
        return !is_in(of_text, before);
    if (is_in(" tokens keys ", word))
        return is_in(" api access auth secret private refresh ", before);
    if (!last)
        return false;
    if (is_in(" key ", word))
        return before.n > 0 && !is_in(of_data, before);
    if (is_in(" pass ", word))
        return before.n > 0 ? !is_in(of_steps, before) : capital;
    if (is_in(" pwd ", word)) /* PWD is a directory */
        return before.n > 0 ? !is_in(" old ", before) : is_title(word);
    if (word.n > 3 && strncasecmp(word.text + word.n - 3, "pwd", 3) == 0)
        return !is_in(" oldpwd ", word);
    return is_in(" pat ", word) && (before.n > 0 || capital);
}

/* The word at `p`, of letters, where aWord has two. */
static struct word word_at(const char *p)
{
    size_t n = 0;
    while (isalpha((unsigned char)p[n]) &&
           !(n > 0 && isupper((unsigned char)p[n]) &&
             islower((unsigned char)p[n - 1])))
        n++;
    return (struct word){p, n};
}

/* How sure it is that a name is a secret's. */
enum certainty {
    NO_SECRET,
    BARE,  /* nothing but a word that prose has, too: "token" */
    TOKEN, /* of something, which may be text: "my-token" */
    CLEAR, /* "password", "api_key" */
};

static enum certainty look_at_name(const char *name)
{
    name += strncmp(name, "env.", 4) == 0 ? 4 : 0; /* as the variable */
    struct word before = {name, 0};
    enum certainty found = NO_SECRET;
    for (const char *p = name; *p;) {
        struct word word = word_at(p);
        p += word.n;
        p += strcspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (word.n == 0)
            continue;
        if (is_secret(before, word, !*p))
            found = is_clear(word)                  ? CLEAR
                    : before.n == 0                 ? BARE
                    : is_in(" token tokens ", word) ? TOKEN
                                                    : CLEAR;
        if (!*p && found && is_in(about, word))
            return NO_SECRET;
        before = word;
    }
    return found;
}

bool dt_secret_name(const char *name)
{
    return look_at_name(name) != NO_SECRET;
}

/* Whether a secret was removed here before. */
static bool is_removed(const char *text)
{
    return strncmp(text, DT_SECRET_REMOVED, strlen(DT_SECRET_REMOVED)) == 0;
}

/* --- learned secrets --- */

static char **learned; /* the longest first */
static size_t learned_count;

static void add_learned(const char *value)
{
    size_t n = strlen(value), at = 0;
    while (at < learned_count && strlen(learned[at]) >= n)
        if (strcmp(learned[at++], value) == 0)
            return;
    char **more = reallocarray(learned, learned_count + 1, sizeof(learned[0]));
    char *copy = more ? strdup(value) : NULL;
    if (more)
        learned = more;
    if (!copy)
        return;
    memmove(learned + at + 1, learned + at,
            (learned_count++ - at) * sizeof(learned[0]));
    learned[at] = copy;
}

void dt_secret_learn(const char *value)
{
    size_t n = strlen(value), used = 0;
    char *escaped = NULL;
    if (n < DT_SECRET_LEAST || is_removed(value))
        return;
    add_learned(value);
    if (!strpbrk(value, "\"\\") || !(escaped = malloc(2 * n + 1)))
        return;
    for (const char *p = value; *p; p++) { /* as JSON and YAML have it */
        if (*p == '"' || *p == '\\')
            escaped[used++] = '\\';
        escaped[used++] = *p;
    }
    escaped[used] = '\0';
    add_learned(escaped);
    free(escaped);
}

/* The length of something learned at the start of `text`; 0: there is none. */
static size_t learned_at(const char *text)
{
    for (size_t i = 0; i < learned_count; i++)
        if (strncmp(text, learned[i], strlen(learned[i])) == 0)
            return strlen(learned[i]);
    return 0;
}

/* --- looks --- */

/* Whether n bytes are drawn at random, as those of a key are, and no name that
 * somebody has thought of: these have small letters and digits, in parts.
 */
static bool is_drawn(const char *text, size_t n)
{
    size_t part = 0, longest = 0;
    bool capital = false;
    for (size_t i = 0; i < n; i++) {
        part = isalnum((unsigned char)text[i]) ? part + 1 : 0;
        longest = part > longest ? part : longest;
        capital |= isupper((unsigned char)text[i]);
    }
    return longest >= LEAST_KEY || (capital && n >= 2 * LEAST_KEY);
}

/* The length of a key of a known service at the start of `text`, or 0. */
static size_t key_at(const char *text)
{
    static const char *const beginnings[] = {
        "hf_",  "sk-",         "ghp_",   "gho_",  "ghs_",
        "ghu_", "AKIA",        "xoxb-",  "xoxp-", "npm_",
        "AIza", "github_pat_", "glpat-", "eyJ",   NULL};
    static const char key[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    for (const char *const *b = beginnings; *b; b++) {
        size_t n = strlen(*b), rest;
        if (strncmp(text, *b, n) == 0 &&
            (rest = strspn(text + n, key)) >= LEAST_KEY &&
            is_drawn(text + n, rest))
            return n + rest;
    }
    return 0;
}

/* The length of "user:password" after a "://", if a '@' ends it; else 0.
 * Passwords have '@', too.
 */
static size_t user_at(const char *text)
{
    size_t n = strcspn(text, "/?#\"' \t\n");
    while (n > 0 && text[n] != '@')
        n--;
    return n;
}

/* The length of a value without the punctuation of its sentence. */
static size_t word_length(const char *text)
{
    size_t n = strcspn(text, "\"'& \t\r\n");
    while (n > 0 && strchr(",;.:)}]>", text[n - 1]))
        n--;
    return n;
}

/* Whether n bytes may be a word of a sentence. */
static bool is_plain(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!islower((unsigned char)text[i]) &&
            (i > 0 || !isupper((unsigned char)text[i])))
            return false;
    return true;
}

/* Whether n bytes after "secret: " are rather words of a sentence; `bare`:
 * after "token: ".
 */
static bool is_prose(const char *text, size_t n, bool bare)
{
    const bool plain = is_plain(text, n), few = n < LEAST_BARE;
    return bare ? plain || few : plain && few;
}

/* The length of "Bearer " or "Basic " at the start of `text`; 0: neither. */
static size_t scheme_at(const char *text)
{
    size_t n = strncasecmp(text, "bearer ", 7) == 0  ? 7
               : strncasecmp(text, "basic ", 6) == 0 ? 6
                                                     : 0;
    return n > 0 ? n + strspn(text + n, " ") : 0;
}

/* The length of the word of another scheme, as in "Token 0a1b2c3d"; 0: no key
 * follows it.
 */
static size_t other_scheme_at(const char *text)
{
    size_t n = 0;
    while (isalpha((unsigned char)text[n]) || text[n] == '-')
        n++;
    size_t blanks = strspn(text + n, " ");
    size_t rest = blanks > 0 ? word_length(text + n + blanks) : 0;
    return n > 0 && rest >= LEAST_BARE && !is_plain(text + n + blanks, rest)
               ? n + blanks
               : 0;
}

/* The length of an authorization, and not of "basic idea". */
static size_t authorization_at(const char *text)
{
    size_t before = scheme_at(text);
    size_t n = before > 0 ? word_length(text + before) : 0;
    return n < LEAST_BARE || is_plain(text + before, n) ||
                   is_removed(text + before)
               ? 0
               : before + n;
}

/* --- values with names --- */

struct found {
    const char *at;
    size_t n;
    bool to_quote; /* a value of JSON that is no string */
};

/* The length up to the quote that ends a string. */
static size_t string_length(const char *text, char quote)
{
    size_t n = 0;
    for (; text[n] && text[n] != quote; n++)
        if (text[n] == '\\' && text[n + 1])
            n++;
    return n;
}

/* The length of a list or a section, up to the bracket that ends it. */
static size_t brackets_length(const char *text)
{
    size_t n = 0;
    int depth = 0;
    do {
        if (text[n] == '"')
            n += 1 + string_length(text + n + 1, '"');
        else if (text[n] == '[' || text[n] == '{')
            depth++;
        else if (text[n] == ']' || text[n] == '}')
            depth--;
        n += text[n] != '\0';
    } while (depth > 0 && text[n]);
    return n;
}

static const char *skip_blanks(const char *p)
{
    return p + strspn(p, " \t");
}

/* Where the value of a name begins that ends at `p`; NULL: it has none.
 * `option`: it begins with '-', so that its value may be the next word.
 */
static const char *value_of(const char *p, bool option, char *quote,
                            bool *colon)
{
    const char *start = p;
    *quote = *p == '\\' ? p[1] : *p;
    *quote = *quote == '"' || *quote == '\'' ? *quote : '\0';
    p += *quote ? 1 + (*p == '\\') : 0;
    const char *next = skip_blanks(p);
    *colon = *next == ':';
    if (*next == '=' || *next == ':')
        return skip_blanks(next + 1);
    if (!option || (*quote && *next != ','))
        return NULL;
    next = skip_blanks(next + (*next == ','));
    return next > start && *next != '-' ? next : NULL;
}

#define ENDS "\"'& \t\r\n,;" /* of a value without quotes */

/* The length of a reference to a variable, ${NAME} or ${NAME:?}, at the start
 * of `text`; 0: it is none.
 */
static size_t reference_at(const char *text)
{
    size_t n = strncmp(text, "${", 2) == 0 ? 2 : 0, begin = n;
    while (n > 0 && (isalnum((unsigned char)text[n]) || text[n] == '_'))
        n++;
    if (n == begin)
        return 0;
    n += strncmp(text + n, ":?", 2) == 0 ? 2 : 0;
    return text[n] == '}' ? n + 1 : 0;
}

bool dt_secret_refers(const char *value)
{
    size_t n = reference_at(value);
    return n > 0 && !value[n];
}

/* Whether a name is that of a file in a message: "/etc/passwd: it is ...". */
static bool is_path(const char *text, const char *name)
{
    return name > text && name[-1] == '/';
}

/* Whether a word of text stands before a name, as in "stop token=2". */
static bool follows_word_of_text(const char *text, const char *name)
{
    size_t n = 0;
    if (name < text + 2 || name[-1] != ' ')
        return false;
    while (name - 1 - n > text && isalpha((unsigned char)name[-2 - (long)n]))
        n++;
    return is_in(" pad eos bos unk cls sep mask stop special added image video "
                 "audio eot eod eom fim tool ",
                 (struct word){name - 1 - n, n});
}

/* Whether n bytes are no secret of such a name: a token of text, as <|x|> and
 * 128009 are, or a placeholder of a manual, as <token> and ... are.
 */
static bool is_no_key(const char *text, size_t n, enum certainty certainty)
{
    if (n > 0 && (strspn(text, ".*") >= n ||
                  (n == 3 && strncmp(text, "\xe2\x80\xa6", 3) == 0)))
        return true;
    if (certainty == CLEAR)
        return false;
    return (text[0] == '<' && text[strcspn(text, "> \t\r\n")] == '>') ||
           (n < LEAST_KEY && strspn(text, "0123456789") >= n);
}

/* Finds the value of a name that is a secret's and begins at `p`. */
static bool find_named(const char *text, const char *p, struct found *found)
{
    char name[NAME_BYTES], quote;
    bool colon;
    size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_-.");
    if (n == 0 || n >= sizeof(name))
        return false;
    memcpy(name, p, n);
    name[n] = '\0';
    const enum certainty certainty = look_at_name(name);
    if (certainty == NO_SECRET ||
        (certainty == BARE && follows_word_of_text(text, p)))
        return false;
    const char *value = value_of(p + n, p[0] == '-', &quote, &colon);
    if (!value || is_removed(value))
        return false;
    size_t slash = *value == '\\' && (value[1] == '"' || value[1] == '\'');
    char open = value[slash];
    *found = (struct found){.at = value};
    if (open == '"' || open == '\'') {
        found->at += 1 + slash;
        found->n = string_length(found->at, slash ? '\\' : open);
        return found->n > 0 && !is_no_key(found->at, found->n, certainty) &&
               reference_at(found->at) != found->n;
    }
    if (is_no_key(value, word_length(value), certainty) ||
        strncmp(value, "?}", 2) == 0 || /* of ${NAME:?} */
        (reference_at(value) > 0 && strchr(ENDS, value[reference_at(value)])))
        return false;
    if (open == '[' || open == '{') {
        found->n = brackets_length(value);
    } else {
        size_t before = scheme_at(value);
        if (before == 0 && strcasestr(name, "authorization"))
            before = other_scheme_at(value);
        found->n = before + word_length(value + before);
        if (is_in(" true false null none ", (struct word){value, found->n}) ||
            (colon && !quote &&
             (is_prose(value, found->n, certainty == BARE) ||
              is_path(text, p))))
            return false;
    }
    found->to_quote = quote == '"' && colon;
    return found->n > 0;
}

/* --- texts --- */

static size_t longest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Finds the first secret in `text` from `p` on. `by_heart`: also those that are
 * learned.
 */
static bool find_next(const char *text, const char *p, bool by_heart,
                      struct found *found)
{
    for (; *p; p++) {
        bool begins = p == text || !isalnum((unsigned char)p[-1]);
        size_t n = by_heart ? learned_at(p) : 0;
        if (begins)
            n = longest(n, longest(key_at(p), authorization_at(p)));
        if (p >= text + 3 && strncmp(p - 3, "://", 3) == 0)
            n = longest(n, user_at(p));
        *found = (struct found){.at = p, .n = n};
        if (n > 0 && !is_removed(p))
            return true;
        if (begins && (p == text || !strchr("_-.", p[-1])) &&
            find_named(text, p, found))
            return true;
    }
    return false;
}

static char *remove_all(const char *text, bool by_heart)
{
    char *to = NULL;
    size_t bytes = 0;
    struct found found;
    const char *p = text;
    FILE *out = open_memstream(&to, &bytes);
    if (!out)
        return NULL;
    while (find_next(text, p, by_heart, &found)) {
        const char *quote = found.to_quote ? "\"" : "";
        fprintf(out, "%.*s%s" DT_SECRET_REMOVED "%s", (int)(found.at - p), p,
                quote, quote);
        p = found.at + found.n;
    }
    fputs(p, out);
    if (fclose(out) == 0)
        return to;
    free(to);
    return NULL;
}

char *dt_secret_remove(const char *text)
{
    return remove_all(text, true);
}

char *dt_secret_remove_seen(const char *text)
{
    return remove_all(text, false);
}

void dt_secret_clean(char *text, size_t size)
{
    static const size_t n = sizeof(DT_SECRET_REMOVED) - 1;
    struct found found;
    const char *p = text;
    while (find_next(text, p, true, &found)) {
        size_t at = (size_t)(found.at - text);
        size_t rest = strlen(found.at + found.n);
        if (at + n >= size) {
            text[at] = '\0';
            return;
        }
        rest = rest < size - at - n ? rest : size - at - n - 1;
        memmove(text + at + n, found.at + found.n, rest);
        memcpy(text + at, DT_SECRET_REMOVED, n);
        text[at + n + rest] = '\0';
        p = text + at + n;
    }
}

/* Learns n bytes, without the backslashes of a string. */
static void learn_part(const char *text, size_t n)
{
    char *value = malloc(n + 1);
    size_t used = 0;
    for (size_t i = 0; value && i < n; i++) {
        if (text[i] == '\\' && i + 1 < n && strchr("\"\\", text[i + 1]))
            i++;
        value[used++] = text[i];
    }
    if (!value)
        return;
    value[used] = '\0';
    dt_secret_learn(value);
    char *password = strchr(value, ':'); /* of a URL */
    if (password)
        dt_secret_learn(password + 1);
    free(value);
}

/* Learns the strings of a list or section. */
static void learn_strings(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] != '"')
            continue;
        size_t length = string_length(text + i + 1, '"');
        learn_part(text + i + 1, length);
        i += length + 1;
    }
}

void dt_secret_learn_text(const char *text)
{
    struct found found;
    for (const char *p = text; find_next(text, p, true, &found);) {
        size_t scheme = scheme_at(found.at);
        if (*found.at == '[' || *found.at == '{')
            learn_strings(found.at, found.n);
        else
            learn_part(found.at + scheme, found.n - scheme);
        p = found.at + found.n;
    }
}

void dt_secret_learn_named(const char *name, const char *value)
{
    if (dt_secret_name(name))
        dt_secret_learn(value);
    else
        dt_secret_learn_text(value);
}

/* Whether the value of a variable is a place or a number, whatever its name. */
static bool is_ordinary(const char *value)
{
    return (value[0] == '/' && access(value, F_OK) == 0) ||
           !value[strspn(value, "0123456789")];
}

void dt_secret_learn_environment(void)
{
    char name[NAME_BYTES];
    for (char **v = environ; v && *v; v++) {
        size_t n = strcspn(*v, "=");
        if (n >= sizeof(name) || (*v)[n] != '=')
            continue;
        memcpy(name, *v, n);
        name[n] = '\0';
        if (!is_ordinary(*v + n + 1))
            dt_secret_learn_named(name, *v + n + 1);
    }
}
