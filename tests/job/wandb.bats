#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# wandb.bats - what contrib/wandb-follow sends of a run, with a client of ours in
# place of that of Weights & Biases; the real one is asked in trial_sinks.py

bats_require_minimum_version 1.5.0

load helpers

setup() {
    command -v python3 >/dev/null || skip "python3 is not installed"
    dt_setup
    cd "$BATS_TEST_TMPDIR" || return
    unset "${!WANDB_@}"
    export CALLS=$PWD/calls PYTHONPATH=$PWD/client PYTHONDONTWRITEBYTECODE=1
    mkdir -p client out/logs
    cp "$DT_SRCDIR/tests/job/wandb_client.py" client/wandb.py
}

follow() {
    timeout 120 python3 "$DT_SRCDIR/contrib/wandb-follow" "$@"
}

# facts STATUS [KEY=VALUE]...: writes run.json with these keys, in JSON.
facts() {
    local pair config='"run.name": "tiny"'
    for pair in "${@:2}"; do
        config+=", \"${pair%%=*}\": ${pair#*=}"
    done
    cat >out/logs/run.json.new <<END
{"run_id": "0123abcd", "name": "tiny", "algorithm": "sft", "world": 2,
 "config": {"optimizer.lr": 0.001, $config}, "status": "$1"}
END
    mv out/logs/run.json.new out/logs/run.json
}

# line SPLIT STEP WALL VALUES: appends a line of metrics.jsonl.
line() {
    echo "{\"step\": $2, \"split\": \"$1\", $4, \"time\": 1, \"wall\": $3}" \
        >>out/logs/metrics.jsonl
}

# logged: what was logged, without its time.
logged() {
    sed -n 's/"_timestamp": [0-9.]*, //; s/^log //p' calls
}

@test "a run is sent with its id, names, settings and values" {
    facts finished
    line train 1 1700000001.5 '"loss": 2.5, "lr": 0.5, "mfu": null'
    line train 2 1700000002 '"loss": null, "total_tokens": 8, "num_tokens": 9'
    line eval 2 1700000003 '"loss": 2.25, "tokens": 7'
    run -0 follow out
    [[ $output == "wandb-follow: the run is finished" ]]
    diff - calls <<END
init {"dir": "out/logs", "id": "0123abcd", "name": "tiny", \
"project": "disttrain", "resume": "allow", "settings": {"console": "off", \
"disable_git": true, "save_code": false, "x_disable_stats": true}}
config {"disttrain": {"algorithm": "sft", "world": 2}, \
"optimizer": {"lr": 0.001}, "run": {"name": "tiny"}}
metric ["train/global_step", {}]
metric ["*", {"step_metric": "train/global_step", "step_sync": true}]
log {"_timestamp": 1700000001.5, "train/global_step": 1, \
"train/learning_rate": 0.5, "train/loss": 2.5}
log {"_timestamp": 1700000002, "train/global_step": 2, "train/loss": NaN, \
"train/num_tokens": 9}
log {"_timestamp": 1700000003, "eval/loss": 2.25, "eval/tokens": 7, \
"train/global_step": 2}
finish 0
END
}

@test "logging.wandb is preferred to variables, which the client reads too" {
    facts finished 'logging.wandb.project="p"' 'logging.wandb.tags=["a", "b"]' \
        'logging.wandb.name=null'
    line train 1 1 '"loss": 1'
    WANDB_PROJECT=other WANDB_NAME=n WANDB_ENTITY=e WANDB_DIR=/d \
        run -0 follow out/logs
    run -0 grep ^init calls
    [[ $output == 'init {"dir": "/d", "id": "0123abcd", "name": "n", "project": '\
'"p", "resume": "allow", "settings": {'*'}, "tags": ["a", "b"]}' ]]
    facts finished
    WANDB_PROJECT=other run -0 follow out/logs
    run -0 grep -c '"project": "other"' calls
}

@test "names of DeepSpeed's monitor are sent where the run has them" {
    facts finished 'logging.names="deepspeed"'
    line train 1 1 '"loss": 2, "lr": 0.5, "grad_norm": 1, "step_s": 3'
    line eval 1 2 '"loss": 2'
    run -0 follow out
    diff - <(logged) <<'END'
{"Train/Samples/lr": 0.5, "Train/Samples/train_loss": 2, "perf/step_s": 3, "train/global_step": 1, "train/grad_norm": 1}
{"eval/loss": 2, "train/global_step": 1}
END
}

@test "the names are those of TensorBoard's files" {
    # {"loss", NULL, "Train/..."}: no name but train/loss with those of hf
    diff <(sed -n '/ rows\[\] = {/,/^};/s/^    {"\([^"]*\)", \(.*\)},$/\1 \2/p' \
        "$DT_SRCDIR/runtime/report/tensorboard.c" | tr -d '",' |
        while read -r name hf deepspeed; do
            [[ $hf == NULL ]] || echo "HF $name $hf"
            [[ $deepspeed == NULL ]] || echo "DEEPSPEED $name $deepspeed"
        done | sort) \
        <(awk '/^(HF|DEEPSPEED) = {/ { table = $1 }
            /^}/ { table = "" }
            table && /^    "/ { gsub(/[":,]/, ""); print table, $1, $2 }' \
            "$DT_SRCDIR/contrib/wandb-follow" | sort)
}

@test "called again, it sends what is missing" {
    facts running
    line train 1 1700000001 '"loss": 1'
    run -0 follow --once out
    [[ $output == "wandb-follow: the run is running" ]]
    line train 2 1700000002 '"loss": 2'
    printf '{"step": 3, "split": "tr' >>out/logs/metrics.jsonl
    run -0 follow --once out
    diff - <(logged) <<'END'
{"train/global_step": 1, "train/loss": 1}
{"train/global_step": 2, "train/loss": 2}
END
}

@test "a run is followed to its end, also where a resume has cut its file" {
    facts running
    line train 1 1700000001 '"loss": 1'
    line train 2 1700000002 '"loss": 2'
    dt_background log follow out
    dt_wait_for 60 dt_lines 2 '^log' calls
    # step 2 is repeated, in as many bytes
    sed -i 2d out/logs/metrics.jsonl
    line train 2 1700000003 '"loss": 3'
    dt_wait_for 60 dt_lines 3 '^log' calls
    echo damaged >>out/logs/metrics.jsonl
    line train 3 1700000004 '"loss": 4'
    facts finished
    wait $!
    [[ $(<log) == "wandb-follow: the run is finished" ]]
    diff - <(logged) <<'END'
{"train/global_step": 1, "train/loss": 1}
{"train/global_step": 2, "train/loss": 2}
{"train/global_step": 2, "train/loss": 3}
{"train/global_step": 3, "train/loss": 4}
END
}

@test "it ends with a failure if the run does, and when it is told to" {
    facts failed
    line train 1 1 '"loss": 1'
    run -0 follow out
    [[ $(tail -n1 calls) == "finish 1" ]]
    facts running
    line train 2 2 '"loss": 1'
    dt_background log python3 "$DT_SRCDIR/contrib/wandb-follow" out
    dt_wait_for 60 dt_lines 2 '^log' calls
    kill $!
    wait $!
    [[ $(tail -n1 calls) == "finish 0" ]]
    [[ $(<log) == "wandb-follow: the run is left" ]]
    sed -i 's/0123abcd/another0/' out/logs/run.json
    sed -i 's/return Run(given\["id"\])/return Run("0123abcd")/' client/wandb.py
    run -0 follow out
    [[ $output == "wandb-follow: the run is replaced by another one" ]]
}

@test "a run whose status nobody writes any more was killed" {
    facts running
    line train 1 1 '"loss": 1'
    echo '{"time": 1}' >out/logs/status.json
    sed 's/^SILENT_S = 300\b/SILENT_S = 1/' \
        "$DT_SRCDIR/contrib/wandb-follow" >hasty
    run -0 timeout 120 python3 hasty out
    [[ $output == "wandb-follow: the run is killed" ]]
    [[ $(tail -n1 calls) == "finish 1" ]]
}

@test "what is no run, and what there is no client for, is refused" {
    run -66 follow out
    [[ $output == "wandb-follow: out: no run: expected the run.output_dir or "*\
"logging.dir of one that has begun" ]]
    run -64 follow
    [[ $output == "usage: wandb-follow [--once] RUN (see --help)" ]]
    run -64 follow out out
    run -64 follow --often out
    run -0 follow --help
    [[ $output == "wandb-follow - "*"usage: wandb-follow [--once] RUN"* ]]
    facts finished
    line train 1 1 '"loss": 1'
    NO_LOGIN=1 run -69 follow out
    [[ $output == "wandb-follow: No API key configured. Use \`wandb login\`"* ]]
    echo "raise ImportError(\"No module named 'wandb'\")" >client/wandb.py
    run -69 follow out
    [[ $output == "wandb-follow: No module named 'wandb': python3 -m pip install wandb" ]]
    [[ ! -e calls ]]
}

@test "report_to: [wandb] prints the command that sends the run" {
    cat /usr/share/common-licenses/GPL-2 >text
    cat >run.yaml <<'END'
algorithm: sft
run: {name: tiny, output_dir: real}
model: {n_positions: 32, n_embd: 32, n_layer: 2, n_head: 2}
data: {train: text, max_length: 32}
training: {max_steps: 3, per_device_batch_size: 2}
optimizer: {lr: 1.0e-3}
logging: {steps: 1, report_to: [stdout, wandb]}
END
    run -0 timeout 120 "$DT_BUILDDIR/disttrain" train run.yaml
    [[ $output =~ "contrib/wandb-follow "([^$'\n']*) ]]
    [[ ${BASH_REMATCH[1]} == "$PWD/real/logs" ]]
    run -0 follow "${BASH_REMATCH[1]}"
    run -0 grep -c '^log.*"train/loss": [0-9.]*[,}]' calls
    [[ $output == 3 ]]
}
