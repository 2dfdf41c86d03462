/* SPDX-License-Identifier: Apache-2.0 */
/* example_options.c - how a configuration wants lines of data to be read */
#include "config.h"

#include <omp.h>

#include "run/data.h"

struct dt_example_options dt_run_example_options(const struct dt_conf *conf)
{
    static const char *const templates[] = {
        [DT_CONF_CHAT_AUTO] = "auto",       [DT_CONF_CHAT_NONE] = "none",
        [DT_CONF_CHATML] = "chatml",        [DT_CONF_CHAT_QWEN25] = "qwen2.5",
        [DT_CONF_CHAT_QWEN3] = "qwen3",     [DT_CONF_CHAT_LLAMA2] = "llama2",
        [DT_CONF_CHAT_LLAMA3] = "llama3",   [DT_CONF_CHAT_LLAMA31] = "llama3.1",
        [DT_CONF_CHAT_MISTRAL] = "mistral",
    };
    return (struct dt_example_options){
        .format = conf->data.format,
        .loss_on = conf->data.loss_on,
        .text_key = conf->data.text_column,
        .prompt_key = conf->data.prompt_column,
        .completion_key = conf->data.completion_column,
        .messages_key = conf->data.messages_column,
        .chosen_key = conf->data.chosen_column,
        .rejected_key = conf->data.rejected_column,
        .margin_key = conf->data.margin_column,
        .chat_template = conf->data.chat_template == DT_CONF_CHAT_FILE
                             ? conf->data.chat_template_path
                             : templates[conf->data.chat_template],
        .chat_variables = conf->data.chat_template_kwargs,
        .parse_special = conf->data.parse_special,
        .bad_limit = conf->data.bad_lines,
        .threads = omp_get_max_threads(),
        .cache_dir = conf->data.cache_dir,
    };
}
