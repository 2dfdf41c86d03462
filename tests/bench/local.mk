# SPDX-License-Identifier: Apache-2.0
#
# Benchmarks are made and run by hand: make tests/bench/ops and so on

EXTRA_PROGRAMS += tests/bench/adamw tests/bench/decode tests/bench/gemm \
	tests/bench/image tests/bench/ops tests/bench/pictures \
	tests/bench/render tests/bench/rounding tests/bench/save \
	tests/bench/swap tests/bench/tiles tests/bench/tokenize
tests_bench_decode_SOURCES = tests/bench/decode.c tests/bench/machine.c \
	tests/bench/machine.h tests/bench/roof.c tests/bench/roof.h \
	tests/bench/timed.c tests/bench/timed.h
tests_bench_gemm_SOURCES = tests/bench/gemm.c tests/bench/roof.c \
	tests/bench/roof.h
tests_bench_swap_SOURCES = tests/bench/drive.c tests/bench/drive.h \
	tests/bench/swap.c
tests_bench_tiles_SOURCES = tests/bench/drive.c tests/bench/drive.h \
	tests/bench/tiles.c
tests_bench_ops_SOURCES = tests/bench/machine.c tests/bench/machine.h \
	tests/bench/ops.c tests/bench/roof.c tests/bench/roof.h \
	tests/bench/timed.c tests/bench/timed.h

EXTRA_DIST += \
	tests/bench/README.md \
	tests/bench/RESULTS.md \
	tests/bench/allreduce.sh \
	tests/bench/chat.sh \
	tests/bench/chat_peer.py \
	tests/bench/common.bash \
	tests/bench/decode.sh \
	tests/bench/decode_peer.py \
	tests/bench/disttrain_dpo.py \
	tests/bench/disttrain_lora.py \
	tests/bench/disttrain_run.py \
	tests/bench/disttrain_step.py \
	tests/bench/disttrain_vlm.py \
	tests/bench/dpo.sh \
	tests/bench/families.sh \
	tests/bench/gpt2_ddp.sh \
	tests/bench/gpu.bash \
	tests/bench/gpu.sh \
	tests/bench/gpu_decode.sh \
	tests/bench/gpu_profile.sh \
	tests/bench/gpu_start.sh \
	tests/bench/gpu_step.sh \
	tests/bench/grpo.sh \
	tests/bench/grpo_step.py \
	tests/bench/grpo_vlm.py \
	tests/bench/image.sh \
	tests/bench/image_peer.py \
	tests/bench/keeper.sh \
	tests/bench/kernels.py \
	tests/bench/learn.sh \
	tests/bench/limits.sh \
	tests/bench/llmc_gpt2.py \
	tests/bench/lora.sh \
	tests/bench/overhead.sh \
	tests/bench/overlap.sh \
	tests/bench/pictures.sh \
	tests/bench/pictures_peer.py \
	tests/bench/plan.sh \
	tests/bench/plan_sampled.sh \
	tests/bench/restart.sh \
	tests/bench/restart_torch.py \
	tests/bench/rounding.sh \
	tests/bench/scale.sh \
	tests/bench/scale_fit.py \
	tests/bench/see.sh \
	tests/bench/stamp.c \
	tests/bench/startup.sh \
	tests/bench/step.sh \
	tests/bench/summary.py \
	tests/bench/swap.sh \
	tests/bench/tokenizer.sh \
	tests/bench/tokenizer_peer.py \
	tests/bench/tokenizer_texts.py \
	tests/bench/torch_allreduce.py \
	tests/bench/torch_family.py \
	tests/bench/torch_gpt2.py \
	tests/bench/torch_llama.py \
	tests/bench/torch_step.py \
	tests/bench/trl_dpo.py \
	tests/bench/trl_lora.py \
	tests/bench/trl_vlm.py \
	tests/bench/vllm_decode.py \
	tests/bench/vlm.sh \
	# End of EXTRA_DIST

if HAVE_GLOO
EXTRA_PROGRAMS += tests/bench/comm
tests_bench_comm_SOURCES = \
	tests/bench/comm.c \
	tests/bench/gloo_ring.cc \
	tests/bench/gloo_ring.h
endif
