#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# module.sh - what disttrain-cuda.so shows, and what it needs to be loaded

# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"
module=${DT_BUILDDIR:-.}/disttrain-cuda.so

symbols() {
    nm -D --defined-only "$module" | awk '$3 != "dt_backend_module"'
}

# Of CUDA only cuBLASLt; the driver, NCCL and cuDNN are looked for at run time.
libraries() {
    readelf -d "$module" | sed -n 's/.*NEEDED.*\[\(.*\)\].*/\1/p' |
        grep -e '^libcu' -e '^libnv' -e '^libnccl' |
        grep -v '^libcublasLt\.so\.'
}

missing() {
    nm -D --undefined-only "$module" | grep ' dt_'
}

expect_none "the module shows dt_backend_module and nothing else" "$(symbols)"
expect_none "the module needs one library of CUDA" "$(libraries)"
expect_none "the module has everything of ours that it uses" "$(missing)"
done_testing
