# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# gpu.bash - what a log of gpu.sh means: predictions, clocks, and likely causes

# shellcheck source=tests/bench/limits.sh
. "$(dirname "${BASH_SOURCE[0]}")/limits.sh"

# What a model of an H200 predicts, by roofline and the rates that libraries
# reach there: MODEL OPERATIONS MILLISECONDS of the tables of `ops`, where
# OPERATIONS is a regular expression and its rows are added up; and MODEL
# tokens/s LOW HIGH of a step. More than 1.3 times is worth a look.
predictions() {
    cat <<'ROWS'
gpt2;^linear forward 768 to 2304;2.2
gpt2;^linear . residual 768 to 768;0.96
gpt2;^linear . residual 3072 to 768;2.9
gpt2;^linear . activation forward;3.5
gpt2;^linear backward 768 to 2304;4.8
gpt2;^linear backward 768 to 768;1.75
gpt2;^linear backward 768 to 3072;6.3
gpt2;^linear . activation backward;6.45
gpt2;^attention forward;2.1
gpt2;^attention backward;7.1
gpt2;^norm forward;0.66
gpt2;^norm backward;1.5
gpt2;^head and loss;13
gpt2;^embedding;0.2
gpt2;^adamw;0.95
gpt2;^sum of squares;0.13
gpt2;tokens/s;550000;655000
llama-1.5b;^linear;185
llama-1.5b;^attention forward;6
llama-1.5b;^attention backward;19.5
llama-1.5b;^gate;17
llama-1.5b;norm;4.5
llama-1.5b;^rope;2.4
llama-1.5b;^head and loss;38
llama-1.5b;^adamw;11.9
llama-1.5b;^sum of squares;1.6
llama-1.5b;tokens/s;53000;62000
ROWS
}

# compare_ops LOG: the tables of `ops` beside the predictions, in Markdown.
compare_ops() {
    predictions | awk -F ';' '
        FNR == NR {
            if (NF == 3) {
                model[++rows] = $1; what[rows] = $2; want[rows] = $3
            }
            next
        }
        / tokens, bf16$/ { now = $0; sub(/,.*/, "", now); next }
        match($0, / +[0-9]+ +[0-9.]+ ms/) {
            name = substr($0, 1, RSTART - 1)
            split(substr($0, RSTART), field, " ")
            for (i = 1; i <= rows; i++)
                if (model[i] == now && name ~ what[i])
                    got[i] += field[2]
        }
        END {
            for (i = 1; i <= rows; i++) {
                if (!(i in got))
                    continue
                if (!head++)
                    print "| model | operations | predicted ms | measured ms" \
                        " | times | |\n|---|---|--:|--:|--:|---|"
                name = what[i]
                gsub(/\^/, "", name); gsub(/ \. /, " + ", name)
                times = got[i] / want[i]
                printf "| %s | %s | %s | %.3f | %.2f | %s |\n", model[i],
                    name, want[i], got[i], times, (times > 1.3 ? "slow" : "")
                if (times > 1.3 && name ~ /^attention/)
                    attention = 1
                if (times > 1.3 && name ~ /^linear/)
                    products = 1
            }
            if (attention)
                print "\nslow attention: it is not that of cuDNN (see the " \
                    "banner of a run, and tests/gpu/test_cudnn), or cuDNN " \
                    "does not see that it is causal"
            if (products)
                print "\nslow products: are the clocks below 1.7 GHz (see " \
                    "clocks)? All products alike: the choice of algorithms, " \
                    "whose times are the lines autotune: of the log"
        }' - "$1"
}

# step_rate LOG: tokens/s of disttrain in the last table of the log
step_rate() {
    awk -F '|' '/^\| *disttrain/ { rate = $8 + 0 } END { print rate }' "$1"
}

# compare_step MODEL LOG: that rate beside the prediction.
compare_step() {
    predictions | awk -F ';' -v model="$1" -v rate="$(step_rate "$2")" '
        $1 == model && $2 == "tokens/s" { low = $3; high = $4 }
        END {
            if (!low || !rate)
                exit
            printf "\n%d tokens/s; predicted %d to %d", rate, low, high
            if (rate < low)
                printf "; slower: look at the clocks first, then at the " \
                    "part ops, then at DISTTRAIN_CUDA_GRAPHS=0, which must " \
                    "be slower still, or graphs are not used"
            print "."
        }'
}

# clocks_begin FILE: samples the GPU twice a second until clocks_end.
clocks_begin() {
    local reasons=clocks_event_reasons.active gpu=${CUDA_VISIBLE_DEVICES:-0}
    clocks_pid=
    command -v nvidia-smi >/dev/null || return 0
    nvidia-smi --query-gpu="$reasons" --format=csv,noheader >/dev/null 2>&1 ||
        reasons=clocks_throttle_reasons.active # of older drivers
    nvidia-smi -i "${gpu%%,*}" -lms 500 --format=csv,noheader,nounits \
        --query-gpu="clocks.sm,power.draw,$reasons" >"$1" 2>&1 &
    clocks_pid=$!
}

clocks_end() {
    [[ -z $clocks_pid ]] || kill "$clocks_pid" 2>/dev/null
    wait 2>/dev/null
}

# clocks FILE: the median of what was sampled while the GPU was not idle, which
# is bit 0 of the reasons. Bit 2 is the power cap, bits 3 and 5 to 7 are heat and
# the board.
clocks() {
    [[ -s $1 ]] || return 0
    awk -F ', *' '
        function digit(i) {
            return index("0123456789abcdef",
                         tolower(substr($3, length($3) - i, 1))) - 1
        }
        NF == 3 && $1 + 0 > 0 && digit(0) % 2 == 0 {
            hot = digit(0) >= 8 || digit(1) >= 2
            print $1 + 0, $2 + 0, int(digit(0) / 4) % 2, hot
        }' "$1" | sort -n | awk '
        { mhz[NR] = $1; watts += $2; capped += $3; hot += $4 }
        END {
            if (!NR)
                exit
            printf "\nclocks: %d MHz median under load, %.0f W on average; " \
                "%.0f %% of the time at the power cap, %.0f %% slowed by heat " \
                "or the board\n", mhz[int((NR + 1) / 2)], watts / NR,
                100 * capped / NR, 100 * hot / NR
            if (mhz[int((NR + 1) / 2)] < 1700)
                print "-> below 1.7 GHz: compare with the ceiling of this " \
                    "run, not with predictions"
        }'
}

# What a line of a log means: REGULAR EXPRESSION => CAUSE AND NEXT COMMAND
causes() {
    cat <<'ROWS'
CUDA backend .*: no .no (nvcc|cuda_runtime_api|cublasLt) => the toolkit is not where nvcc is: remove the build, and give build --with-cuda=DIR, or LDFLAGS=-LDIR for libcublasLt
libcudart_static.a and libcublasLt.so of .* do not link => libcublasLt is in another folder, as packages of Python have it: remove the build, and give build LDFLAGS=-LDIR
no cudnn.h in => the headers of cuDNN are elsewhere: remove the build, and give build --with-cudnn=DIR
does not compile with => g++ is missing, or too new for nvcc: CXX=g++-N of an older N
no kernel image is available|unsupported PTX => the module has no machine code for this GPU: remove the build, and give build --with-cuda-arch=NN of `nvidia-smi --query-gpu=compute_cap`
driver version is insufficient|cudaErrorInsufficientDriver => the driver is older than the toolkit: take the toolkit whose version nvidia-smi shows, or a newer driver
install NVRTC => cuDNN is there and cannot compile its kernels: libnvrtc.so of the same CUDA as libcudnn must be found, beside it or by LD_LIBRARY_PATH
no engine takes the graph => cuDNN makes no plan. In all shapes of tests/gpu/test_cudnn: libnvrtc is missing or of another CUDA; in some: the version of cuDNN. Until then model.attention: auto
attention is slower than with cuDNN => a shape fell back to our own kernels, for the reason in that line
model.attention: flash (needs|does not support) => cuDNN was asked for and cannot do it: run tests/gpu/test_cudnn, which needs no GPU, and see why
StreamCapture|cudaStreamEndCapture|cannot be recorded as a graph => a call is illegal in a recording. Whole runs: DISTTRAIN_CUDA_GRAPHS=0 goes on without. Which: unit 0 is CUB, blocks cuDNN and cuBLASLt, the head copies; `test_ops cuda math small` leaves cuDNN out
other bits when it is (only recorded|replayed) => the recording is wrong, not the numbers: `test_ops cuda only=NAME` of that case, then the same with math
linear_activation_(forward|backward): .* by the CPU => fp32 only, off by about 1e-4: an approximate tanh in the library's GELU; then the library must not compute it in fp32
attention_(forward|backward): .* (nan|-nan).* by the CPU => NaN of attention: does `test_ops cuda math only=attention` pass? Then it is cuDNN, and model.attention: math helps
"loss": *null|the run diverged => not finite: model.attention: math, then DISTTRAIN_CUDA_GRAPHS=0, then precision.compute: fp32, until it is
out of memory|what would fit: => memory: a smaller per_device_batch_size, or model.gradient_checkpointing; compare nvidia-smi with the plan in the banner
illegal memory access|misaligned address|unspecified launch failure|cudaErrorLaunchFailure => a kernel's fault comes out anywhere: the same with CUDA_LAUNCH_BLOCKING=1, and the part sanitize
a kernel of .* could not be started => more shared memory, registers or threads than this GPU has: the message names the kernel
ROWS
}

# explain LOG: what its lines mean, once each.
explain() {
    local row
    while read -r row; do
        ! grep -qE -- "${row%% => *}" "$1" || printf -- '-> %s\n' "${row#* => }"
    done < <(causes)
    if grep -q '^not ok .* GELU and sums: library' "$1" &&
        grep -q '^ok .* GELU and sums: apart' "$1"; then
        echo "-> an epilogue of cuBLASLt is wrong here, or not accurate enough:" \
            "DISTTRAIN_AUTOTUNE=apart goes on without"
    fi
    if grep -q '^ok .* operations, deterministic' "$1" &&
        grep -q '^not ok .* operations, fast' "$1"; then
        echo "-> only fast operations fail: sums by a library's epilogue, or" \
            "dQ of cuDNN; then run.deterministic: true is right meanwhile"
    fi
}
