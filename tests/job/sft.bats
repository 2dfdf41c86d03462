#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# sft.bats - configs/sft.yaml on four nodes, from conversations to an answer

bats_require_minimum_version 1.5.0

load helpers

setup_file() {
    WORK=$(mktemp -d /tmp/disttrain-sft.XXXXXX)
    export WORK MODEL=$WORK/model CHATS=$WORK/chats.jsonl OMP_NUM_THREADS=1
    make_chats >"$CHATS"
    make_model
    dt_cluster_up --nodes 4 --cpus 2
}

teardown_file() {
    dt_cluster_down
    rm -rf "$WORK"
}

setup() {
    dt_setup
    cd "$WORK" || return
}

# make_chats: 300 conversations about the number after a number.
make_chats() {
    awk 'BEGIN {
        for (i = 1; i <= 300; i++)
            printf "{\"messages\": [" \
                "{\"role\": \"user\", \"content\": \"And after %d?\"}, " \
                "{\"role\": \"assistant\", \"content\": \"After %d it is %d.\"}" \
                "]}\n", i, i, i + 1
    }'
}

# make_model: writes a Hugging Face directory, MODEL: a tiny untrained Llama.
make_model() {
    mkdir "$WORK/random"
    cp "$DT_SRCDIR"/tests/parity/chat_tokenizer/* "$WORK/random"
    cat >"$WORK/random/chat_template.jinja" <<'END'
{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
END
    mkdir "$WORK/random/additional_chat_templates"
    cp "$WORK/random/chat_template.jinja" \
        "$WORK/random/additional_chat_templates/tool_use.jinja"
    cat >"$WORK/random/config.json" <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama",
 "vocab_size": 338, "hidden_size": 64, "intermediate_size": 128,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
 "max_position_embeddings": 256, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
 "hidden_act": "silu", "tie_word_embeddings": true, "initializer_range": 0.05,
 "bos_token_id": 332, "eos_token_id": 331}
END
    cat >"$WORK/random.yaml" <<END
algorithm: sft
run: {name: random, output_dir: random.out}
model: {config_path: random}
data: {train: chats.jsonl, max_length: 64}
training: {train_batch_size: 1, max_steps: 1}
END
    "$DT_BUILDDIR/disttrain" train "$WORK/random.yaml"
    "$DT_BUILDDIR/disttrain" export "$WORK/random.out" "$MODEL" --dtype bf16
    rm -r "$WORK/.disttrain-cache"
}

# config NAME [FILE]: NAME.yaml is configs/sft.yaml, or FILE of configs, for a
# small model and a short run.
config() {
    sed -e 's/max_length: .*/max_length: 128/' \
        -e 's/train_batch_size: .*/train_batch_size: 8/' \
        -e 's/epochs: .*/max_steps: 60/' -e 's/eval_steps: .*/eval_steps: 20/' \
        -e 's/ lr: .*/ lr: 1.0e-2/' -e 's/  steps: 100/  steps: 25/' \
        -e 's/  steps: 10$/  steps: 1/' \
        "$DT_SRCDIR/configs/${2:-sft.yaml}" >"$1.yaml"
}

# metric SPLIT KEY NAME: the values of a run, one per line.
metric() {
    sed -n "s/.*\"split\": \"$1\".*\"$2\": \([-+.e0-9]*\).*/\1/p" \
        "$3.out/logs/metrics.jsonl"
}

# sft NAME: trains NAME.yaml to NAME.out.
sft() {
    OUTPUT=$WORK/$1.out dt_srun -N4 --ntasks-per-node=1 -J sft \
        --disttrain="$1.yaml"
}

@test "conversations are prepared, and training finds them" {
    config whole
    run -0 "$DT_BUILDDIR/disttrain" prepare --config whole.yaml
    [[ $output == *"chats.jsonl: 300 examples, "*" targets, 0 bad lines; "* ]]
    local made
    made=$(stat -c '%n %Y %i' .disttrain-cache/*)
    run sft whole
    echo "$output"
    ((status == 0))
    [[ $output != *"300 examples, "*" of them targets"* ]]
    [[ $(stat -c '%n %Y %i' .disttrain-cache/*) == "$made" ]]
    [[ $output == *"data.train: 285 examples in "*" rows, "* ]]
    [[ $output == *"held out: 15 examples in "*" rows, "* ]]
    [[ $output == *"1 row per rank x 4 ranks x 2 accumulation = 8 samples"* ]]
    [[ $output == *"done: 60 steps"* ]]
}

@test "the training loss and the held-out loss fall" {
    (($(metric train loss whole | wc -l) == 60))
    metric train loss whole | awk 'NR == 1 { first = $1 }
        END { print "loss", first, "to", $1; exit !($1 < first / 3) }'
    (($(metric eval loss whole | wc -l) == 3))
    metric eval loss whole | awk 'NR == 1 { first = $1 }
        END { print "held out", first, "to", $1; exit !($1 < first) }'
}

# rank2_has PATTERN: whether a line of its status in /proc on n3 matches.
rank2_has() {
    dt_run --node n3 sh -c 'grep -Eqsx "$1" \
        $(pgrep -x disttrain | sed "s,.*,/proc/&/status,") /dev/null' sh "$1"
}

@test "a run stopped by a signal resumes to the same weights" {
    "$DT_BUILDDIR/disttrain" info | grep -q 'fault injection: on' ||
        skip "built without --enable-fault-injection"
    config stopped
    # rank 2 is stopped in step 33 until it has the signal
    DISTTRAIN_FAULT=train.step:rank=2:step=33:stop \
        dt_background stopped.log sft stopped
    local srun=$! status=0
    dt_wait_for 50 rank2_has 'State:.*T \(stopped\)'
    dt_run scancel -s USR1 -n sft
    dt_wait_for 20 rank2_has 'ShdPnd:.*[2367abef]..'
    dt_run scancel -s CONT -n sft
    wait "$srun" || status=$?
    cat stopped.log
    ((status == 75))
    [[ $(readlink stopped.out/checkpoints/latest) == checkpoint-33 ]]
    run sft stopped
    echo "$output"
    ((status == 0))
    [[ $output == *"resuming from "*"/checkpoint-33"* ]]
    diff <(metric train loss whole) <(metric train loss stopped)
    (cd whole.out/checkpoints/latest && sha256sum ./*.safetensors) >sums
    (cd stopped.out/checkpoints/latest && sha256sum -c "$WORK/sums")
}

@test "the exported model answers" {
    run -0 "$DT_BUILDDIR/disttrain" export whole.out answers --dtype bf16
    echo "$output"
    [[ $output == "answers: "*" parameters in bf16, from "*"/checkpoint-60" ]]
    local file
    for file in config.json model.safetensors tokenizer.json \
        tokenizer_config.json chat_template.jinja \
        additional_chat_templates/tool_use.jinja; do
        [[ -s answers/$file ]]
    done
    cmp random/tokenizer.json answers/tokenizer.json
    run -0 "$DT_BUILDDIR/disttrain" generate --model answers --chat \
        --prompt "And after 120?" --temperature 0 --max-tokens 40
    echo "$output"
    [[ $output == "After 1"*" it is 1"*. ]]
    # in fp32, directly from the run's output
    run -0 "$DT_BUILDDIR/disttrain" generate --model whole.out --chat \
        --prompt "And after 120?" --temperature 0 --max-tokens 40
    [[ $output == "After 1"*" it is 1"*. ]]
}

# says MODEL: what a model, or an adapter with its own, answers in fp32.
says() {
    "$DT_BUILDDIR/disttrain" generate --model "$1" --chat \
        --prompt "And after 120?" --temperature 0 --max-tokens 40
}

@test "an adapter beside that model learns on all ranks, and is merged" {
    config lora lora.yaml
    sed -i -e 's/max_steps: .*/max_steps: 10/; s/ lr: .*/ lr: 1.0e-4/' \
        -e 's/eval_steps: .*/eval_steps: 5/' lora.yaml
    MODEL=$WORK/answers run sft lora
    echo "$output"
    ((status == 0))
    [[ $output == *"parameters are trained, those of $WORK/answers are frozen"* ]]
    [[ -s lora.out/checkpoints/latest/adapter_config.json ]]
    [[ -s lora.out/checkpoints/latest/adapter_model.safetensors ]]
    [[ ! -e lora.out/checkpoints/latest/model.safetensors ]]
    run -0 says lora.out
    echo "$output"
    [[ $output == "After "* ]]
    "$DT_BUILDDIR/disttrain" export lora.out merged --merge --dtype fp32
    [[ $(says merged) == "$output" ]]
}
