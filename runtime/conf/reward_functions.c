/* SPDX-License-Identifier: Apache-2.0 */
/* reward_functions.c - reads reward.functions, and the secrets that they name
 */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pattern.h"
#include "base/secret.h"
#include "base/str.h"
#include "conf/conf_impl.h"

/* --- secrets --- */

enum { BYTES_MAX = 64 << 10 }; /* of a file */

static const char secrets_key[] = "reward.functions.secrets_from";
static const char of_variables[] = "env:";

/* The length of a name of a variable at the start of `text`. */
static size_t name_length(const char *text)
{
    size_t n = 0;
    while (isalpha((unsigned char)text[n]) || text[n] == '_' ||
           (n > 0 && isdigit((unsigned char)text[n])))
        n++;
    return n;
}

/* Adds "NAME=value", or "NAME" of a variable that is not set. -1: noted. */
static int add_secret(struct dt_conf_reader *reader,
                      struct dt_conf_reward *reward, const char *text,
                      const char *value)
{
    size_t count = 0;
    while (reward->secrets && reward->secrets[count])
        count++;
    char **more = reallocarray(reward->secrets, count + 2, sizeof(more[0]));
    if (more) {
        reward->secrets = more;
        more[count] = strdup(text);
        more[count + 1] = NULL;
    }
    if (!more || !more[count]) {
        reader->draft.problems.out_of_memory = true;
        return -1;
    }
    if (value)
        dt_secret_learn(value);
    return 0;
}

static bool has_controls(const char *text)
{
    for (; *text; text++)
        if (iscntrl((unsigned char)*text))
            return true;
    return false;
}

/* Takes the variable whose name has n bytes. -1: noted. */
static int take_variable(struct dt_conf_reader *reader,
                         struct dt_conf_reward *reward,
                         const struct dt_tree *node, const char *name, size_t n)
{
    char *text = strndup(name, n), *whole = NULL;
    const char *value = text ? getenv(text) : NULL;
    int rc = -1;
    if (!text || (value && asprintf(&whole, "%s=%s", text, value) < 0)) {
        reader->draft.problems.out_of_memory = true;
        whole = NULL;
    } else if (value && has_controls(value)) {
        dt_conf_note(&reader->draft.problems, node->place, secrets_key,
                     "%s: has a line break or another control character", text);
    } else {
        rc = add_secret(reader, reward, value ? whole : text, value);
    }
    free(whole);
    free(text);
    return rc;
}

/* Takes those of "NAME,NAME". -1: noted. */
static int take_variables(struct dt_conf_reader *reader,
                          struct dt_conf_reward *reward,
                          const struct dt_tree *node, const char *names)
{
    do {
        size_t n = name_length(names);
        if (n == 0 || (names[n] && names[n] != ',')) {
            dt_conf_note(&reader->draft.problems, node->place, secrets_key,
                         "expected env: and names of variables, such as "
                         "env:JUDGE_TOKEN,OTHER");
            return -1;
        }
        if (take_variable(reader, reward, node, names, n) < 0)
            return -1;
        names += n;
    } while (*names++ == ',');
    return 0;
}

/* Takes the lines of a file; messages do not show them. -1: noted. */
static int take_lines(struct dt_conf_reader *reader,
                      struct dt_conf_reward *reward, const struct dt_tree *node,
                      char *text)
{
    char *rest = text, *line;
    for (int number = 1; (line = strsep(&rest, "\n")); number++) {
        size_t n = name_length(line), end = strlen(line);
        if (end > 0 && line[end - 1] == '\r')
            line[--end] = '\0';
        if (end == 0 || line[0] == '#')
            continue;
        if (n == 0 || line[n] != '=' || has_controls(line)) {
            dt_conf_note(&reader->draft.problems, node->place, secrets_key,
                         "%s:%d: expected NAME=value", reward->secrets_from,
                         number);
            return -1;
        }
        if (add_secret(reader, reward, line, line + n + 1) < 0)
            return -1;
    }
    return 0;
}

/* Others must not read it. -1: noted. */
static int check_mode(struct dt_conf_reader *reader, const char *path,
                      const struct dt_tree *node)
{
    struct stat st;
    if (stat(path, &st) < 0)
        dt_conf_note(&reader->draft.problems, node->place, secrets_key,
                     "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        dt_conf_note(&reader->draft.problems, node->place, secrets_key,
                     "%s: not a file", path);
    else if (st.st_mode & (S_IRWXG | S_IRWXO))
        dt_conf_note(&reader->draft.problems, node->place, secrets_key,
                     "%s: others than its owner may use it: chmod 600 %s", path,
                     path);
    else
        return 0;
    return -1;
}

static int take_file(struct dt_conf_reader *reader,
                     struct dt_conf_reward *reward, const struct dt_tree *node)
{
    struct dt_error err;
    char *path =
        dt_conf_path(reader->draft.directory, reward->secrets_from, &err);
    if (path) {
        free(reward->secrets_from);
        reward->secrets_from = path;
        if (check_mode(reader, path, node) < 0)
            return -1;
    }
    char *text = path ? dt_file_read(path, BYTES_MAX, &err) : NULL;
    if (!text)
        dt_conf_note_error(&reader->draft.problems, node->place, secrets_key,
                           &err);
    int rc = text ? take_lines(reader, reward, node, text) : -1;
    free(text);
    return rc;
}

static int take_secrets(struct dt_conf_reader *reader,
                        struct dt_conf_reward *reward,
                        const struct dt_tree *node)
{
    const size_t n = strlen(of_variables);
    if (!reward->secrets_from)
        return 0;
    return strncmp(reward->secrets_from, of_variables, n) == 0
               ? take_variables(reader, reward, node, reward->secrets_from + n)
               : take_file(reader, reward, node);
}

int dt_conf_check_secrets(const struct dt_conf_reward *reward,
                          struct dt_error *err)
{
    for (char **s = reward->secrets; s && *s; s++)
        if (!strchr(*s, '='))
            return dt_error_set(err, EX_CONFIG,
                                "secrets_from: the variable %s is not set on "
                                "this rank",
                                *s);
    return 0;
}

/* --- functions --- */

enum { HTTP_RETRIES = 3 }; /* servers are restarted while a run goes on */

static void clear_function(struct dt_conf_reward *reward)
{
    for (size_t i = 0; i < dt_conf_reward_key_count; i++)
        dt_conf_value_clear(reward, &dt_conf_reward_keys[i]);
    for (char **s = reward->secrets; s && *s; s++)
        free(*s);
    free(reward->secrets);
    reward->secrets = NULL;
}

void dt_conf_rewards_clear(struct dt_conf_rewards *rewards)
{
    for (size_t i = 0; i < rewards->count; i++)
        clear_function(&rewards->functions[i]);
    free(rewards->functions);
    *rewards = (struct dt_conf_rewards){0};
}

static const struct dt_tree *child_of(const struct dt_tree *map,
                                      const char *key)
{
    const struct dt_tree *c = map->child;
    while (c && strcmp(c->key, key) != 0)
        c = c->next;
    return c;
}

static void set_defaults(struct dt_conf_reader *reader)
{
    for (size_t i = 0; i < dt_conf_reward_key_count; i++)
        dt_conf_set_default(reader, &dt_conf_reward_keys[i]);
}

/* Notes that a function has no key of this name. */
static void note_unknown(struct dt_conf_reader *reader,
                         const struct dt_tree *node)
{
    const char *names[64];
    char path[256];
    size_t n = 0;
    for (size_t i = 0; i < dt_conf_reward_key_count && n < 64; i++)
        names[n++] = strrchr(dt_conf_reward_keys[i].path, '.') + 1;
    const char *nearest = dt_str_nearest(node->key, names, n);
    snprintf(path, sizeof(path), "reward.functions.%s", node->key);
    if (nearest)
        dt_conf_note(&reader->draft.problems, node->key_place, path,
                     "unknown key; did you mean %s?", nearest);
    else
        dt_conf_note(&reader->draft.problems, node->key_place, path,
                     "unknown key");
}

/* Stores the value of a key of a function of `type`. -1: noted. */
static int take_key(struct dt_conf_reader *reader, int type,
                    const struct dt_tree *node)
{
    const struct dt_conf_key *row = dt_conf_reward_key_find(node->key);
    if (!row) {
        note_unknown(reader, node);
        return -1;
    }
    if (dt_conf_is_null(node))
        return 0;
    if (dt_conf_is_empty(node)) {
        dt_conf_note(&reader->draft.problems, node->key_place, row->path,
                     "no value: write null for the default");
        return -1;
    }
    if (!dt_conf_reward_uses(type, row)) {
        dt_conf_note(&reader->draft.problems, node->key_place, row->path,
                     "a function of type %s does not use it",
                     dt_conf_reward_type_name(type));
        return -1;
    }
    return dt_conf_value_set(reader, row, node);
}

/* Notes which keys are missing that this type needs. */
static int check_required(struct dt_conf_reader *reader, int type,
                          const struct dt_tree *item)
{
    int rc = 0;
    for (size_t i = 0; i < dt_conf_reward_key_count; i++) {
        const struct dt_conf_key *row = &dt_conf_reward_keys[i];
        const struct dt_tree *node =
            child_of(item, strrchr(row->path, '.') + 1);
        if (!row->required || !dt_conf_reward_uses(type, row) ||
            (node && !dt_conf_is_null(node)))
            continue;
        dt_conf_note(&reader->draft.problems, item->place, row->path,
                     "required for type %s", dt_conf_reward_type_name(type));
        rc = -1;
    }
    return rc;
}

/* Compiles a pattern, which is thrown away again. */
static int check_pattern(struct dt_conf_reader *reader, const char *path,
                         const char *text, const struct dt_tree *node)
{
    struct dt_error err;
    struct dt_pattern *pattern = text ? dt_pattern_create(text, &err) : NULL;
    dt_pattern_destroy(pattern);
    return !text || pattern ? 0
                            : dt_conf_note_error(&reader->draft.problems,
                                                 node->place, path, &err);
}

/* A program that is named by a path must be there; of others PATH decides,
 * which may be another one where the run is.
 */
static int check_program(struct dt_conf_reader *reader, const char *path,
                         const struct dt_conf_list *command,
                         const struct dt_tree *node)
{
    struct dt_error err;
    if (command->count == 0 || !strchr(command->text[0], '/'))
        return 0;
    char *file = dt_conf_path(reader->draft.directory, command->text[0], &err);
    int rc = 0;
    if (!file)
        return dt_conf_note_error(&reader->draft.problems, node->place, path,
                                  &err);
    if (!dt_conf_is_later(file) && access(file, X_OK) < 0) {
        dt_conf_note(&reader->draft.problems, node->place, path,
                     "%s: cannot be executed: it must exist and have the "
                     "permission",
                     file);
        rc = -1;
    }
    free(command->text[0]);
    command->text[0] = file;
    return rc;
}

static int check_path(struct dt_conf_reader *reader,
                      const struct dt_conf_reward *reward,
                      const struct dt_tree *node)
{
    const struct dt_conf_key *row = dt_conf_reward_key_find("path");
    return reward->path
               ? dt_conf_check_exists(reader, row, node, reward->path, S_IFDIR)
               : 0;
}

/* A URL that curl can post to; only a server knows the rest of it. */
static int check_urls(struct dt_conf_reader *reader,
                      const struct dt_conf_reward *reward,
                      const struct dt_tree *node)
{
    for (size_t i = 0; i < reward->url.count; i++) {
        const char *url = reward->url.text[i];
        if (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0)
            continue;
        dt_conf_note(
            &reader->draft.problems, node->place, "reward.functions.url",
            "%.*s: expected http:// or https://", DT_CONF_SHOWN_BYTES, url);
        return -1;
    }
    return 0;
}

/* Rules for the values of a function, besides their types. */
static int check_values(struct dt_conf_reader *reader,
                        struct dt_conf_reward *reward,
                        const struct dt_tree *item)
{
    const struct dt_tree *command = child_of(item, "command");
    int rc = check_pattern(reader, "reward.functions.pattern", reward->pattern,
                           child_of(item, "pattern"));
    if (check_pattern(reader, "reward.functions.extract", reward->extract,
                      child_of(item, "extract")) < 0)
        rc = -1;
    if (command && command->child &&
        check_program(reader, "reward.functions.command", &reward->command,
                      command->child) < 0)
        rc = -1;
    if (check_path(reader, reward, child_of(item, "path")) < 0 ||
        check_urls(reader, reward, child_of(item, "url")) < 0 ||
        take_secrets(reader, reward, child_of(item, "secrets_from")) < 0)
        rc = -1;
    if (reward->cache_tokens > reward->tokens && reward->tokens > 0) {
        dt_conf_note(
            &reader->draft.problems, child_of(item, "cache_tokens")->place,
            "reward.functions.cache_tokens", "%ld is more than tokens, %ld",
            reward->cache_tokens, reward->tokens);
        rc = -1;
    }
    return rc;
}

/* A type that there was. -1: noted. */
static int refuse_library(struct dt_conf_reader *reader,
                          const struct dt_tree *type)
{
    if (type->kind != DT_TREE_SCALAR || strcasecmp(type->text, "library") != 0)
        return 0;
    dt_conf_note(&reader->draft.problems, type->place, "reward.functions.type",
                 "shared objects are not loaded: make it a program that "
                 "answers lines of JSON, as contrib/rewards/length_reward.c "
                 "does, and write type: command, command: [./PROGRAM]");
    return -1;
}

/* Reads a function. -1: noted. */
static int read_function(struct dt_conf_reader *reader,
                         const struct dt_tree *item,
                         struct dt_conf_reward *reward)
{
    const struct dt_conf_key *key = &dt_conf_reward_keys[0];
    reward->place = item->place;
    if (item->kind != DT_TREE_MAP) {
        dt_conf_note(&reader->draft.problems, item->place, "reward.functions",
                     "expected a section such as {type: exact}");
        return -1;
    }
    const struct dt_tree *type = child_of(item, "type");
    if (!type || dt_conf_is_null(type)) {
        dt_conf_note(&reader->draft.problems, item->place, key->path,
                     "required: what kind of function it is");
        return -1;
    }
    if (refuse_library(reader, type) < 0)
        return -1;
    reader->values = reward;
    set_defaults(reader);
    int rc = dt_conf_value_set(reader, key, type);
    if (rc == 0) {
        for (const struct dt_tree *c = item->child; c; c = c->next)
            if (take_key(reader, reward->type, c) < 0)
                rc = -1;
        if (check_required(reader, reward->type, item) < 0 ||
            check_values(reader, reward, item) < 0)
            rc = -1;
    }
    reader->values = reader->draft.conf;
    if (reward->type == DT_CONF_REWARD_MODEL)
        reward->where = DT_CONF_ALL;
    const struct dt_tree *retries = child_of(item, "retries");
    if (reward->type == DT_CONF_REWARD_HTTP &&
        (!retries || dt_conf_is_null(retries)))
        reward->retries = HTTP_RETRIES;
    if (!reward->name)
        reward->name = strdup(dt_conf_reward_type_name(reward->type));
    reader->draft.problems.out_of_memory |= !reward->name;
    return rc;
}

/* Each name is that of metrics, so two functions cannot share one. */
static int check_names(struct dt_conf_reader *reader,
                       const struct dt_conf_rewards *rewards)
{
    int rc = 0;
    for (size_t i = 0; i < rewards->count; i++) {
        const struct dt_conf_reward *now = &rewards->functions[i];
        for (size_t j = 0; j < i && now->name; j++) {
            const char *name = rewards->functions[j].name;
            if (!name || strcmp(name, now->name) != 0)
                continue;
            dt_conf_note(
                &reader->draft.problems, now->place, "reward.functions.name",
                "\"%.*s\" is the function in %s, too: give each a name "
                "of its own",
                DT_CONF_SHOWN_BYTES, name,
                dt_conf_where(&reader->draft.problems,
                              rewards->functions[j].place, now->place));
            rc = -1;
            break;
        }
    }
    return rc;
}

int dt_conf_rewards_set(struct dt_conf_reader *reader,
                        const struct dt_conf_key *key,
                        const struct dt_tree *node)
{
    struct dt_conf_rewards rewards = {0}, *slot = &reader->draft.conf->reward;
    size_t count = 0;
    int rc = 0;
    for (const struct dt_tree *c = node->child; c; c = c->next)
        count++;
    if (node->kind != DT_TREE_LIST || count == 0)
        return dt_conf_expected(reader, key, node);
    rewards.functions = calloc(count, sizeof(rewards.functions[0]));
    if (!rewards.functions) {
        reader->draft.problems.out_of_memory = true;
        return -1;
    }
    for (const struct dt_tree *c = node->child; c; c = c->next)
        if (read_function(reader, c, &rewards.functions[rewards.count++]) < 0)
            rc = -1;
    if (check_names(reader, &rewards) < 0)
        rc = -1;
    dt_conf_rewards_clear(rc < 0 ? &rewards : slot);
    if (rc == 0)
        *slot = rewards;
    return rc;
}

static bool has_model(const struct dt_conf_rewards *rewards)
{
    for (size_t i = 0; i < rewards->count; i++)
        if (rewards->functions[i].type == DT_CONF_REWARD_MODEL)
            return true;
    return false;
}

void dt_conf_take_reward_path(struct dt_conf_reader *reader)
{
    struct dt_conf *conf = reader->draft.conf;
    struct dt_conf_rewards *rewards = &conf->reward;
    if ((conf->algorithm != DT_CONF_PPO && conf->algorithm != DT_CONF_GRPO) ||
        !conf->model.reward_path || has_model(rewards))
        return;
    struct dt_conf_reward *more = reallocarray(
        rewards->functions, rewards->count + 1, sizeof(rewards->functions[0]));
    if (!more) {
        reader->draft.problems.out_of_memory = true;
        return;
    }
    rewards->functions = more;
    struct dt_conf_reward *reward = &more[rewards->count++];
    *reward = (struct dt_conf_reward){
        .place = conf->place[dt_conf_key_find("model.reward_path")]};
    reader->values = reward;
    set_defaults(reader);
    reader->values = conf;
    reward->type = DT_CONF_REWARD_MODEL;
    reward->where = DT_CONF_ALL;
    reward->name = strdup(dt_conf_reward_type_name(reward->type));
    reward->path = strdup(conf->model.reward_path);
    reader->draft.problems.out_of_memory |= !reward->name || !reward->path;
}
