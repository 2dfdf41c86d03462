#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bring_up.sh - tests/bench/gpu.sh on a machine that is made of scripts
#
# It runs for the first time where minutes are counted, so all that it calls is
# stood in for here: what the tools print, and what has to be read from it.

here=$(cd "$(dirname "$0")" && pwd)
gpu=$here/../bench/gpu.sh
count=0
command -v python3 >/dev/null || {
    echo "1..0 # SKIP there is no python3"
    exit 0
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
machine=$work/machine # its state: a file for each thing that is broken
build=$work/build
mkdir -p "$work/bin" "$machine" "$build/tests/gpu" "$build/tests/ops" \
    "$build/tests/parity" "$build/tests/bench"

# program FILE: makes it of standard input
program() {
    {
        echo '#!/bin/sh'
        echo "machine='$machine' tests='$here/..'"
        cat
    } >"$1"
    chmod +x "$1"
}

program "$work/bin/nvidia-smi" <<'END_OF_PROGRAM'
case $* in
*compute_cap*) echo 9.0 ;;
*memory.used*) echo 1000 ;;
*-lms*)
    echo "210, 80.00, 0x0000000000000001"
    echo "1980, 600.00, 0x0000000000000000"
    echo "1650, 700.00, 0x0000000000000004"
    echo "1600, 700.00, 0x0000000000000004"
    exec sleep 60
    ;;
*) echo "a driver" ;;
esac
END_OF_PROGRAM
program "$work/bin/compute-sanitizer" <<'END_OF_PROGRAM'
[ "$1 $3 $4 $5" = "--tool --error-exitcode 9 --print-limit" ] || exit 2
shift 6
echo "$*" >>"$machine/sanitized"
[ ! -e "$machine/broken" ] || {
    echo "========= ERROR SUMMARY: 1 error"
    exit 9
}
END_OF_PROGRAM
# the last option is that of the metrics
program "$work/bin/ncu" <<'END_OF_PROGRAM'
while [ "$1" != --metrics ]; do
    [ "$1" != --log-file ] || log=$2
    shift
done
shift 2
{
    echo "==PROF== Connected to process 1"
    echo '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
    for step in 1 2 3; do
        echo "\"1\",\"1\",\"<unnamed>::begin_kernel(double *, StepParams)\",\"t\",\"ns\",\"1,500\""
        echo "\"2\",\"1\",\"void nvjet_hsh<int>(a, b)\",\"t\",\"ns\",\"${step}00,000\""
        echo "\"3\",\"1\",\"void nvjet_hsh<int>(a, b)\",\"t\",\"ns\",\"${step}00,000\""
    done
} >"$log"
exec "$@"
END_OF_PROGRAM
program "$work/bin/bats" <<'END_OF_PROGRAM'
echo 1..1
shift "$(($# - 1))"
echo "ok 1 $1"
END_OF_PROGRAM

program "$build/disttrain" <<'END_OF_PROGRAM'
if [ "$1" = info ]; then
    echo "CUDA:            13.0, for sm_90"
    echo "GPU attention:   cuDNN 9.19.0$(cat "$machine/no-cudnn" 2>/dev/null)"
    [ -e "$machine/no-gpu" ] || echo "GPU 0:           NVIDIA H200"
    exit
fi
to=$(sed -n 's/.*report_to.* dir: "\(.*\)"}.*/\1/p' "$2")
: "${to:=$(sed -n 's/^run: {name: \([^,]*\),.*/\1/p' "$2")/logs}"
steps=$(sed -n 's/.*max_steps: \([0-9]*\).*/\1/p' "$2")
mkdir -p "$to"
for step in $(seq "$steps"); do
    echo "step $step/$steps"
    rate=600$((10 + step)).5
    case $2 in documents*) [ ! -e "$machine/slow" ] || rate=100$((10 + step)).5 ;; esac
    loss=1.5
    [ ! -e "$machine/broken" ] || loss=null
    echo "{\"step\": $step, \"loss\": $loss, \"tokens_per_s\": $rate}"
done >"$to/all"
grep '^step' "$to/all"
grep '^{' "$to/all" >"$to/metrics.jsonl"
echo "peak memory of rank 0 1.5 GiB"
END_OF_PROGRAM
program "$build/tests/bench/gemm" <<'END_OF_PROGRAM'
echo "ceiling: 770.0 TFLOP/s"
END_OF_PROGRAM
program "$build/tests/bench/decode" <<'END_OF_PROGRAM'
echo "$((100 - $(cat "$machine/behind" 2>/dev/null || echo 0))).0 tokens/s of 512"
END_OF_PROGRAM
program "$build/tests/bench/ops" <<'END_OF_PROGRAM'
echo "autotune: a product: ms: 0 0.1: 0"
cat <<ROWS
operation                      calls        time   share           flops     least bytes  intensity of the roof
linear forward 768 to 2304        12    2.200 ms   4.0 %   600.0 GFLOP/s      100.0 GB/s      600.0  90.0 % flops
attention forward                 12    5.250 ms   4.0 %   600.0 GFLOP/s      100.0 GB/s      600.0  90.0 % flops
embedding forward                  1    0.100 ms   4.0 %     0.0 GFLOP/s      100.0 GB/s      600.0  90.0 % bytes
embedding backward                 1    0.120 ms   4.0 %     0.0 GFLOP/s      100.0 GB/s      600.0  90.0 % bytes
ROWS
END_OF_PROGRAM
for name in gpu/test_device parity/test_model_dropout \
    parity/test_model_gradients parity/test_model_logits \
    parity/test_model_sft parity/test_families parity/test_adapters \
    parity/test_value_head parity/test_rollout parity/test_offload; do
    program "$build/tests/$name" </dev/null
done
program "$build/tests/gpu/test_cudnn" <<'END_OF_PROGRAM'
[ ! -e "$machine/no-cudnn" ] || echo "no engine takes the graph"
END_OF_PROGRAM
program "$build/tests/ops/test_ops" <<'END_OF_PROGRAM'
case $*$DISTTRAIN_AUTOTUNE in
"cuda fastfresh" | *library) ;;
*) exit 0 ;;
esac
[ ! -e "$machine/broken" ] || {
    echo "linear: element 3 of tensor 2 of the call is 1, by the CPU 2"
    exit 1
}
END_OF_PROGRAM
printf 'all gpu-programs tests/bench/gemm tests/bench/ops tests/bench/decode:\n' \
    >"$build/Makefile"

# run OUT PART...: sets status
run() {
    to=$1
    PATH=$work/bin:$PATH BUILD=$build PYTHON=${PYTHON:-no-python} MODEL='' \
        DISTTRAIN_CUDA_MODULE=none "$gpu" "$@" >"$to.printed" 2>&1
    status=$?
}

# said NAME PATTERN...: all are in the summary, each on a line
said() {
    count=$((count + 1))
    name=$1
    shift
    for pattern; do
        grep -qE -- "$pattern" "$to/SUMMARY.md" || {
            echo "not ok $count - $name"
            echo "# expected $pattern in"
            tail -n 30 "$to.printed" | sed 's/^/# /'
            return
        }
    done
    echo "ok $count - $name"
}

# holds NAME COMMAND [WORD ...]
holds() {
    count=$((count + 1))
    name=$1
    shift
    if "$@"; then
        echo "ok $count - $name"
    else
        echo "not ok $count - $name"
        tail -n 30 "$to.printed" | sed 's/^/# /'
    fi
}

# all but train, which compares what a machine of scripts does not write
run "$work/good" build sanitize test recorded sampled kinds ops gpt2 \
    llama-1.5b rates decode start profile ranks
holds "a good machine passes all parts" [ "$status" -eq 0 ]
said "libraries" "^GPU attention: +cuDNN 9.19.0$"
said "tests" "^ok 3 - operations, fast" "^ok 1 cuda_sampled|^ok 1 .*bats"
holds "four tools ran on our own kernels" \
    [ "$(grep -c "test_ops cuda math small" "$machine/sanitized")" -eq 4 ]
said "speed beside what is predicted" \
    "^[0-9]+ tokens/s; predicted 550000 to 655000; slower"
said "operations beside what is predicted, slow ones marked" \
    "gpt2 . linear forward 768 to 2304 . 2.2 . 2.200 . 1.00 .  .$" \
    "gpt2 . attention forward . 2.1 . 5.250 . 2.50 . slow" \
    "gpt2 . embedding . 0.2 . 0.220 . 1.10" "^slow attention: "
said "clocks under load, and why they are low" \
    "^clocks: 1650 MHz median under load, 667 W .*; 67 % of .* cap, 0 % slowed"
said "the kernels of the last step by name" \
    "^. nvjet_hsh<int> . 2 . 400.0 . 99.6% .$" "begin_kernel . 1 . 1.5 ."
said "packed rows beside plain ones, at both sizes" \
    "^ok - documents, of the rate of plain rows: 1.000, at least 0.91" \
    "^ok - documents, .* at least 0.95" "^ok - completions, .* at least 0.9"
said "rollouts, and what a start costs" "^. 64 . 0.9 . 100.0 .$" \
    "^ok - seconds to the first step" "^ok - MiB that a run has beside"
said "ranks are of no use to one GPU" "^1..0 # SKIP there is one GPU"

rm "$work/bin/ncu"
program "$work/bin/nsys" <<'END_OF_PROGRAM'
if [ "$1" = profile ]; then
    while [ "$1" != --output ]; do
        shift
    done
    touch "$2.nsys-rep"
    shift 2
    exec "$@"
fi
shift "$(($# - 1))"
[ -e "$1" ] || exit 1
echo "Processing [$1]"
echo "Start (ns),Duration (ns),CorrId,Name"
for step in 1 2 3; do
    echo "${step}00,2000,1,\"begin_kernel(double *, StepParams)\""
    echo "${step}10,30000,1,\"void adamw_kernel<float>(double const *)\""
    echo "${step}20,1000,1,[CUDA memcpy HtoD]"
done
END_OF_PROGRAM
if command -v ncu >/dev/null; then
    count=$((count + 1))
    echo "ok $count - kernels by nsys # SKIP there is a real ncu here"
else
    run "$work/nsys" profile
    said "kernels by nsys where there is no ncu" \
        "^. adamw_kernel<float> . 1 . 30.0 . 90.9% .$" "memcpy HtoD. . 1 . 1.0 ."
fi

echo "GPU 0 is not there" >"$machine/no-gpu"
run "$work/none" build sanitize
holds "a machine without a GPU passes no part" [ "$status" -eq 1 ]
said "and says so" "^not ok - there is a GPU that can be used"
rm "$machine/no-gpu"

echo 30 >"$machine/behind"
program "$work/vllm" <<'END_OF_PROGRAM'
[ "$1" = -c ] || echo "100.0 tokens/s of 512"
END_OF_PROGRAM
PYTHON=$work/vllm run "$work/behind" decode profile
holds "a rate below its limit is the exit status" [ "$status" -eq 1 ]
said "and says which" \
    "^not ok - 64 slots, top_p 0.9, of vLLM's rate: 0.700, at least 0.8" \
    "^-> nothing more is done. To go on: gpu.sh .* profile"
holds "nothing follows it" [ ! -e "$work/behind/profile.log" ]
touch "$machine/slow"
run "$work/slow" kinds
said "packed rows that are slow" \
    "^not ok - documents, of the rate of plain rows: 0.167, at least 0.91"

touch "$machine/broken"
run "$work/bad" test
holds "what fails is the exit status" [ "$status" -eq 1 ]
said "causes: fast operations only" "^not ok 3 - operations, fast" \
    "^-> only fast operations fail" "^not ok 4 .*: library" "^ok 5 .*: apart" \
    "^-> an epilogue of cuBLASLt is wrong"
run "$work/unclean" sanitize
said "errors of a tool" "^not ok 2 - memcheck: test_ops cuda math small" \
    "^# the tool found errors" "ERROR SUMMARY: 1 error"
run "$work/null" kinds
said "numbers that are not finite" "^not ok 1 - plain rows" "^-> not finite: "

echo ", but NVRTC is missing" >"$machine/no-cudnn"
run "$work/stop" build test
holds "without cuDNN nothing follows the build" [ "$status" -eq 1 ]
holds "and no test ran" [ ! -e "$work/stop/test.log" ]
said "why, and how to go on" "^-> cuDNN makes no plan.*libnvrtc" \
    "^-> nothing more is done. To go on: gpu.sh .* test"

# unsaid: texts that causes look for and nothing here says any more
unsaid() {
    for text in "no engine takes the graph" "install NVRTC" \
        "model.attention: flash needs" "attention is slower than with cuDNN" \
        "cannot be recorded as a graph" "when it is only recorded" \
        "when it is replayed" "could not be started" "the run diverged" \
        "the CPU %.9g" "what would fit:" "do not link" "does not compile with"; do
        grep -rqF -- "$text" "$here/../../runtime" "$here/../../m4" \
            "$here/../ops" || echo "# unsaid: $text"
    done
}
holds "causes are looked for by texts that are ours" [ -z "$(unsaid)" ]

# unmeasured: predicted operations that no row of ops is called
unmeasured() {
    bash -c '. "$1/gpu.bash"; predictions' - "$here/../bench" |
        sed -n '/tokens/!s/[^;]*;\([^;]*\);.*/\1/p' |
        sed 's/[0-9][0-9]*/%zu/g; s/^^/"/' |
        while read -r row; do
            grep -q -- "$row" "$here/../bench/timed.c" || echo "# $row"
        done
}
holds "what is predicted is what ops measures" [ -z "$(unmeasured)" ]

# touching: programs for GPUs that read or write a view as the host's memory
touching() {
    sed -n '/^gpu_programs = /,/# End/s/^\t\(tests[^ ]*\) .*/\1.c/p' \
        "$here/local.mk" | (cd "$here/../.." && xargs grep -n 'dt_view_f32(') |
        sed 's/^/# /'
}
holds "what a GPU runs reads its memory by copies alone" [ -z "$(touching)" ]

# As configure says it where nothing is
cat >"$work/summary" <<'END_OF_LOG'
  CUDA backend    (--with-cuda)  : no (no nvcc in PATH or /usr/local/cuda)
  cuDNN           (--with-cudnn) : no (no cudnn.h in /usr/local/cuda/include)
END_OF_LOG
explained=$(bash -c '. "$1/gpu.bash"; explain "$2"' - "$here/../bench" \
    "$work/summary" | grep -c -e '-> .*--with-cuda=DIR' -e '-> .*--with-cudnn=')
holds "causes: what configure did not find" [ "$explained" -eq 2 ]

run "$work/wrong" test tset
holds "a part that is not there is refused before any runs" \
    [ "$status$(ls -A "$work/wrong" 2>/dev/null)" = 64 ]
echo "1..$count"
