/* SPDX-License-Identifier: Apache-2.0 */
/* keys_adapter.h - rows of the schema, for schema.c: adapter */
/* clang-format off */

    {"adapter.type", DT_CONF_ENUM, AT(adapter.type), .fallback = "none",
     .words = WORDS({"none", DT_CONF_ADAPTER_NONE, NULL},
                    {"lora", DT_CONF_ADAPTER_LORA, NULL},
                    {"dora", 0, "other adapters than lora"},
                    {"adalora", 0, "other adapters than lora"},
                    {"qlora", 0, "quantized weights"},
                    {"loha", 0, "other adapters than lora"},
                    {"lokr", 0, "other adapters than lora"},
                    {"ia3", 0, "other adapters than lora"},
                    {"vera", 0, "other adapters than lora"},
                    {"prefix_tuning", 0, "other adapters than lora"},
                    {"prompt_tuning", 0, "other adapters than lora"}),
     .aliases = ALSO("adapter.peft_type", "adapter"),
     .help = "what is trained: none means all weights; lora trains a pair of "
             "small matrices beside each of some linear layers, and the "
             "weights of model.path stay as they are; the default is lora "
             "with adapter.path"},
    {"adapter.path", DT_CONF_OLD_DIR, AT(adapter.path),
     .aliases = ALSO("adapter_name_or_path", "lora_model_dir"),
     .help = "directory of an adapter to train on, as PEFT or a run has saved "
             "it; its adapter_config.json then says what the other keys of "
             "adapter would. If model.path is such a directory, this is it, "
             "and the model is the one that it names"},
    {"adapter.r", DT_CONF_INT, AT(adapter.r), .fallback = "8", .min = 1,
     .max = 1 << 16, .result = true, .aliases = ALSO("lora_r", "lora_rank"),
     .help = "rank of the pairs: how many columns they have between them"},
    {"adapter.alpha", DT_CONF_FLOAT, AT(adapter.alpha), .fallback = "8",
     .min = 0, .max = 1e9, .above_min = true, .result = true,
     .aliases = ALSO("lora_alpha"),
     .help = "the product of a pair counts alpha / r times"},
    {"adapter.dropout", DT_CONF_FLOAT, AT(adapter.dropout), .fallback = "0",
     .min = 0, .max = 1, .below_max = true, .result = true,
     .aliases = ALSO("lora_dropout"),
     .help = "dropout of the input of a pair, in training; "
             "model.disable_dropout turns it off, too"},
    {"adapter.target_modules", DT_CONF_STRINGS, AT(adapter.target_modules),
     .result = true, .single = true, .aliases = ALSO("lora_target_modules", "lora_target"),
     .help = "list of the linear layers that have a pair, each by the end of "
             "its name, as q_proj; all-linear means all those of blocks; the "
             "default is PEFT's: q_proj and v_proj, of GPT-2 c_attn"},
    {"adapter.modules_to_save", DT_CONF_STRINGS, AT(adapter.modules_to_save),
     .result = true, .single = true, .aliases = ALSO("lora_modules_to_save", "additional_target"),
     .help = "list of modules that are trained as a whole and saved with the "
             "adapter, each by the end of its name, as lm_head; algorithm rm "
             "adds score"},
    {"adapter.use_rslora", DT_CONF_BOOL, AT(adapter.use_rslora),
     .fallback = "false", .result = true, .aliases = ALSO("use_rslora"),
     .help = "the product of a pair counts alpha / sqrt(r) times"},
    {"adapter.bias", DT_CONF_ENUM, AT(adapter.bias), .fallback = "none",
     .result = true,
     .words = WORDS({"none", 0, NULL},
                    {"all", 0, "biases that are trained"},
                    {"lora_only", 0, "biases that are trained"}),
     .help = "which biases are trained; only none is known"},
