/* SPDX-License-Identifier: Apache-2.0 */
/* draft.c - tells of keys of a draft whether, and how, the file gives them */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "conf/keys/draft.h"

bool dt_conf_knows_algorithm(const struct dt_conf_draft *draft)
{
    return dt_conf_given(draft->conf, "algorithm") &&
           !draft->failed[dt_conf_key_find("algorithm")];
}

bool dt_conf_is_left(struct dt_conf_draft *draft, const char *path)
{
    if (dt_conf_given(draft->conf, path))
        return false;
    draft->conf->place[dt_conf_key_find(path)].line = -1;
    return true;
}

char *dt_conf_value_text(struct dt_conf_draft *draft,
                         const struct dt_conf_key *key)
{
    char *text = dt_conf_text_of(draft->conf, key);
    if (!text)
        draft->problems.out_of_memory = true;
    return text;
}

/* Takes the quotes out of a value, which a list of words may have. */
static void remove_quotes(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)
        if (*from != '"')
            *to++ = *from;
    *to = '\0';
}

bool dt_conf_differs(struct dt_conf_draft *draft, int row)
{
    const struct dt_conf_key *key = &dt_conf_keys[row];
    char *text = draft->conf->place[row].line > 0
                     ? dt_conf_value_text(draft, key)
                     : NULL;
    if (text)
        remove_quotes(text);
    bool result = text && (!key->fallback || strcmp(text, key->fallback) != 0);
    free(text);
    return result;
}
