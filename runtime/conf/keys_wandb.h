/* SPDX-License-Identifier: Apache-2.0 */
/* keys_wandb.h - rows of the schema, for schema.c: logging.wandb */
/* clang-format off */

    {"logging.wandb.project", DT_CONF_STRING, AT(logging.wandb.project),
     .aliases = ALSO("wandb_project"),
     .help = "project in Weights & Biases; the default is that of "
             "WANDB_PROJECT, or disttrain"},
    {"logging.wandb.entity", DT_CONF_STRING, AT(logging.wandb.entity),
     .aliases = ALSO("wandb_entity"),
     .help = "user or team in Weights & Biases; the default is that of "
             "WANDB_ENTITY, or that of the user who uploads the run"},
    {"logging.wandb.group", DT_CONF_STRING, AT(logging.wandb.group),
     .aliases = ALSO("wandb_group"),
     .help = "runs of Weights & Biases that belong together; the default is "
             "that of WANDB_RUN_GROUP"},
    {"logging.wandb.name", DT_CONF_STRING, AT(logging.wandb.name),
     .aliases = ALSO("wandb_name"),
     .help = "name of the run in Weights & Biases; the default is that of "
             "WANDB_NAME, or run.name"},
    {"logging.wandb.tags", DT_CONF_STRINGS, AT(logging.wandb.tags),
     .single = true, .aliases = ALSO("wandb_tags"),
     .help = "list of tags in Weights & Biases; the default is WANDB_TAGS, "
             "which has commas between them"},
    {"logging.wandb.notes", DT_CONF_STRING, AT(logging.wandb.notes),
     .aliases = ALSO("wandb_notes"),
     .help = "a text about the run, for Weights & Biases; the default is that "
             "of WANDB_NOTES"},
