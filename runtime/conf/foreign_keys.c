/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign_keys.c - keys without a meaning of their own: those of other trainers
 * that none of ours has, switches that set another key, and keys to come
 *
 * Other trainers: LLaMA-Factory, LLaVA, TRL with open-r1 and the alignment
 * handbook, accelerate, axolotl. A key that has the same meaning as ours is an
 * alias in the schema.
 */
#include "config.h"

#include <string.h>
#include <strings.h>

#include "conf/conf_impl.h"

#define KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NONE KEYS(NULL)

/* clang-format off */
#define SWITCH(alias, path, value) \
    {alias, NULL, path, value, NULL, NULL, NULL, NULL}

/* Other trainers compute in fp32 then. */
#define NOT_FP32 "fp32", "false, but precision.compute is left out, and auto " \
    "is bf16 on GPUs: write fp32 or bf16"

const struct dt_conf_switch dt_conf_switches[] = {
    SWITCH("use_ddp", "distributed.strategy", "ddp"),
    {"bf16", NULL, "precision.compute", "bf16", NOT_FP32, NULL, NULL},
    {"fp16", NULL, "precision.compute", "fp16", NOT_FP32, NULL, NULL},
    {"use_mixed_precision", NULL, "precision.compute", "bf16", NOT_FP32, NULL,
     NULL},
    {"mode", "eval", "training.eval_only", "true", NULL, NULL, NULL, NULL},
    /* DeepSpeed's Adam uses decoupled weight decay by default. */
    {"optimizer.type", "Adam", "optimizer.name", "adamw", NULL, NULL, NULL,
     NULL},
    {"completion_only_loss", NULL, "data.loss_on", "completion", "full",
     "false, but data.loss_on is left out, and auto trains on completions "
     "alone: write full",
     "assistant",
     "false, but with a prompt and a completion data.loss_on: assistant trains "
     "on turns of the completion alone: write messages for those of the "
     "prompt, too"},
    SWITCH("assistant_only_loss", "data.loss_on", "assistant"),
    {"train_on_inputs", NULL, "data.loss_on", "full", "assistant",
     "false, but data.loss_on is left out, and auto trains on all tokens of "
     "conversations: write assistant",
     NULL, NULL},
    SWITCH("use_peft", "adapter.type", "lora"),
    SWITCH("disable_tqdm", "logging.progress", "off"),
    SWITCH("precompute_ref_log_probs", "dpo.reference.mode", "precompute"),
    {0},
};

_Static_assert(sizeof(dt_conf_switches) / sizeof(dt_conf_switches[0]) <=
                   DT_CONF_SWITCHES_MAX + 1, "a place for each");

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

/* --- keys of other trainers --- */

/* clang-format off */
#define UNUSED(names, text) {names, NULL, NULL, NULL, text, NULL, NULL}
#define UNUSED_IF(names, values, text) {names, values, NULL, NULL, text, NULL, NULL}
#define MEANS(name, value, path, meant) \
    {name, value, path, meant, NULL, NULL, NULL}
#define WRITE(names, text) {names, NULL, NULL, text, NULL, NULL, NULL}
/* clang-format on */
#define OFF "false 0 no none null"

/* The first row that has the name and the value counts. */
static const struct dt_conf_foreign foreigns[] = {
    /* algorithms */
    MEANS("stage", "sft", "algorithm", "sft"),
    MEANS("stage rl", "dpo", "algorithm", "dpo"),
    MEANS("stage", "rm", "algorithm", "rm"),
    MEANS("stage", "ppo", "algorithm", "ppo"),
    MEANS("rl", "grpo", "algorithm", "grpo"),
    MEANS("stage", "pretrain", "model.stage", "pretrain"),
    WRITE("stage rl", "write algorithm: sft, rm, dpo, ppo or grpo; pt is sft "
                      "with data.packing: wrapped, pretrain a stage of models "
                      "of images and text"),
    {"loss_type", "nll chunked_nll", NULL, NULL,
     "fine-tuning has the loss of the next token", "sft", NULL},
    {"loss_type", NULL, NULL,
     "fine-tuning has one loss, that of the next token: remove it", NULL, "sft",
     NULL},
    UNUSED("do_train do_predict", "the command says what is done"),
    UNUSED("discopop_tau vespo_k_neg vespo_k_pos vespo_lambda_neg "
           "vespo_lambda_pos",
           "a loss of that name alone reads it"),
    UNUSED("do_eval", "training.eval_strategy says when"),

    /* models */
    WRITE("model_init_kwargs",
          "write model.attention and the like: weights are read in any type"),
    WRITE("router_aux_loss_coef", "write it into the model's config.json"),
    UNUSED_IF("cast_lm_head_to_fp32", OFF, "off here, too"),
    WRITE("cast_lm_head_to_fp32", "not supported: remove it"),
    UNUSED("trust_remote_code", "code of models is never run"),
    UNUSED("model_revision revision_of_model hub_model_revision use_auth_token "
           "hf_use_auth_token hf_hub_token token low_cpu_mem_usage device_map "
           "use_fast_tokenizer tokenizer_use_fast tokenizer_legacy",
           "files are read as they are, and nothing is downloaded"),
    UNUSED("model_type tokenizer_type processor_type is_llama_derived_model "
           "is_mistral_derived_model is_qwen_derived_model "
           "is_falcon_derived_model",
           "config.json and the tokenizer's files say what the model is"),
    MEANS("flash_attn", "auto", "model.attention", "auto"),
    MEANS("flash_attn", "fa2", "model.attention", "flash_attention_2"),
    MEANS("flash_attn", "fa3", "model.attention", "flash_attention_3"),
    MEANS("flash_attn", "sdpa", "model.attention", "sdpa"),
    MEANS("flash_attn", "disabled", "model.attention", "eager"),
    MEANS("flash_attention", "true", "model.attention", "flash"),
    UNUSED("flash_attention flash_attn xformers_attention sdp_attention "
           "s2_attention flash_attn_cross_entropy flash_attn_rms_norm "
           "flash_attn_fuse_qkv flash_attn_fuse_mlp flash_optimum",
           "model.attention chooses how attention is computed"),
    UNUSED("use_liger_kernel enable_liger_kernel liger_rope liger_rms_norm "
           "liger_rms_norm_gated liger_glu_activation liger_swiglu "
           "liger_layer_norm liger_cross_entropy "
           "liger_fused_linear_cross_entropy cut_cross_entropy use_unsloth "
           "lora_mlp_kernel lora_qkv_kernel lora_o_kernel use_v1_kernels "
           "use_kernels kernel_config liger_kernel_config torch_compile "
           "torch_compile_backend torch_compile_mode torch_empty_cache_steps "
           "plugins",
           "kernels are built in"),
    UNUSED_IF("activation_offloading", OFF, "off here, too"),
    WRITE("activation_offloading",
          "write model.gradient_checkpointing: offload, which keeps the inputs "
          "of blocks in host memory and computes the rest again"),
    UNUSED("gradient_checkpointing_kwargs activation_checkpointing_kwargs "
           "use_reentrant_gc",
           "recomputation has one form"),
    MEANS("disable_gradient_checkpointing", "true",
          "model.gradient_checkpointing", "false"),
    UNUSED("disable_gradient_checkpointing",
           "model.gradient_checkpointing is false unless it is set"),
    WRITE("dropout attn_pdrop resid_pdrop embd_pdrop attention_dropout "
          "hidden_dropout",
          "the model's config.json says it (attn_pdrop, resid_pdrop, "
          "embd_pdrop ...); write adapter.dropout for that of LoRA, or "
          "model.disable_dropout: true"),
    WRITE("eos_token pad_token special_tokens tokens add_special_tokens "
          "add_tokens eot_tokens",
          "write it into the tokenizer's files, which say what its tokens are"),
    UNUSED_IF("load_in_4bit load_in_8bit double_quantization use_dora", OFF,
              "off here, too"),
    UNUSED_IF("bits", "16", "weights are not quantized"),
    UNUSED("double_quant quant_type", "weights are not quantized"),
    WRITE("bits quantization_bit quantization_method double_quantization gptq "
          "quant_config",
          "quantized weights are not supported: remove it"),

    /* adapters */
    UNUSED_IF("finetuning_type", "full", "without adapter.type all is trained"),
    MEANS("finetuning_type", "lora", "adapter.type", "lora"),
    MEANS("lora_enable", "true", "adapter.type", "lora"),
    UNUSED_IF("lora_enable", OFF, "without adapter.type all is trained"),
    WRITE("finetuning_type", "write adapter.type: lora, or remove it"),
    MEANS("lora_target", "all", "adapter.target_modules", "all-linear"),
    MEANS("lora_target_linear", "true", "adapter.target_modules", "all-linear"),
    UNUSED_IF("lora_target_linear lora_fan_in_fan_out", OFF,
              "adapter.target_modules says which layers"),
    UNUSED("lora_fan_in_fan_out", "the model's layers say it"),
    UNUSED("lora_task_type", "the algorithm says it"),
    WRITE("lora_target_parameters", "not supported: remove it"),
    UNUSED_IF("use_galore use_apollo use_badam use_adam_mini use_muon "
              "use_llama_pro pissa_init use_kt",
              OFF, "off here, too"),
    WRITE("use_galore use_apollo use_badam use_adam_mini use_muon "
          "use_llama_pro pissa_init loraplus_lr_ratio loraplus_lr_embedding "
          "neftune_noise_alpha use_kt",
          "not supported: remove it"),

    /* data */
    WRITE("dataset datasets dataset_mixture dataset_mixer train_dataset "
          "pretraining_dataset",
          "write data.train: FILE or a list of files"),
    WRITE("test_datasets", "write data.eval: FILE or a list of files"),
    UNUSED("dataset_dir dataset_config dataset_split dataset_splits "
           "dataset_train_split dataset_test_split dataset_kwargs "
           "skip_prepare_dataset",
           "it is about data sets by name, and data.train has files"),
    WRITE("template", "write data.chat_template: auto for the template of the "
                      "model, a name or a file"),
    MEANS("chat_template", "tokenizer_default", "data.chat_template", "auto"),
    WRITE("max_samples",
          "write it into the data: head -n N FILE.jsonl >SHORT.jsonl"),
    WRITE("system_prompt default_system",
          "write it into the data, as a message of the role system"),
    UNUSED("preprocessing_num_workers dataset_num_proc dataset_processes "
           "overwrite_cache dataset_prepared_path tokenized_path "
           "preprocessing_batch_size shuffle_merged_datasets",
           "the cache of tokens makes itself anew when something changes; see "
           "data.cache_dir"),
    UNUSED_IF("mask_history", OFF, "off here, too"),
    WRITE("mask_history",
          "write it into the data: \"weight\": 0 in each message of the "
          "assistant but the last"),
    MEANS("neat_packing", "true", "data.packing", "bfd"),
    UNUSED("neat_packing", "data.packing says it"),
    UNUSED("remove_unused_columns label_names include_for_metrics "
           "prediction_loss_only",
           "of each line the columns of its format are read"),
    UNUSED("dataloader_in_order dataloader_multiprocessing_context "
           "dataloader_persistent_workers",
           "threads load the rows, in their order"),
    UNUSED("accelerator_config.dispatch_batches "
           "accelerator_config.use_seedable_sampler "
           "accelerator_config.non_blocking "
           "accelerator_config.use_configured_state",
           "threads load the rows, in their order"),
    UNUSED_IF("accelerator_config.split_batches", OFF, "off here, too"),
    WRITE("accelerator_config.split_batches",
          "per_device_batch_size is then that of all ranks: write "
          "global_micro_batch_size: N in its place"),
    UNUSED_IF("accelerator_config.even_batches", "true 1 yes",
              "all ranks have as many rows"),
    WRITE("accelerator_config.even_batches",
          "all ranks have as many rows: remove it"),
    WRITE("accelerator_config.gradient_accumulation_kwargs",
          "write training.gradient_accumulation_steps: N"),
    UNUSED_IF("pad_to_multiple_of", "auto",
              "it is chosen where data.pad_to_multiple_of is left out"),
    UNUSED_IF("train_sampling_strategy", "random group_by_length",
              "rows have a random order"),
    MEANS("train_sampling_strategy", "sequential", "data.shuffle", "false"),
    WRITE("train_sampling_strategy", "write data.shuffle: true or false"),
    {"shuffle_dataset", "false", "data.shuffle", "false", NULL, "grpo", NULL},
    UNUSED("shuffle_dataset", "data.shuffle says it"),
    UNUSED("pad_to_sequence_len eval_sample_packing eval_packing padding_free "
           "group_by_length length_column_name group_by_modality_length",
           "rows are as short as their longest example; see data.packing"),
    UNUSED_IF("average_tokens_across_devices", "true",
              "the loss is always over all tokens of a step"),
    WRITE("average_tokens_across_devices",
          "the loss is always over all tokens of a step: remove it"),

    /* images */
    MEANS("freeze_vision_tower", "true", "model.train_vision", "false"),
    MEANS("freeze_vision_tower", "false", "model.train_vision", "true"),
    MEANS("freeze_multi_modal_projector freeze_mm_mlp_adapter", "true",
          "model.train_projector", "false"),
    MEANS("freeze_multi_modal_projector", "false", "model.train_projector",
          "true"),
    MEANS("freeze_language_model freeze_backbone train_mm_proj_only "
          "tune_mm_mlp_adapter",
          "true", "model.train_language", "false"),
    MEANS("freeze_language_model", "false", "model.train_language", "true"),
    MEANS("unfreeze_mm_vision_tower", "true", "model.train_vision", "true"),
    UNUSED_IF("freeze_mm_mlp_adapter freeze_backbone train_mm_proj_only "
              "tune_mm_mlp_adapter unfreeze_mm_vision_tower",
              OFF,
              "model.train_vision, train_projector and train_language say "
              "it"),
    WRITE("freeze_vision_tower freeze_multi_modal_projector "
          "freeze_mm_mlp_adapter freeze_language_model freeze_backbone "
          "train_mm_proj_only tune_mm_mlp_adapter unfreeze_mm_vision_tower "
          "mm_tunable_parts unfrozen_parameters",
          "write model.train_vision, train_projector and train_language: true "
          "or false"),
    WRITE("pretrain_mm_mlp_adapter",
          "write model.path: the run that trained the projector, whose "
          "checkpoint is a whole model"),
    MEANS("version", "plain", "data.chat_template", "llava-plain"),
    MEANS("version", "v1", "data.chat_template", "llava"),
    MEANS("image_aspect_ratio", "pad", "data.image_pad", "true"),
    MEANS("image_aspect_ratio", "square", "data.image_pad", "false"),
    WRITE("image_aspect_ratio",
          "an image of LLaVA is one picture: write data.image_pad: true or "
          "false"),
    UNUSED_IF("mm_projector_type", "mlp2x_gelu", "projectors are such"),
    WRITE("mm_projector_type", "a projector of LLaVA has two layers and GELU "
                               "between them: write mlp2x_gelu, or remove it"),
    UNUSED_IF("mm_use_im_start_end mm_use_im_patch_token crop_to_patches "
              "image_do_pan_and_scan",
              OFF, "off here, too"),
    UNUSED_IF("mm_patch_merge_type", "flat", "images are not cut into parts"),
    WRITE("mm_patch_merge_type image_grid_pinpoints crop_to_patches",
          "an image of LLaVA is one picture: remove it"),
    WRITE("mm_use_im_start_end mm_use_im_patch_token",
          "tokens around images are those of the model's family: remove it"),
    WRITE("image_do_pan_and_scan",
          "images are not cut into parts (pan and scan): remove it"),
    WRITE("image_size image_resize_algorithm",
          "write data.image_max_pixels, the most pixels of an image, if the "
          "model sees images of any size; others have one size"),
    UNUSED("is_multimodal lazy_preprocess early_mix_text mpt_attn_impl",
           "the model and its data say it"),
    UNUSED("video_max_pixels video_min_pixels video_fps video_maxlen "
           "video_folder frames_upbound use_audio_in_video "
           "audio_sampling_rate",
           "lines with videos or sounds are refused"),

    /* rewards and sampling */
    WRITE("reward_funcs reward_weights",
          "write reward.functions: a list of {type: ..., weight: 1}"),
    UNUSED("use_vllm vllm_mode vllm_device vllm_dtype vllm_server_host "
           "vllm_server_port vllm_server_timeout vllm_tensor_parallel_size "
           "vllm_gpu_memory_utilization vllm_max_model_len "
           "vllm_max_model_length vllm_enable_sleep_mode vllm_group_port "
           "vllm_model_impl vllm_server_base_url infer_backend vllm "
           "ds3_gather_for_generation cache_implementation "
           "use_transformers_paged use_transformers_continuous_batching "
           "transformers_continuous_batching_config",
           "the trainer itself samples completions"),
    {"vllm_importance_sampling_correction", "false", "rollout.correction",
     "none", NULL, NULL, "vllm_importance_sampling_mode"},
    UNUSED("vllm_importance_sampling_correction",
           "rollout.correction says which"),
    WRITE("vllm_importance_sampling_clip_min",
          "not supported: remove it, and see rollout.correction"),
    WRITE("vllm_structured_outputs_regex max_tool_calling_iterations",
          "not supported: remove it"),
    WRITE("generation_kwargs", "write rollout.temperature, top_p, top_k, "
                               "min_p, stop or stop_ids"),
    UNUSED_IF("use_adaptive_entropy", OFF, "off here, too"),
    WRITE("use_adaptive_entropy", "not supported: write grpo.entropy_coef"),
    UNUSED("entropy_coef_delta entropy_coef_max entropy_coef_min "
           "entropy_target",
           "use_adaptive_entropy alone reads it"),
    UNUSED("log_completions log_completions_hub_repo log_multimodal "
           "log_unique_prompts",
           "rollout.log_every says how often"),
    UNUSED("precompute_ref_batch_size", "training.per_device_batch_size is it"),

    /* steps, reports and checkpoints */
    MEANS("bf16 fp16", "auto", "precision.compute", "auto"),
    WRITE("pure_bf16 float16 bfloat16",
          "write precision.compute: bf16; the optimizer's weights stay fp32"),
    WRITE("optim_args optim_target_modules",
          "keys of optimizer say how weights are trained: remove it"),
    UNUSED_IF("enable_jit_checkpoint ignore_data_skip auto_find_batch_size "
              "eval_on_start eval_delay save_on_each_node "
              "restore_callback_states_from_checkpoint",
              OFF, "off here, too"),
    WRITE("eval_on_start eval_delay",
          "write training.eval_strategy and eval_steps: evaluations are at "
          "whole multiples"),
    WRITE("auto_find_batch_size",
          "write training.per_device_batch_size; `disttrain plan` says which "
          "fits"),
    WRITE("save_on_each_node restore_callback_states_from_checkpoint",
          "all ranks write one checkpoint, which has all states: remove it"),
    MEANS("log_level", "passive", "logging.level", "info"),
    UNUSED_IF("logging_strategy", "steps", "logging.steps says how often"),
    WRITE("logging_strategy", "write logging.steps: N"),
    WRITE("saves_per_epoch", "write checkpoint.steps: N, or a share of the run "
                             "such as 0.1"),
    WRITE("evals_per_epoch", "write training.eval_strategy: epoch, or "
                             "training.eval_steps: N"),
    MEANS("auto_resume_from_checkpoints", "true", "training.resume", "auto"),
    UNUSED_IF("auto_resume_from_checkpoints", OFF, "off here, too"),
    WRITE("use_tensorboard", "write logging.report_to: [tensorboard]"),
    UNUSED("plot_loss", "report.html has plots"),
    UNUSED("batch_eval_metrics eval_accumulation_steps eval_do_concat_batches "
           "eval_use_gather_object",
           "evaluations add up as they go"),
    UNUSED("log_level_replica log_on_each_node logging_nan_inf_filter",
           "rank 0 reports; see logging.rank_logs"),
    UNUSED("wandb_watch wandb_log_model wandb_run_id eval_table_size "
           "include_tokens_per_second include_num_input_tokens_seen "
           "skip_memory_metrics loss_watchdog_threshold loss_watchdog_patience "
           "strict callbacks benchmarks predict_with_generate",
           "it reports what logs and report.html have, or nothing"),
    UNUSED_IF("push_to_hub use_swanlab use_mlflow hub_always_push", OFF,
              "off here, too"),
    UNUSED("project hub_revision trackio_space_id trackio_bucket_id "
           "trackio_static_space_id hub_model_id hub_strategy "
           "hub_private_repo hub_token "
           "hub_always_push export_dir export_size export_device "
           "export_legacy_format",
           "nothing is uploaded; `disttrain export` writes the model"),
    WRITE("push_to_hub",
          "nothing is uploaded: remove it, and upload what `disttrain export` "
          "writes"),

    /* ranks */
    UNUSED("ddp_static_graph", "every parameter is used in every step"),
    UNUSED("compute_environment debug tpu_env tpu_use_cluster tpu_use_sudo "
           "gpu_ids enable_cpu_affinity dynamo_backend dynamo_config "
           "ray_run_name ray_storage_path "
           "ray_num_workers resources_per_worker placement_strategy",
           "srun starts the ranks"),
    MEANS("use_cpu", "true", "run.device", "cpu"),
    UNUSED("use_cpu", "run.device says it"),
    UNUSED_IF("distributed_type", "no multi_gpu multi_cpu deepspeed",
              "srun starts the ranks; see distributed.strategy"),
    WRITE("distributed_type fsdp fsdp_config fsdp_version",
          "write distributed.strategy: zero3 for FSDP's FULL_SHARD, zero2 for "
          "its SHARD_GRAD_OP"),
    WRITE("parallelism_config tensor_parallel_size context_parallel_size "
          "dp_shard_size dp_replicate_size expert_parallel_size "
          "tensor_model_parallel_size pipeline_model_parallel_size "
          "expert_model_parallel_size cp_size sequence_parallel",
          "other ways to divide a model are not supported: see "
          "distributed.strategy"),
    {0},
};

const struct dt_conf_foreign *const dt_conf_foreigns = foreigns;

/* Whether a word is among those with blanks between. */
static bool is_among(const char *words, const char *word)
{
    size_t n;
    for (; *words; words += n + strspn(words + n, " ")) {
        n = strcspn(words, " ");
        if (strlen(word) == n && strncasecmp(words, word, n) == 0)
            return true;
    }
    return false;
}

const char *dt_conf_foreign_name(const char *path)
{
    return strncmp(path, "training.", 9) == 0 ? path + 9 : path;
}

bool dt_conf_foreign_has(const struct dt_conf_foreign *row, const char *path)
{
    return is_among(row->names, dt_conf_foreign_name(path));
}

const char *dt_conf_null_match(const char *path)
{
    static const char *const nulls[][2] = {
        {"max_length", "null cuts no example in TRL, but is the default here: "
                       "write the length of the longest"},
        {"max_grad_norm", "null turns clipping off in transformers, but is the "
                          "default here: write 0"},
        {"vllm_importance_sampling_clip_max",
         "null is no limit in TRL, but the default here: write a large one, "
         "such as 1e9"},
    };
    for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++)
        if (strcmp(nulls[i][0], dt_conf_foreign_name(path)) == 0)
            return nulls[i][1];
    return NULL;
}

const struct dt_conf_foreign *dt_conf_foreign_match(const char *path,
                                                    const char *value,
                                                    const char *algorithm)
{
    for (const struct dt_conf_foreign *f = foreigns; f->names; f++)
        if (dt_conf_foreign_has(f, path) &&
            (!f->values || (value && is_among(f->values, value))) &&
            (!f->algorithm ||
             (algorithm && strcasecmp(f->algorithm, algorithm) == 0)))
            return f;
    return NULL;
}
