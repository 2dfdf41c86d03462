#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sanitize.sh - our own kernels under the tools of compute-sanitizer
#
# All runs together take at most $LIMIT seconds, 570 by default. What has no
# time to end is "not ok" and says so: go on by hand with only=TEXT, which
# test_ops explains.

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/gpu/common.sh
. "$here/common.sh"
cd "$here/../.." || exit 1
limit=${LIMIT:-570}
begin=$(date +%s)
left=7 # runs
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
ops=$build/tests/ops/test_ops

PATH=$PATH:/usr/local/cuda/bin
command -v compute-sanitizer >/dev/null || {
    echo "not ok 1 - compute-sanitizer is there"
    echo "# it comes with the CUDA toolkit, in a package of its own in some"
    echo "# distributions (cuda-sanitizer); put it into PATH"
    echo 1..1
    exit 1
}

# under TOOL COMMAND [WORD ...]: a line of TAP
under() {
    tool=$1
    shift
    seconds=$(((limit + begin - $(date +%s)) / left))
    left=$((left - 1))
    count=$((count + 1))
    name="$tool: ${1##*/}${2:+ $(shift && echo "$*")}"
    timeout --kill-after 5 "$((seconds > 1 ? seconds : 1))" \
        compute-sanitizer --tool "$tool" --error-exitcode 9 \
        --print-limit 20 "$@" >"$log" 2>&1
    status=$?
    if [ "$status" -eq 0 ]; then
        echo "ok $count - $name"
        return
    fi
    if grep -q "Device not supported" "$log"; then
        echo "ok $count - $name # SKIP it does not support this GPU here"
        return
    fi
    echo "not ok $count - $name"
    case $status in
    9) echo "# the tool found errors" ;;
    124 | 137) echo "# not done after $seconds s" ;;
    *) echo "# exit status $status, which is not the tool's" ;;
    esac
    grep -vE '^(ok|\[ *(RUN|OK) *\])' "$log" | head -n 40 | sed 's/^/# /'
}

under memcheck "$build/tests/gpu/test_device"
for tool in memcheck racecheck synccheck initcheck; do
    under "$tool" "$ops" cuda math small
done
# cuDNN has no dropout: this is our attention on tensor cores
for tool in memcheck racecheck; do
    under "$tool" "$ops" cuda fast small "only=attention with dropout"
done
echo "1..$count"
