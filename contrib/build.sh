# shellcheck shell=bash disable=SC2034 # used by those who include this
# SPDX-License-Identifier: Apache-2.0
# build.sh - what quickstart and check share: packages, and a build that does
# not change the source tree
#
# The names are the same in Debian 12, Debian 13 and Ubuntu 24.04 (universe).

packages_build="autoconf automake libtool make gcc g++ pkg-config
libslurm-dev libpmix-dev libyaml-dev libjansson-dev libxxhash-dev libpcre2-dev
libutf8proc-dev libdnnl-dev libgloo-dev liburing-dev
libcurl4-openssl-dev zlib1g-dev libzstd-dev libjpeg-dev libpng-dev libwebp-dev"
packages_cluster="slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge
iproute2 procps"
packages_test="libcmocka-dev bats shellcheck mandoc debhelper lintian rpm
cpio clang lld libclang-rt-dev libomp-dev openmpi-bin python3 xxhash xz-utils"

me=${0##*/}
source_dir=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)

die() {
    echo "$me: $*" >&2
    exit 1
}

usage() {
    sed -n '/^# Usage/,/^$/s/^# \{0,1\}//p' "$source_dir/contrib/$me"
}

need_root() {
    [[ $(id -u) == 0 ]] || {
        echo "$me: $1: use sudo contrib/$me" >&2
        exit 77
    }
}

# install_packages NAME...: installs those that are missing.
install_packages() {
    local missing
    export DEBIAN_FRONTEND=noninteractive
    command -v apt-get >/dev/null ||
        die "this is no Debian or Ubuntu: install what these are here: $*"
    mapfile -t missing < <(comm -23 <(printf '%s\n' "$@" | sort) \
        <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" \
            2>/dev/null | sed -n 's/^installed //p' | sort -u))
    ((${#missing[@]} > 0)) || return 0
    echo "$me: installing ${missing[*]}"
    if ! { apt-get -qq update && apt-get -qq --no-install-recommends \
        install "${missing[@]}" >/dev/null; }; then
        die "apt-get could not install: ${missing[*]}"
    fi
}

# build CONFIGURE-OPTION...: builds a copy of the tree in $work/build; $work is
# a directory that is removed at the end.
build() {
    work=$(mktemp -d "/tmp/disttrain-$me.XXXXXX") || die "cannot write to /tmp"
    trap 'rm -rf "$work"' EXIT
    chmod 755 "$work"
    mkdir "$work/source" "$work/build"
    tar -C "$source_dir" -c --exclude=./.git --exclude='./build*/' \
        --exclude=./outputs . | tar -C "$work/source" -x
    rm -f "$work/source/config.status"
    cd "$work/build" || exit
    {
        "$work/source/autogen.sh" && "$work/source/configure" "$@"
    } >configure.log 2>&1 || {
        cat configure.log >&2
        die "configure failed"
    }
}
