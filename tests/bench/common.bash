# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# common.bash - what the benchmarks share

bench=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
devcluster=$bench/../../contrib/devcluster
builddir=$(readlink -f "${DT_BUILDDIR:-$PWD}")

die() {
    echo "${0##*/}: $*" >&2
    exit 64
}

[[ -x $builddir/disttrain ]] ||
    die "no disttrain in $builddir: go where it was built, or set DT_BUILDDIR"

work=$(mktemp -d)
cluster=
cleanup() {
    [[ -z $cluster ]] || "$devcluster" down --name "$cluster"
    rm -rf "$work"
}
trap cleanup EXIT

# parse KNOWN [OPTION]... PEER...: sets rounds, steps, out, peers, model,
# precision, row_tokens, accumulate, per_node, limit, rate, parts, edge and
# algorithm; KNOWN names the options that the script has.
# shellcheck disable=SC2034
parse() {
    local known=$1
    shift
    rounds=3 steps=10 out=$work/results.jsonl
    model=gpt2 precision=fp32 row_tokens=64 limit=570 rate=
    accumulate=1 per_node=1 parts=all edge=512 algorithm=sft
    while [[ ${1-} == --* ]]; do
        (($# > 1)) || die "$1 needs a value"
        [[ " $known " == *" $1 "* ]] || die "there is no option $1"
        case $1 in
        --rounds) rounds=$2 ;;
        --steps) steps=$2 ;;
        --out) out=$2 ;;
        --model) model=$2 ;;
        --precision) precision=$2 ;;
        --tokens) row_tokens=$2 ;;
        --limit) limit=$2 ;;
        --rate) rate=$2 ;;
        --accumulate) accumulate=$2 ;;
        --per-node) per_node=$2 ;;
        --parts) parts=$2 ;;
        --edge) edge=$2 ;;
        --algorithm) algorithm=$2 ;;
        esac
        shift 2
    done
    (($# > 0)) || die "which peers? disttrain, torch=PYTHON ..."
    peers=("$@")
}

# The OpenBLAS of Debian 12 is older than some processors with AVX-512, and takes
# them for one with SSE3.
# PyTorch 2.6 of Debian 13 has no libuv, and does not notice. What PyTorch's
# compiler makes is kept for the next round, and no longer.
tune() {
    export USE_LIBUV=0
    export TORCHINDUCTOR_CACHE_DIR=$work/compiled
    if grep -q avx512vl /proc/cpuinfo; then
        export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-SkylakeX}
    fi
}

# Memory that was freed stays with the program: large tensors come and go in
# each step, and clearing their pages anew takes a fifth of PyTorch's time.
# shellcheck disable=SC2034
malloc=(MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=8589934592)

# torch_peer PEER SCRIPT [ARGUMENT]...: sets command to what runs SCRIPT, which
# calls torch_step.py, as torch=PYTHON, malloc=PYTHON or compile=PYTHON do.
torch_peer() {
    command=("${1#*=}" "${@:2}")
    case $1 in
    torch=*) return ;;
    malloc=*) command+=(--suffix ", malloc tuned") ;;
    compile=*)
        command+=(--compile default --suffix ", compiled, malloc tuned")
        ;;
    *) die "there is no peer $1" ;;
    esac
    command=(env "${malloc[@]}" "${command[@]}")
}

# gemm_peer CONFIG.JSON: runs gemm as one of the peers, with as many rounds as
# they have steps of that model.
gemm_peer() {
    [[ -x $builddir/tests/bench/gemm ]] || die "first make tests/bench/gemm"
    "$builddir/tests/bench/gemm" -p "$precision" -c "$1" 4 "$row_tokens" \
        "$steps"
}

# cluster_up [OPTION]...: a devcluster until the end of the benchmark.
cluster_up() {
    "$devcluster" up --name "bench-$$" --builddir "$builddir" "$@" >&2
    cluster=bench-$$
}

# cluster_run COMMAND...: on it.
cluster_run() {
    "$devcluster" run --name "$cluster" -- "$@"
}

# tokens FILE VOCABULARY: 131072 random tokens, a shard as llm.c has them.
tokens() {
    python3 - "$@" <<'END'
import array, random, sys
random.seed(1)
count, vocab = 1 << 17, int(sys.argv[2])
with open(sys.argv[1], "wb") as f:
    array.array("i", [20240520, 1, count] + [0] * 253).tofile(f)
    array.array("H", (random.randrange(vocab) for _ in range(count))).tofile(f)
END
}

# small_config FILE TOKENS: three steps of a model with next to no work. Tasks
# that run another program under --disttrain=FILE only take their variables.
small_config() {
    cat >"$1" <<END
algorithm: sft
run: {output_dir: "$work/out", overwrite: true}
model: {vocab_size: 256, n_positions: 64, n_embd: 64, n_layer: 2, n_head: 2}
data: {train: "$2", format: tokens_bin, max_length: 64}
training: {per_device_batch_size: 4, max_steps: 3}
checkpoint: {strategy: "no"}
END
}

# table WHAT UNIT: of lines "NAME VALUE", a row a name, by median.
table() {
    sort -k1,1 -k2,2g | awk -v what="$1" -v unit="$2" '
        !($1 in values) { names[++rows] = $1 }
        { values[$1] = values[$1] " " $2 }
        END {
            printf "| %s | runs | median %s | best %s | worst %s |\n", what,
                unit, unit, unit
            print "|---|---|---|---|---|"
            for (row = 1; row <= rows; row++) {
                count = split(values[names[row]], v, " ")
                printf "| %s | %d | %.2f | %.2f | %.2f |\n", names[row], count,
                    v[int((count + 1) / 2)], v[1], v[count]
            }
        }'
}
