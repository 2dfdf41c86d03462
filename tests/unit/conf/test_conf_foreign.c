/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_foreign.c - files as other trainers write them */
#include "config.h"

#include "tests/unit/conf.h"

#define WHY "; `disttrain check --explain KEY` says why\n"

/* The keys of LLaMA-Factory's examples, without its data sets. */
static void a_file_of_llama_factory_is_read(void **state)
{
    (void)state;
    struct dt_conf *conf = load_good(
        "model: .\ntrust_remote_code: true\nstage: dpo\ndo_train: true\n"
        "finetuning_type: lora\nlora_rank: 16\nlora_target: all\n"
        "lora_alpha: 32\npref_beta: 0.3\npref_loss: sigmoid\n"
        "data.train: train.jsonl\ncutoff_len: 64\noverwrite_cache: true\n"
        "preprocessing_num_workers: 16\nval_size: 0.1\nplot_loss: true\n"
        "overwrite_output_dir: true\nreport_to: none\n"
        "per_device_train_batch_size: 1\nbf16: true\nfp16: null\n"
        "ddp_timeout: 180000000\nsave_total_limit: 2000000\n"
        "load_in_4bit: false\nspecial_tokens:\n",
        "t.yaml:2:1: no effect here: trust_remote_code, do_train, "
        "overwrite_cache, preprocessing_num_workers, plot_loss, "
        "load_in_4bit" WHY);
    assert_int_equal(conf->algorithm, DT_CONF_DPO);
    assert_int_equal(conf->adapter.type, DT_CONF_ADAPTER_LORA);
    assert_int_equal(conf->adapter.r, 16);
    assert_string_equal(conf->adapter.target_modules.text[0], "all-linear");
    assert_true(conf->dpo.beta == 0.3);
    assert_true(conf->data.validation_split == 0.1);
    assert_int_equal(conf->distributed.timeout_s, 1000000);
    assert_int_equal(conf->checkpoint.total_limit, 1000000);
    dt_conf_destroy(conf);
}

/* Files of lora leave out what has another default here. */
static void other_defaults_of_lora_are_told(void **state)
{
    static const char least[] = "stage: sft\nmodel: .\ndata.train: train.txt\n"
                                "training.per_device_batch_size: 2\n"
                                "finetuning_type: lora\n";
    char text[256];
    (void)state;
    dt_conf_destroy(load_good(
        least, "t.yaml:5:18: finetuning_type: LLaMA-Factory's default of "
               "lora_alpha is twice lora_rank, 8 here, and that of lora_target "
               "is all, q_proj and v_proj here: write lora_alpha and "
               "lora_target\n"));
    snprintf(text, sizeof(text), "%slora_target: all\n", least);
    dt_conf_destroy(load_good(
        text, "t.yaml:5:18: finetuning_type: LLaMA-Factory's default of "
              "lora_alpha is twice lora_rank, 8 here: write lora_alpha\n"));
}

/* TRL's own scale of an update is alpha / r = 2. */
static void use_peft_takes_the_defaults_of_trl(void **state)
{
    static const char some[] = "algorithm: sft\nmodel: .\n"
                               "data.train: train.txt\n"
                               "training.per_device_batch_size: 2\n";
    char text[256];
    (void)state;
    snprintf(text, sizeof(text), "%suse_peft: true\n", some);
    struct dt_conf *conf =
        load_good(text, "t.yaml:5:11: use_peft: takes TRL's defaults: lora_r "
                        "16 lora_alpha 32 lora_dropout 0.05\n");
    assert_int_equal(conf->adapter.r, 16);
    assert_true(conf->adapter.alpha == 32 && conf->adapter.dropout == 0.05);
    dt_conf_destroy(conf);
    snprintf(text, sizeof(text),
             "%suse_peft: true\nlora_r: 8\n"
             "lora_alpha: 8\nlora_dropout: 0\n",
             some);
    conf = load_good(text, "");
    assert_int_equal(conf->adapter.r, 8);
    assert_true(conf->adapter.alpha == 8 && conf->adapter.dropout == 0);
    dt_conf_destroy(conf);
    snprintf(text, sizeof(text), "%sadapter.type: lora\n", some);
    conf = load_good(text, "");
    assert_int_equal(conf->adapter.r, 8);
    dt_conf_destroy(conf);
}

/* What `accelerate config` writes, in the runtime's file. */
static void a_file_of_accelerate_config_is_read(void **state)
{
    (void)state;
    struct dt_conf *conf = load_good(
        LEAST "compute_environment: LOCAL_MACHINE\ndebug: false\n"
              "deepspeed_config: {zero_stage: 3, offload_param_device: none}\n"
              "distributed_type: DEEPSPEED\nmixed_precision: bf16\n"
              "num_machines: 1\nnum_processes: 8\ntpu_env: []\n"
              "tpu_use_cluster: false\nuse_cpu: true\n",
        "t.yaml:5:1: no effect here: compute_environment, debug, "
        "distributed_type, tpu_env, tpu_use_cluster" WHY);
    assert_int_equal(conf->distributed.strategy, DT_CONF_ZERO3);
    assert_int_equal(conf->run.device, DT_CONF_CPU);
    assert_int_equal(conf->launch.num_processes, 8);
    dt_conf_destroy(conf);
}

static void a_file_of_axolotl_is_read(void **state)
{
    (void)state;
    struct dt_conf *conf = load_good(
        "base_model: .\nrl: grpo\nadapter: lora\nmicro_batch_size: 8\n"
        "data.train: train.jsonl\nsequence_len: 32\noptimizer: adamw_torch\n"
        "lora_target_linear: true\nbf16: auto\nwandb_watch: false\n"
        "val_set_size: 0\nmax_completion_length: 8\n"
        "reward.functions: [{type: length, shape: target, tokens: 4}]\n",
        "t.yaml:10:1: no effect here: wandb_watch" WHY);
    assert_int_equal(conf->algorithm, DT_CONF_GRPO);
    assert_int_equal(conf->adapter.type, DT_CONF_ADAPTER_LORA);
    assert_int_equal(conf->training.per_device_batch_size, 8);
    assert_int_equal(conf->precision.compute, DT_CONF_AUTO_DTYPE);
    dt_conf_destroy(conf);
}

static void what_has_no_key_names_the_line_to_write(void **state)
{
    static const struct broken cases[] = {
        {LEAST "dataset: alpaca\ntraining: {template: qwen}\nmax_samples: 9\n",
         "t.yaml:5:1: dataset: write data.train: FILE or a list of files\n"
         "t.yaml:6:12: training.template: write data.chat_template: auto for "
         "the template of the model, a name or a file\n"
         "t.yaml:7:1: max_samples: write it into the data: head -n N "
         "FILE.jsonl >SHORT.jsonl\n"},
        {LEAST "push_to_hub: true\nfsdp: full_shard\ndropout: 0.1\n"
               "logging_strategy: epoch\n",
         "t.yaml:5:1: push_to_hub: nothing is uploaded: remove it, and upload "
         "what `disttrain export` writes\n"
         "t.yaml:6:1: fsdp: write distributed.strategy: zero3 for FSDP's "
         "FULL_SHARD, zero2 for its SHARD_GRAD_OP\n"
         "t.yaml:7:1: dropout: the model's config.json says it (attn_pdrop, "
         "resid_pdrop, embd_pdrop ...); write adapter.dropout for that of "
         "LoRA, or model.disable_dropout: true\n"
         "t.yaml:8:1: logging_strategy: write logging.steps: N\n"},
        {LEAST "chat_template: \"{% for m in messages %}/{% endfor %}\"\n"
               "ddp_timeout: 0\nadapter: {r: }\n",
         "t.yaml:5:16: data.chat_template: a template itself: write it to a "
         "file NAME.jinja, and the name here\n"
         "t.yaml:6:14: distributed.timeout_s: expected an integer >= 1 "
         "(seconds), got 0\n"
         "t.yaml:7:11: adapter.r: no value: write null for the default\n"},
        {LEAST "mask_history: true\nactivation_offloading: true\n"
               "loss_type: dft\n",
         "t.yaml:5:1: mask_history: write it into the data: \"weight\": 0 in "
         "each message of the assistant but the last\n"
         "t.yaml:6:1: activation_offloading: write "
         "model.gradient_checkpointing: offload, which keeps the inputs of "
         "blocks in host memory and computes the rest again\n"
         "t.yaml:7:1: loss_type: fine-tuning has one loss, that of the next "
         "token: remove it\n"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* Each name of another trainer for a part means what it means there. */
static void parts_of_other_trainers_are_trained_or_frozen(void **state)
{
    static const struct {
        const char *line;
        int vision, projector, language;
    } cases[] = {
        {"freeze_vision_tower: false\n", 1, 2, 2},
        {"freeze_vision_tower: true\n", 0, 2, 2},
        {"freeze_multi_modal_projector: true\n", 0, 0, 2},
        {"freeze_multi_modal_projector: False\n", 0, 1, 2},
        {"freeze_language_model: true\n", 0, 2, 0},
        {"freeze_language_model: false\n", 0, 2, 1},
        {"train_mm_proj_only: true\n", 0, 2, 0},
        {"tune_mm_mlp_adapter: True\n", 0, 2, 0},
        {"freeze_backbone: true\n", 0, 2, 0},
        {"freeze_mm_mlp_adapter: true\n", 0, 0, 2},
        {"unfreeze_mm_vision_tower: true\n", 1, 2, 2},
        {"stage: pretrain\n", 0, 2, 2},
        {"train: {vision: true, projector: false}\n", 1, 0, 2},
    };
    char text[512];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(text, sizeof(text), LEAST "%s", cases[i].line);
        struct dt_conf *conf = load_good(text, "");
        assert_int_equal(conf->model.train_vision, cases[i].vision);
        assert_int_equal(conf->model.train_projector, cases[i].projector);
        assert_int_equal(conf->model.train_language, cases[i].language);
        assert_int_equal(conf->model.stage, strstr(cases[i].line, "pretrain")
                                                ? DT_CONF_STAGE_PRETRAIN
                                                : DT_CONF_STAGE_SFT);
        dt_conf_destroy(conf);
    }
}

/* The flags of LLaVA's finetune_lora.sh that say something about images. */
static void flags_of_llava_are_read(void **state)
{
    (void)state;
    struct dt_conf *conf = load_good(
        "algorithm: sft\ndata_path: train.jsonl\nmodel: .\n"
        "per_device_train_batch_size: 16\nversion: v1\nimage_folder: .\n"
        "mm_projector_type: mlp2x_gelu\nmm_use_im_start_end: False\n"
        "mm_use_im_patch_token: False\nimage_aspect_ratio: pad\n"
        "group_by_modality_length: True\nlora_enable: True\nlora_r: 128\n"
        "lora_alpha: 256\nevaluation_strategy: \"no\"\ntf32: True\n"
        "model_max_length: 2048\nlazy_preprocess: True\nbits: 16\n",
        "t.yaml:7:1: no effect here: mm_projector_type, mm_use_im_start_end, "
        "mm_use_im_patch_token, group_by_modality_length, lazy_preprocess, "
        "bits" WHY);
    assert_int_equal(conf->data.chat_template, DT_CONF_CHAT_LLAVA);
    assert_int_equal(conf->data.image_pad, DT_CONF_TRUE);
    assert_int_equal(conf->data.max_length, 2048);
    assert_non_null(conf->data.image_root);
    assert_int_equal(conf->adapter.type, DT_CONF_ADAPTER_LORA);
    assert_int_equal(conf->adapter.r, 128);
    dt_conf_destroy(conf);
}

/* They were taken for keys without effect while only text was trained. */
static void sizes_of_images_of_llama_factory_are_read(void **state)
{
    (void)state;
    struct dt_conf *conf = load_good(
        LEAST "image_max_pixels: 262144\nimage_min_pixels: 1024\n"
              "media_dir: .\nvideo_fps: 2\nimage_do_pan_and_scan: false\n",
        "t.yaml:8:1: no effect here: video_fps, image_do_pan_and_scan" WHY);
    assert_int_equal(conf->data.image_max_pixels, 262144);
    assert_int_equal(conf->data.image_min_pixels, 1024);
    assert_non_null(conf->data.image_root);
    dt_conf_destroy(conf);
}

/* A part is frozen, or has no rate of its own; nothing is trained. */
static void keys_of_parts_contradict_each_other_aloud(void **state)
{
    static const struct broken cases[] = {
        {LEAST "optimizer: {vision_lr: 2e-6, mm_projector_lr: 1e-5}\n"
               "train.projector: false\n",
         "t.yaml:5:24: optimizer.vision_lr: the vision tower is frozen: write "
         "model.train_vision: true, or remove it\n"
         "t.yaml:5:47: optimizer.projector_lr: the projector is frozen by "
         "model.train_projector: remove one of them\n"},
        {LEAST "freeze_language_model: true\n"
               "freeze_multi_modal_projector: true\n",
         "t.yaml:5:24: model.train_language: nothing is trained: "
         "model.train_vision, train_projector and train_language are all "
         "false\n"},
        {LEAST "stage: pretrain\ntrain.projector: false\n"
               "train.language: auto\n",
         "t.yaml:5:8: model.stage: nothing is trained: model.train_vision, "
         "train_projector and train_language are all false\n"},
        {"algorithm: sft\ndata.train: train.txt\nmodel.path: .\n"
         "training.per_device_batch_size: 2\nlora_enable: true\n"
         "model.stage: pretrain\nmm_projector_lr: 2e-5\nlora_alpha: 16\n",
         "t.yaml:6:14: model.stage: an adapter is of the language model: train "
         "the projector without one\n"
         "t.yaml:7:18: optimizer.projector_lr: an adapter has one learning "
         "rate, optimizer.lr: remove it\n"},
        {LEAST "data: {image_min_pixels: 9, max_pixels: 8}\n"
               "image_folder: /nowhere\n",
         "t.yaml:5:26: data.image_min_pixels: 9 is more than "
         "data.image_max_pixels, 8\n"
         "t.yaml:6:15: data.image_root: /nowhere: No such file or directory\n"},
        {LEAST "image_aspect_ratio: anyres\nmm_tunable_parts: mm_mlp_adapter\n"
               "pretrain_mm_mlp_adapter: x.bin\nversion: v0\nbits: 4\n"
               "freeze_vision_tower: maybe\nmm_use_im_start_end: true\n",
         "t.yaml:5:1: image_aspect_ratio: an image of LLaVA is one picture: "
         "write data.image_pad: true or false\n"
         "t.yaml:6:1: mm_tunable_parts: write model.train_vision, "
         "train_projector and train_language: true or false\n"
         "t.yaml:7:1: pretrain_mm_mlp_adapter: write model.path: the run that "
         "trained the projector, whose checkpoint is a whole model\n"
         "t.yaml:8:10: version: expected an integer from 1 to 1, got \"v0\"\n"
         "t.yaml:9:1: bits: quantized weights are not supported: remove it\n"
         "t.yaml:10:1: freeze_vision_tower: write model.train_vision, "
         "train_projector and train_language: true or false\n"
         "t.yaml:11:1: mm_use_im_start_end: tokens around images are those of "
         "the model's family: remove it\n"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* What TRL 1.16 has besides its defaults, which test_defaults gives. */
static void newer_keys_of_trl_are_known(void **state)
{
    static const struct broken cases[] = {
        {LEAST "optim_args: a=1\neval_on_start: true\neval_delay: 5\n"
               "auto_find_batch_size: true\ngeneration_kwargs: {top_k: 3}\n",
         "t.yaml:5:1: optim_args: keys of optimizer say how weights are "
         "trained: remove it\n"
         "t.yaml:6:1: eval_on_start: write training.eval_strategy and "
         "eval_steps: evaluations are at whole multiples\n"
         "t.yaml:7:1: eval_delay: write training.eval_strategy and eval_steps: "
         "evaluations are at whole multiples\n"
         "t.yaml:8:1: auto_find_batch_size: write "
         "training.per_device_batch_size; `disttrain plan` says which fits\n"
         "t.yaml:9:1: generation_kwargs: write rollout.temperature, top_p, "
         "top_k, min_p, stop or stop_ids\n"},
    };
    (void)state;
    CHECK_ALL(cases);
    struct dt_conf *conf = load_good(
        "algorithm: grpo\nmodel: .\ndata.train: train.jsonl\n"
        "training.per_device_batch_size: 8\nreward.functions: [{type: exact}]\n"
        "shuffle_dataset: false\nvllm_importance_sampling_correction: false\n",
        "");
    assert_false(conf->data.shuffle);
    assert_int_equal(conf->rollout.correction, DT_CORRECTION_NONE);
    dt_conf_destroy(conf);
    static const char *const unread[] = {
        "training.per_device_batch_size: 8\n"
        "vllm_importance_sampling_mode: sequence_mask\n"
        "vllm_importance_sampling_correction: false\n",
        "training: {per_device_batch_size: 8,\n"
        "  vllm_importance_sampling_correction: false,\n"
        "  vllm_importance_sampling_mode: sequence_mask}\n",
    };
    for (size_t i = 0; i < 2; i++) {
        char text[1024];
        snprintf(text, sizeof(text),
                 "algorithm: grpo\nmodel.path: .\ndata.train: train.jsonl\n"
                 "reward.functions: [{type: exact}]\n%s",
                 unread[i]);
        conf = load_good(text, "");
        assert_int_equal(conf->rollout.correction, DT_CORRECTION_NONE);
        dt_conf_destroy(conf);
    }
    conf = load_good(LEAST "shuffle_dataset: false\n",
                     "t.yaml:5:1: no effect here: shuffle_dataset" WHY);
    assert_true(conf->data.shuffle);
    dt_conf_destroy(conf);
}

/* The keys of accelerate's section, which may change what a batch is. */
static void keys_of_accelerator_config_are_read_one_by_one(void **state)
{
    static const struct broken cases[] = {
        {LEAST "accelerator_config: {split_batches: true}\n",
         "t.yaml:5:22: accelerator_config.split_batches: per_device_batch_size "
         "is then that of all ranks: write global_micro_batch_size: N in its "
         "place\n"},
        {LEAST "training.accelerator_config:\n  even_batches: false\n"
               "  gradient_accumulation_kwargs: {num_steps: 4}\n",
         "t.yaml:6:3: training.accelerator_config.even_batches: all ranks have "
         "as many rows: remove it\n"
         "t.yaml:7:3: "
         "training.accelerator_config.gradient_accumulation_kwargs: "
         "write training.gradient_accumulation_steps: N\n"},
        {LEAST "accelerator_config: a.json\n",
         "t.yaml:5:21: accelerator_config: expected a section with keys\n"},
        {LEAST "accelerator_config: {split_batch: true}\n",
         "t.yaml:5:22: accelerator_config.split_batch: unknown key\n"},
    };
    char *text = NULL;
    size_t bytes = 0;
    struct dt_error err;
    (void)state;
    CHECK_ALL(cases);
    dt_conf_destroy(load_good(LEAST "accelerator_config: null\n", ""));
    dt_conf_destroy(load_good(
        LEAST "accelerator_config: {split_batches: false, dispatch_batches: "
              "null, even_batches: true, use_seedable_sampler: true, "
              "gradient_accumulation_kwargs: null}\n",
        "t.yaml:5:22: no effect here: accelerator_config.split_batches, "
        "accelerator_config.even_batches, "
        "accelerator_config.use_seedable_sampler" WHY));
    FILE *out = open_memstream(&text, &bytes);
    assert_int_equal(dt_conf_explain("accelerator_config", out, &err), 0);
    fclose(out);
    assert_non_null(strstr(text, "accelerator_config.split_batches\n"));
    assert_non_null(strstr(text, "global_micro_batch_size: N in"));
    free(text);
}

/* Elsewhere null is the default, also to other trainers. */
static void null_that_is_a_value_elsewhere_is_told(void **state)
{
    (void)state;
    dt_conf_destroy(load_good(
        LEAST "max_length: null\ntraining: {max_grad_norm: ~}\nseed: null\n"
              "data.max_length: null\n",
        "t.yaml:5:13: max_length: null cuts no example in TRL, but is the "
        "default here: write the length of the longest\n"
        "t.yaml:6:27: training.max_grad_norm: null turns clipping off in "
        "transformers, but is the default here: write 0\n"));
}

/* What axolotl's examples list without a value is not given. */
static void keys_that_are_listed_only_are_not_given(void **state)
{
    (void)state;
    struct dt_conf *conf = load_good(
        LEAST "lora_r:\nfp16:\ntf32:\nearly_stopping_patience:\n"
              "resume_from_checkpoint:\nwandb_project:\nwandb_watch:\n",
        "");
    assert_false(dt_conf_given(conf, "adapter.r"));
    assert_false(dt_conf_given(conf, "training.early_stopping_patience"));
    dt_conf_destroy(conf);
}

/* Words of several trainers and algorithms for one thing, or for nothing. */
static void a_foreign_value_depends_on_the_algorithm(void **state)
{
    (void)state;
    struct dt_conf *conf =
        load_good(LEAST "loss_type: nll\nneat_packing: true\nmask_history: "
                        "false\nactivation_offloading: false\n",
                  "t.yaml:5:1: no effect here: loss_type, mask_history, "
                  "activation_offloading" WHY
                  "t.yaml:6:15: data.packing: no effect: data.train is one "
                  "text\n");
    assert_int_equal(conf->data.packing, DT_PACK_BFD);
    dt_conf_destroy(conf);
    conf = load_good("algorithm: dpo\nmodel: .\ndata.train: train.jsonl\n"
                     "training.per_device_batch_size: 1\nloss_type: ipo\n",
                     "");
    assert_string_equal(conf->dpo.loss.text[0], "ipo");
    dt_conf_destroy(conf);
}

static void foreign_keys_are_explained(void **state)
{
    char *text = NULL;
    size_t bytes = 0;
    struct dt_error err;
    (void)state;
    FILE *out = open_memstream(&text, &bytes);
    assert_int_equal(dt_conf_explain("push_to_hub", out, &err), 0);
    assert_int_equal(dt_conf_explain("lora_rank", out, &err), 0);
    assert_int_equal(dt_conf_explain("optimizer", out, &err), 0);
    fclose(out);
    assert_non_null(strstr(text, "push_to_hub\n    False 0 no none null: no "
                                 "effect here: off here, too.\n    Nothing is "
                                 "uploaded: "));
    assert_non_null(strstr(text, "\nadapter.r\n"));
    assert_non_null(strstr(text, "\noptimizer.lr\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_llama_factory_is_read),
        cmocka_unit_test(other_defaults_of_lora_are_told),
        cmocka_unit_test(use_peft_takes_the_defaults_of_trl),
        cmocka_unit_test(a_file_of_accelerate_config_is_read),
        cmocka_unit_test(a_file_of_axolotl_is_read),
        cmocka_unit_test(what_has_no_key_names_the_line_to_write),
        cmocka_unit_test(parts_of_other_trainers_are_trained_or_frozen),
        cmocka_unit_test(flags_of_llava_are_read),
        cmocka_unit_test(sizes_of_images_of_llama_factory_are_read),
        cmocka_unit_test(keys_of_parts_contradict_each_other_aloud),
        cmocka_unit_test(newer_keys_of_trl_are_known),
        cmocka_unit_test(keys_of_accelerator_config_are_read_one_by_one),
        cmocka_unit_test(null_that_is_a_value_elsewhere_is_told),
        cmocka_unit_test(keys_that_are_listed_only_are_not_given),
        cmocka_unit_test(a_foreign_value_depends_on_the_algorithm),
        cmocka_unit_test(foreign_keys_are_explained),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
