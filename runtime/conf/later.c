/* SPDX-License-Identifier: Apache-2.0 */
/* later.c - lists keys that are known but not supported yet, and switches */
#include "config.h"

#include "conf/conf_impl.h"

#define KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NONE KEYS(NULL)

/* clang-format off */
const struct dt_conf_switch dt_conf_switches[] = {
    {"use_ddp", NULL, "distributed.strategy", "ddp"},
    {"bf16", NULL, "precision.compute", "bf16"},
    {"fp16", NULL, "precision.compute", "fp16"},
    {"use_mixed_precision", NULL, "precision.compute", "bf16"},
    {"mode", "eval", "training.eval_only", "true"},
    /* DeepSpeed's Adam uses decoupled weight decay by default. */
    {"optimizer.type", "Adam", "optimizer.name", "adamw"},
    {"completion_only_loss", NULL, "data.loss_on", "completion"},
    {"assistant_only_loss", NULL, "data.loss_on", "assistant"},
    {"train_on_inputs", NULL, "data.loss_on", "full"},
    {"use_peft", NULL, "adapter.type", "lora"},
    {"disable_tqdm", NULL, "logging.progress", "off"},
    {"precompute_ref_log_probs", NULL, "dpo.reference.mode", "precompute"},
    {0},
};

const struct dt_conf_later dt_conf_laters[] = {
    {"data", "a hub client (nothing is downloaded: give files)",
     KEYS("dataset_name"), KEYS("dataset_name")},
    {"data", "more samplers", KEYS("sampler"), NONE},

    {"training", "a choice for the rows after the last whole accumulation",
     KEYS("accumulation_tail"), NONE},
    {"training", "a choice of the loss that is reported", KEYS("loss_report"),
     NONE},
    {"training", "a resumed run that starts the data again",
     KEYS("ignore_data_skip"), KEYS("ignore_data_skip")},

    {"checkpoint", "a choice of signals (those of launch.signal always save)",
     KEYS("on_signal"),
     KEYS("enable_jit_checkpoint")},


    {"reward",
     "a program of its own: reward.functions with type command, for which "
     "contrib/rewards has an example",
     KEYS("reward_fn", "custom_reward_function"),
     KEYS("reward_fn", "custom_reward_function")},
    {"reward", "reward.functions with type http", KEYS("remote_url"),
     KEYS("remote_rm_url")},

    {"adapter", "other adapters than plain LoRA",
     KEYS("use_dora", "layers_to_transform", "layers_pattern", "rank_pattern",
          "alpha_pattern", "exclude_modules", "target_parameters",
          "trainable_token_indices", "lora_bias", "init_lora_weights"),
     KEYS("use_dora")},
    {"", "another name: write adapter: {type: lora, r: 8}",
     KEYS("lora", "peft", "peft_config"), KEYS("lora", "peft")},
    {"", "quantized weights",
     KEYS("quantization", "load_in_4bit", "load_in_8bit"),
     KEYS("load_in_4bit", "load_in_8bit")},
    {"", "other ways to shard a model (see distributed.strategy)",
     KEYS("tensor_parallel", "pipeline_parallel"),
     KEYS("tensor_parallel", "pipeline_parallel")},
    {0},
};
