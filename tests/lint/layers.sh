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

# Folders of runtime/ and what each includes besides itself, from the bottom up:
# not more than is true, so that a new edge is seen, and an old one goes when
# nothing needs it.
layers() {
    contrib/include-graph | awk '
        function layer(from, below,    i, n, name) {
            n = split(below, name, " ")
            for (i = 1; i <= n; i++) {
                unused[from " " name[i]] = allowed[from " " name[i]] = 1
                if (!(name[i] in known))
                    print "tests/lint/layers.sh: " name[i] " is not below " from
            }
            known[from] = 1
        }
        BEGIN {
            layer("base", "")
            layer("contract", "base")
            layer("conf/keys", "base")
            layer("conf", "base conf/keys")
            layer("device", "base")
            layer("launch", "base")
            layer("segment", "base device")
            layer("keeper", "base contract launch segment")
            layer("tensor", "base device")
            layer("comm", "base device tensor")
            layer("ops", "base device tensor")
            layer("backend", "base comm device ops")
            layer("ckpt", "base tensor")
            layer("template", "base")
            layer("tokenizer/unicode", "base")
            layer("tokenizer", "base tokenizer/unicode")
            layer("image", "base")
            layer("data/forms", "base")
            layer("tokenizer/chat", "base template tokenizer")
            layer("data", "base data/forms image tokenizer tokenizer/chat")
            layer("batch", "base data image tensor")
            layer("model/family", "base ops tensor")
            layer("model", "base model/family ops tensor")
            layer("optim", "base ops tensor")
            layer("parallel", "base comm ops segment tensor")
            layer("forecast", "base comm model optim parallel tensor")
            layer("report", "base")
            layer("trace", "base comm device report")
            layer("history", "base report")
            layer("page", "base history report")
            layer("live", "base contract history report")
            layer("top", "base live")
            layer("console", "base contract live")
            layer("doctor", "base launch")
            layer("weights", "base ckpt model ops parallel tensor")
            layer("compose", "base ckpt model tokenizer tokenizer/chat weights")
            layer("rollout", "base image model tokenizer weights")
            layer("reward", "base batch conf data image model ops rollout " \
                "tokenizer/chat")
            layer("slurm", "base conf contract")
            layer("loss", "base conf")
            layer("run", "base batch ckpt comm compose conf data image launch live " \
                "loss model ops optim parallel report reward rollout tensor " \
                "tokenizer tokenizer/chat trace weights")
            layer("run/dir", "base contract history run")
            layer("run/reference", "base ckpt run tensor weights")
            layer("sampling", "base ckpt rollout run run/dir run/reference " \
                "segment tokenizer/chat")
            layer("algo", "base loss model run run/dir run/reference sampling")
            layer("plan", "algo base ckpt forecast model ops reward rollout run " \
                "sampling weights")
            layer("train/watch", "base device parallel run")
            layer("train/resume", "algo base device parallel run run/dir " \
                "run/reference sampling segment weights")
            layer("train", "algo base plan run run/dir " \
                "run/reference sampling segment train/resume train/watch")
            layer("cmd", "algo backend base batch ckpt comm conf console " \
                "contract data data/forms doctor forecast history image " \
                "keeper launch model ops page plan report reward rollout " \
                "run slurm tensor tokenizer tokenizer/chat top trace train " \
                "train/resume weights")
            layer("spank", "base")
            layer("spank/srun", "base contract spank")
            layer("spank/task", "base contract spank")
        }
        $1 == "spank/plugin" { next } # calls all others
        { delete unused[$1 " " $2] }
        !($1 in known) { print "the folder " $1 " has no layer" }
        $1 in known && !(($1 " " $2) in allowed) {
            print $1 " must not include " $2 ":"
            fflush()
            where = ($1 ~ /^spank/ ? "" : "runtime/") $1
            system("grep -rn \"#include ." $2 "/\" " where)
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
            home["curl"] = "^runtime/reward/http\\.c$"
            home["pmix"] = "^runtime/launch/launch_pmix\\.c$"
            home["yaml"] = "^runtime/conf/tree_yaml\\.c$"
            home["gloo"] = "^runtime/comm/transport_gloo\\.cc$"
            home["oneapi"] = "^runtime/ops/cpu/onednn\\.c$"
            home["slurm"] = "^spank/"
            home["zlib"] = home["zstd"] = "^runtime/base/codec\\.c$"
            home["liburing"] = "^runtime/parallel/swap_ring\\.c$"
            home["jpeglib"] = "^runtime/image/decode_jpeg\\.c$"
            home["png"] = "^runtime/image/decode_png\\.c$"
            home["webp"] = "^runtime/image/decode_webp\\.c$"
            home["cuda"] = "^runtime/(ops/cuda/|backend/cuda\\.c$|" \
                "device/device_cuda|tensor/kernel|comm/(comm_)?nccl)"
            home["cub"] = "^runtime/ops/cuda/.*\\.cu$"
            home["cublasLt"] = "^runtime/ops/cuda/(cuda_)?matmul"
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

# Modules that include each other, as tsort finds them.
circles() {
    { contrib/include-graph --modules | tsort >/dev/null; } 2>&1
}

# Folders that docs/design.md has no row for, and rows without a folder.
folders_without_row() {
    { sed -n 's/^| `\([a-z/]*\)\/` .*/\1/p' docs/design.md
        contrib/include-graph --rooms; } | sort | uniq -u
}

other_picture() {
    contrib/include-graph --svg | cmp - docs/layers.svg
}

expect_none "every folder includes its own files and those in the table" \
    "$(layers)"
expect_none "headers of libraries stay in one file each" "$(vendors)"
expect_none "config.h comes first, and no header of ours has its name" \
    "$(config_first)"
expect_none "no module includes one that includes it" "$(circles)"
expect_none "docs/design.md has every folder, and no other" \
    "$(folders_without_row)"
expect_none "docs/layers.svg is what contrib/include-graph --svg draws" \
    "$(other_picture 2>&1)"
done_testing
