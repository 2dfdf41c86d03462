#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# layers.sh - every file includes only what its folder may know

# shellcheck disable=SC2016,SC2038 # awk programs; names without blanks
# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"

sources() {
    find runtime spank -path runtime/comm/compat -prune -o \
        \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' \
        -o -name '*.cuh' \) -print
}

# Folders of runtime/ and what each may include besides itself.
layers() {
    sources | xargs awk '
        function layer(names, below,    i, n, name) {
            n = split(names, name, " ")
            for (i = 1; i <= n; i++)
                allowed[name[i]] = " " name[i] " " below " "
        }
        BEGIN {
            layer("base", "")
            layer("device conf launch", "base")
            layer("tensor", "base device")
            layer("ops comm", "base device tensor")
            layer("backend", "base device tensor ops comm")
            layer("doctor", "base conf launch")
            low = "base device tensor ops comm conf launch"
            middle = "model data optim parallel ckpt report"
            layer(middle, low)
            layer("algo", low " " middle " backend")
            layer("cmd", low " " middle " algo backend doctor")
            # one module, which shares its streams
            cuda = "^runtime/(device/device_cuda|comm/(comm_)?nccl)"
            allowed["spank"] = " spank base "
        }
        !/^[ \t]*#[ \t]*include[ \t]*"[^"\/]*\// { next }
        {
            split(FILENAME, part, "/")
            from = part[1] == "spank" ? "spank" : part[2]
            header = $0
            sub(/^[^"]*"/, "", header)
            sub(/".*/, "", header)
            to = header
            sub(/\/.*/, "", to)
            if (FILENAME ~ cuda && header ~ /^ops\/cuda\/cuda\./)
                next
            if (from == "spank" && header ~ /^launch\/(contract|variables)\.h$/)
                next
            if (!(from in allowed))
                print FILENAME ": the folder " from " has no layer"
            else if (!index(allowed[from], " " to " "))
                print FILENAME ":" FNR ": " from " must not include " header
        }'
}

# Headers of libraries that stay behind one file each.
vendors() {
    sources | xargs awk '
        BEGIN {
            home["pmix"] = "^runtime/launch/launch_pmix\\.c$"
            home["yaml"] = "^runtime/conf/yaml\\.c$"
            home["gloo"] = "^runtime/comm/comm_gloo\\.cc$"
            home["oneapi"] = "^runtime/ops/cpu/onednn\\.c$"
            home["slurm"] = "^spank/"
            home["cuda"] = "^runtime/(ops/cuda/|backend/cuda\\.c$|" \
                "device/device_cuda|comm/(comm_)?nccl)"
            home["cub"] = "^runtime/ops/cuda/.*\\.cu$"
            home["cublasLt"] = "^runtime/ops/cuda/matmul"
            home["cudnn"] = "^runtime/ops/cuda/dnn"
            home["nccl"] = "^runtime/comm/(comm_)?nccl"
        }
        /^[ \t]*#[ \t]*include[ \t]*</ {
            name = $0
            sub(/^[^<]*</, "", name)
            sub(/[\/._>].*/, "", name)
            if (name in home && FILENAME !~ home[name])
                print FILENAME ":" FNR ": " name " is no business of this file"
        }'
}

config_first() {
    find runtime spank tests -name config.h
    find runtime spank tests \( -name '*.c' -o -name '*.cc' -o -name '*.cu' \
        \) -print | xargs awk '
        FNR == 1 { seen = 0 }
        !seen && /^[ \t]*#[ \t]*include/ {
            seen = 1
            if ($2 != "\"config.h\"")
                print FILENAME ":" FNR ": the first include is not config.h"
        }'
}

expect_none "every folder includes only its own layer and lower ones" \
    "$(layers)"
expect_none "headers of libraries stay in one file each" "$(vendors)"
expect_none "config.h comes first, and no header of ours has its name" \
    "$(config_first)"
done_testing
