/* SPDX-License-Identifier: Apache-2.0 */
/* sink.c - settings of the run, as its sinks read them */
#include "config.h"

#include "report/sink.h"

const json_t *dt_sink_setting(const json_t *run, const char *key)
{
    const json_t *value = json_object_get(json_object_get(run, "config"), key);
    return json_is_null(value) ? NULL : value;
}

const char *dt_sink_setting_text(const json_t *run, const char *key)
{
    const char *text = json_string_value(dt_sink_setting(run, key));
    return text && *text ? text : NULL;
}
