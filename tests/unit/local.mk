# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += \
	tests/unit/algo/test_dpo \
	tests/unit/algo/test_grpo \
	tests/unit/algo/test_ppo \
	tests/unit/algo/test_ppo_early \
	tests/unit/algo/test_ppo_shared \
	tests/unit/algo/test_rm \
	tests/unit/backend/test_backend \
	tests/unit/base/test_answer \
	tests/unit/base/test_background \
	tests/unit/base/test_base \
	tests/unit/base/test_base_net \
	tests/unit/base/test_cgroup \
	tests/unit/base/test_error \
	tests/unit/base/test_kind \
	tests/unit/base/test_launcher \
	tests/unit/base/test_limits \
	tests/unit/base/test_proc \
	tests/unit/base/test_quick_json \
	tests/unit/base/test_said \
	tests/unit/base/test_secret \
	tests/unit/base/test_sha256 \
	tests/unit/base/test_siphash \
	tests/unit/base/test_span \
	tests/unit/base/test_thread \
	tests/unit/batch/test_image_batches \
	tests/unit/batch/test_image_lines \
	tests/unit/batch/test_image_rows \
	tests/unit/batch/test_loader \
	tests/unit/batch/test_loader_most \
	tests/unit/batch/test_pair_batches \
	tests/unit/batch/test_pair_images \
	tests/unit/batch/test_pair_rows \
	tests/unit/batch/test_rows \
	tests/unit/ckpt/test_ckpt \
	tests/unit/ckpt/test_ckpt_crash \
	tests/unit/ckpt/test_ckpt_dir \
	tests/unit/ckpt/test_ckpt_disk \
	tests/unit/ckpt/test_ckpt_find \
	tests/unit/ckpt/test_ckpt_folder \
	tests/unit/ckpt/test_ckpt_stage \
	tests/unit/ckpt/test_safetensors \
	tests/unit/ckpt/test_safetensors_model \
	tests/unit/cmd/test_cmd_check \
	tests/unit/cmd/test_cmd_check_model \
	tests/unit/cmd/test_cmd_contract \
	tests/unit/cmd/test_cmd_explain \
	tests/unit/cmd/test_cmd_export \
	tests/unit/cmd/test_cmd_options \
	tests/unit/cmd/test_cmd_plan \
	tests/unit/cmd/test_cmd_plan_groups \
	tests/unit/cmd/test_cmd_plan_sampled \
	tests/unit/cmd/test_cmd_prepare \
	tests/unit/cmd/test_cmd_sbatch \
	tests/unit/cmd/test_cmd_steps \
	tests/unit/cmd/test_cmd_trace \
	tests/unit/cmd/test_generate \
	tests/unit/cmd/test_report_to \
	tests/unit/cmd/test_threads \
	tests/unit/comm/test_comm \
	tests/unit/compose/test_compose \
	tests/unit/conf/test_conf_broken \
	tests/unit/conf/test_conf_data \
	tests/unit/conf/test_conf_deepspeed \
	tests/unit/conf/test_conf_device \
	tests/unit/conf/test_conf_distributed \
	tests/unit/conf/test_conf_foreign \
	tests/unit/conf/test_conf_json \
	tests/unit/conf/test_conf_launch \
	tests/unit/conf/test_conf_memory \
	tests/unit/conf/test_conf_overrides \
	tests/unit/conf/test_conf_preference \
	tests/unit/conf/test_conf_reward \
	tests/unit/conf/test_conf_sampled \
	tests/unit/conf/test_conf_training \
	tests/unit/conf/test_conf_values \
	tests/unit/console/test_await \
	tests/unit/console/test_connected \
	tests/unit/console/test_console \
	tests/unit/console/test_console_event \
	tests/unit/console/test_console_recorded \
	tests/unit/console/test_hang \
	tests/unit/console/test_missing \
	tests/unit/console/test_outcome \
	tests/unit/console/test_outcome_trust \
	tests/unit/console/test_progress \
	tests/unit/contract/test_frameworks \
	tests/unit/contract/test_requeue_rule \
	tests/unit/contract/test_variables \
	tests/unit/data/test_answers \
	tests/unit/data/test_cache \
	tests/unit/data/test_cache_file \
	tests/unit/data/test_dataset \
	tests/unit/data/test_example_images \
	tests/unit/data/test_examples \
	tests/unit/data/test_forms \
	tests/unit/data/test_image_prompts \
	tests/unit/data/test_jsonl \
	tests/unit/data/test_pairs \
	tests/unit/data/test_preference \
	tests/unit/data/test_prompts \
	tests/unit/data/test_row_images \
	tests/unit/device/test_locker \
	tests/unit/device/test_memory \
	tests/unit/doctor/test_doctor_child \
	tests/unit/doctor/test_doctor_node \
	tests/unit/doctor/test_doctor_pairs \
	tests/unit/doctor/test_doctor_plugin \
	tests/unit/doctor/test_doctor_report \
	tests/unit/forecast/test_cost \
	tests/unit/forecast/test_timeline \
	tests/unit/forecast/test_timeline_order \
	tests/unit/history/test_history \
	tests/unit/image/test_image_decode \
	tests/unit/image/test_image_info \
	tests/unit/image/test_image_pixels \
	tests/unit/image/test_image_processor \
	tests/unit/image/test_image_resize \
	tests/unit/image/test_image_store \
	tests/unit/keeper/test_agreement \
	tests/unit/keeper/test_claim \
	tests/unit/keeper/test_errand \
	tests/unit/keeper/test_guests \
	tests/unit/keeper/test_keepers \
	tests/unit/keeper/test_lost \
	tests/unit/keeper/test_nodes \
	tests/unit/keeper/test_pace \
	tests/unit/keeper/test_relay \
	tests/unit/keeper/test_roster \
	tests/unit/keeper/test_srun_lost \
	tests/unit/keeper/test_verdict \
	tests/unit/launch/test_join \
	tests/unit/launch/test_launch \
	tests/unit/launch/test_launch_keeper \
	tests/unit/launch/test_wire \
	tests/unit/live/test_killed_run \
	tests/unit/live/test_live \
	tests/unit/loss/test_advantages \
	tests/unit/loss/test_dpo_loss \
	tests/unit/loss/test_grpo_loss \
	tests/unit/loss/test_ppo_generation \
	tests/unit/loss/test_ppo_loss \
	tests/unit/model/test_adapter \
	tests/unit/model/test_graphs \
	tests/unit/model/test_model_config \
	tests/unit/model/test_model_format \
	tests/unit/model/test_model_init \
	tests/unit/model/test_model_inputs \
	tests/unit/model/test_model_layout \
	tests/unit/model/test_model_plan \
	tests/unit/model/test_model_refused \
	tests/unit/model/test_vision_adapter \
	tests/unit/model/test_vision_config \
	tests/unit/ops/test_documents \
	tests/unit/optim/test_adamw \
	tests/unit/optim/test_optim \
	tests/unit/optim/test_scaler \
	tests/unit/optim/test_undo \
	tests/unit/page/test_page \
	tests/unit/parallel/test_parallel \
	tests/unit/parallel/test_parallel_order \
	tests/unit/parallel/test_swap \
	tests/unit/parallel/test_swap_faults \
	tests/unit/parallel/test_swap_refused \
	tests/unit/parallel/test_tiles \
	tests/unit/plan/test_generation_plan \
	tests/unit/plan/test_least \
	tests/unit/plan/test_plan \
	tests/unit/plan/test_strategy \
	tests/unit/report/test_account \
	tests/unit/report/test_protobuf \
	tests/unit/report/test_record \
	tests/unit/report/test_report \
	tests/unit/report/test_tensorboard \
	tests/unit/reward/test_reward_batch \
	tests/unit/reward/test_reward_chaos \
	tests/unit/reward/test_reward_examples \
	tests/unit/reward/test_reward_model \
	tests/unit/reward/test_reward_rules \
	tests/unit/rollout/test_rollout \
	tests/unit/run/test_agree \
	tests/unit/run/test_experience \
	tests/unit/run/test_groups \
	tests/unit/run/test_models \
	tests/unit/run/test_output \
	tests/unit/run/test_owner \
	tests/unit/run/test_precompute \
	tests/unit/run/test_reference \
	tests/unit/run/test_run_data \
	tests/unit/run/test_sample_pictures \
	tests/unit/run/test_sinks \
	tests/unit/run/test_world \
	tests/unit/sampling/test_held_out \
	tests/unit/sampling/test_refill \
	tests/unit/sampling/test_samples \
	tests/unit/sampling/test_scoring_stop \
	tests/unit/segment/test_board \
	tests/unit/segment/test_segment \
	tests/unit/slurm/test_job_nodes \
	tests/unit/slurm/test_steps \
	tests/unit/slurm/test_submission \
	tests/unit/template/test_template \
	tests/unit/tensor/test_half \
	tests/unit/tensor/test_layout \
	tests/unit/tokenizer/test_bpe_cuts \
	tests/unit/tokenizer/test_chat \
	tests/unit/tokenizer/test_cut \
	tests/unit/tokenizer/test_sentencepiece \
	tests/unit/tokenizer/test_tokenizer \
	tests/unit/tokenizer/test_tokenizer_files \
	tests/unit/tokenizer/test_tokenizer_kinds \
	tests/unit/tokenizer/test_tokenizer_words \
	tests/unit/top/test_top \
	tests/unit/trace/test_trace \
	tests/unit/train/test_adapter_run \
	tests/unit/train/test_best \
	tests/unit/train/test_bf16_state \
	tests/unit/train/test_copies \
	tests/unit/train/test_copies_given_up \
	tests/unit/train/test_costs \
	tests/unit/train/test_energy \
	tests/unit/train/test_events \
	tests/unit/train/test_flight \
	tests/unit/train/test_flight_lost \
	tests/unit/train/test_flight_output \
	tests/unit/train/test_frozen_run \
	tests/unit/train/test_int8_run \
	tests/unit/train/test_overlap \
	tests/unit/train/test_prefetch \
	tests/unit/train/test_replicas \
	tests/unit/train/test_restart \
	tests/unit/train/test_restore \
	tests/unit/train/test_run_open \
	tests/unit/train/test_run_save \
	tests/unit/train/test_run_state \
	tests/unit/train/test_run_state_sampled \
	tests/unit/train/test_step \
	tests/unit/train/test_stragglers \
	tests/unit/train/test_trace_run \
	tests/unit/train/test_trainer \
	tests/unit/weights/test_foreign \
	tests/unit/weights/test_parts \
	tests/unit/weights/test_tensor_names \
	tests/unit/weights/test_vision_weights \
	tests/unit/weights/test_weights \
	# End of tests/unit

EXTRA_DIST += \
	tests/console \
	tests/unit/batch/memory_examples.h \
	tests/unit/batch/memory_images.h \
	tests/unit/batch/memory_pairs.h \
	tests/unit/bytes_tokenizer.h \
	tests/unit/ckpt/ckpt_root.h \
	tests/unit/cmd/generate_scene.h \
	tests/unit/cmd/plan_run.h \
	tests/unit/command.h \
	tests/unit/conf.h \
	tests/unit/conf/deepspeed \
	tests/unit/conf_pair.h \
	tests/unit/console/outcome.h \
	tests/unit/count.h \
	tests/unit/data/examples_file.h \
	tests/unit/data/forms \
	tests/unit/data/images_scene.h \
	tests/unit/data/small_png.h \
	tests/unit/dpo_run.h \
	tests/unit/drive.h \
	tests/unit/image/counts.txt \
	tests/unit/image/files \
	tests/unit/image/image_files.h \
	tests/unit/image/images.txt \
	tests/unit/image/make_images.py \
	tests/unit/image/make_processors.py \
	tests/unit/image/make_resizes.py \
	tests/unit/image/pixels.txt \
	tests/unit/image/processor_scene.h \
	tests/unit/image/processors.json \
	tests/unit/image/resizes.txt \
	tests/unit/keeper/agreement_play.h \
	tests/unit/keeper/keeper_scene.h \
	tests/unit/keeper/nodes_scene.h \
	tests/unit/model.h \
	tests/unit/pair_run.h \
	tests/unit/ppo_run.h \
	tests/unit/prompt_scene.h \
	tests/unit/protobuf_reader.h \
	tests/unit/pty.h \
	tests/unit/random_weights.h \
	tests/unit/reward/reward.h \
	tests/unit/reward/reward_program.h \
	tests/unit/run_data.h \
	tests/unit/said.h \
	tests/unit/sampled_run.h \
	tests/unit/scratch.h \
	tests/unit/sink_scene.h \
	tests/unit/small_run.h \
	tests/unit/stderr_text.h \
	tests/unit/sysfs.h \
	tests/unit/tensor_read.h \
	tests/unit/tower.h \
	tests/unit/train/adapter_scene.h \
	tests/unit/train/flight_scene.h \
	tests/unit/train/lost_scene.h \
	tests/unit/turned_clock.h \
	# End of tests/unit

# What tests share.
check_LIBRARIES += tests/unit/libunit.a
tests_unit_libunit_a_SOURCES = \
	tests/unit/disk.c \
	tests/unit/disk.h \
	tests/unit/task_env.c \
	tests/unit/task_env.h \
	tests/unit/world.c \
	tests/unit/world.h \
	# End of tests/unit

# What test_backend loads: a module, and one of another version.
EXTRA_PROGRAMS += tests/unit/backend/stub.so tests/unit/backend/stub_newer.so
EXTRA_tests_unit_backend_test_backend_DEPENDENCIES = \
	tests/unit/backend/stub.so \
	tests/unit/backend/stub_newer.so
CLEANFILES += $(EXTRA_tests_unit_backend_test_backend_DEPENDENCIES)
stub_link = $(CC) -shared $(DT_LDFLAGS) -o $@
tests_unit_backend_stub_so_SOURCES = \
	runtime/base/error.c \
	runtime/base/secret.c \
	tests/unit/backend/stub_backend.c
tests_unit_backend_stub_so_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTUB_VERSION=DT_BACKEND_VERSION
tests_unit_backend_stub_so_CFLAGS = $(DT_CFLAGS) -fPIC
tests_unit_backend_stub_so_LINK = $(stub_link)
tests_unit_backend_stub_so_LDADD =
tests_unit_backend_stub_newer_so_SOURCES = $(tests_unit_backend_stub_so_SOURCES)
tests_unit_backend_stub_newer_so_CPPFLAGS = $(AM_CPPFLAGS) \
	-DSTUB_VERSION=DT_BACKEND_VERSION+1
tests_unit_backend_stub_newer_so_CFLAGS = $(DT_CFLAGS) -fPIC
tests_unit_backend_stub_newer_so_LINK = $(stub_link)
tests_unit_backend_stub_newer_so_LDADD =

if HAVE_CURL
check_PROGRAMS += tests/unit/reward/test_reward_http
endif

# What test_reward_examples starts.
EXTRA_PROGRAMS += tests/unit/reward/length_reward
EXTRA_tests_unit_reward_test_reward_examples_DEPENDENCIES = \
	tests/unit/reward/length_reward
CLEANFILES += tests/unit/reward/length_reward
tests_unit_reward_length_reward_SOURCES = contrib/rewards/length_reward.c

# What test_energy loads in place of NVML.
EXTRA_PROGRAMS += tests/unit/train/fake_nvml.so
EXTRA_tests_unit_train_test_energy_DEPENDENCIES = tests/unit/train/fake_nvml.so
CLEANFILES += tests/unit/train/fake_nvml.so
tests_unit_train_fake_nvml_so_SOURCES = tests/unit/train/fake_nvml.c
tests_unit_train_fake_nvml_so_CFLAGS = $(DT_CFLAGS) -fPIC
tests_unit_train_fake_nvml_so_LINK = $(stub_link)
tests_unit_train_fake_nvml_so_LDADD =

# They say when a copy is due.
tests_unit_train_test_copies_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=dt_copies_tell -Wl,--wrap=dt_locker_done \
	-Wl,--wrap=dt_plan_spare -Wl,--wrap=madvise
tests_unit_train_test_flight_lost_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=dt_copies_tell

tests_unit_train_test_copies_given_up_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=dt_copies_tell
# It says when a run fails.
tests_unit_train_test_flight_output_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=dt_fault

# Its disk does not answer for a while.
tests_unit_run_test_owner_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=utimensat -Wl,--wrap=pthread_clockjoin_np

# It lets pages come only when the thread that gets them is waited for.
tests_unit_device_test_locker_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=madvise -Wl,--wrap=pthread_join

# It gives the units of a model of text to other parts.
tests_unit_train_test_run_state_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=dt_model_layout -Wl,--wrap=dt_learner_divide
tests_unit_train_test_run_state_sampled_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=dt_scoring_begin
tests_unit_train_test_frozen_run_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=dt_model_layout

if HAVE_SLURM
include tests/unit/spank/local.mk
endif
