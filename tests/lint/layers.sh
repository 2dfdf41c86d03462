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

# Folders of runtime/ and what each includes besides itself: not more than is
# true, so that a new edge is seen, and an old one goes when nothing needs it.
layers() {
    sources | xargs awk '
        function layer(from, below,    i, n, name) {
            known[from] = 1
            n = split(below, name, " ")
            for (i = 1; i <= n; i++)
                unused[from " " name[i]] = allowed[from " " name[i]] = 1
        }
        BEGIN {
            layer("base", "")
            layer("conf", "base")
            layer("device", "base")
            layer("launch", "base")
            layer("tensor", "base device")
            layer("comm", "base tensor")
            layer("ops", "base tensor")
            layer("backend", "base comm device ops")
            layer("ckpt", "base tensor")
            layer("data", "base tensor")
            layer("model", "base ops tensor")
            layer("optim", "base ops tensor")
            layer("parallel", "base comm tensor")
            layer("report", "base launch")
            layer("doctor", "base launch")
            layer("algo", "base ckpt comm conf data launch model ops optim " \
                "parallel report tensor")
            layer("cmd", "algo backend base comm conf data doctor launch " \
                "model ops report tensor")
            layer("spank", "base")
            # one module, which shares its streams
            cuda = "^runtime/(device/device_cuda|comm/(comm_)?nccl)"
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
            delete unused[from " " to]
            if (from == to ||
                (FILENAME ~ cuda && header ~ /^ops\/cuda\/cuda\./) ||
                (from == "spank" &&
                 header ~ /^launch\/(contract|variables)\.h$/))
                next
            if (!(from in known))
                print FILENAME ": the folder " from " has no layer"
            else if (!((from " " to) in allowed))
                print FILENAME ":" FNR ": " from " must not include " header
        }
        END {
            for (edge in unused) {
                split(edge, part, " ")
                print "tests/lint/layers.sh: " part[1] " no longer includes " \
                    "anything of " part[2] ": take it out of the table"
            }
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

expect_none "every folder includes its own files and those in the table" \
    "$(layers)"
expect_none "headers of libraries stay in one file each" "$(vendors)"
expect_none "config.h comes first, and no header of ours has its name" \
    "$(config_first)"
done_testing
