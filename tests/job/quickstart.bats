#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# quickstart.bats - contrib/quickstart does what it promises

load helpers

setup_file() {
    DT_SKIP=$(dt_cluster_lacks)
    export DT_SKIP tree=$BATS_FILE_TMPDIR/tree
    mkdir "$tree"
    cp -r "$DT_SRCDIR/contrib" "$DT_SRCDIR/configs" "$tree"
    chmod -R u+w "$tree" # the source may be read-only, as in distcheck
    # the other 500 steps would take most of the time
    sed -i 's/steps: 700/steps: 200/' "$tree/configs/quickstart.yaml"
}

files() {
    (cd "$tree" && find . -path ./outputs -prune -o -print)
}

# traces NAME: files of a cluster; others remove theirs while we look.
traces() {
    find /run /tmp -maxdepth 2 -name "*$1*" 2>/dev/null || true
}

# expect_nothing_left OUTPUT: of the cluster that the quickstart named in it, and
# in the tree except for its result.
expect_nothing_left() {
    local name
    name=$(sed -n 's/^devcluster: cluster \(qs[0-9]*\):.*/\1/p' <<<"$1")
    [[ -n $name ]]
    run pgrep -af "devcluster/$name/"
    [[ -z $output ]]
    run traces "$name"
    echo "$output"
    [[ -z $output ]]
    files | diff "$BATS_TEST_TMPDIR/before" -
}

# Prints the last held-out loss times 1000.
held_out() {
    sed -n 's/^held-out loss \([0-9]*\)\.\([0-9]\{3\}\).*/\1\2/p' <<<"$1"
}

@test "it trains, generates text, and leaves nothing but the model" {
    files >"$BATS_TEST_TMPDIR/before"
    run -0 "$tree/contrib/quickstart"
    echo "$output"
    # Guessed by frequency, the letters of the held-out text have 3.07 nats
    # each.
    (($(held_out "$output") < 2500))
    [[ $output == *"The licensee may "[[:print:]]* ]]
    [[ -e $tree/outputs/quickstart/checkpoints/latest/model.safetensors ]]
    expect_nothing_left "$output"
}

@test "it works a second time" {
    sed -i 's/max_steps: .*/max_steps: 20/' "$tree/configs/quickstart.yaml"
    run -0 "$tree/contrib/quickstart"
    [[ $output == *"done: 20 steps"* ]]
}

@test "a failure sets its exit status, and the cluster is taken down" {
    sed -i 's/max_steps:/maxsteps:/' "$tree/configs/quickstart.yaml"
    files >"$BATS_TEST_TMPDIR/before"
    run ! "$tree/contrib/quickstart"
    [[ $output == *"maxsteps"* ]]
    expect_nothing_left "$output"
}

@test "a machine that can have no cluster is told so before the build" {
    mkdir "$BATS_TEST_TMPDIR/bin"
    printf '#!/bin/sh\necho "unshare: not permitted" >&2\nexit 1\n' \
        >"$BATS_TEST_TMPDIR/bin/unshare"
    chmod +x "$BATS_TEST_TMPDIR/bin/unshare"
    run -71 env -u DT_BUILDDIR PATH="$BATS_TEST_TMPDIR/bin:$PATH" \
        "$tree/contrib/quickstart"
    echo "$output"
    [[ $output == *"unshare: not permitted"* ]]
    [[ $output != *"== configuring"* ]]
}

@test "each stage is told as it begins" {
    local bin=$BATS_TEST_TMPDIR/bin copy=$BATS_TEST_TMPDIR/tree
    mkdir "$bin"
    cp -r "$tree" "$copy"
    printf '#!/bin/sh\n' | tee "$copy/autogen.sh" >"$copy/configure"
    printf '#!/bin/sh\nexit 3\n' >"$bin/make"
    chmod +x "$copy/autogen.sh" "$copy/configure" "$bin/make"
    run -1 env -u DT_BUILDDIR PATH="$bin:$PATH" "$copy/contrib/quickstart"
    echo "$output"
    [[ $output == *"== starting a Slurm of one node, "*\
"== configuring a build in /tmp"*"== compiling"*"quickstart: the build failed" ]]
    echo 'exit 3' >>"$copy/configure"
    run -1 env -u DT_BUILDDIR PATH="$bin:$PATH" "$copy/contrib/quickstart"
    echo "$output"
    [[ $output == *"== configuring"* && $output != *"== compiling"* ]]
    printf '#!/bin/sh\n' >"$bin/dpkg-query"
    printf '#!/bin/sh\nexit 3\n' >"$bin/apt-get"
    chmod +x "$bin/dpkg-query" "$bin/apt-get"
    run -1 env PATH="$bin:$PATH" "$copy/contrib/quickstart"
    echo "$output"
    [[ ${lines[0]} == "quickstart: installing "*"autoconf "* ]]
    [[ ${lines[1]} == "quickstart: apt-get could not install: "* ]]
}

@test "a user who is not root is told so in one line" {
    local nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    chmod 755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR"
    "${nobody[@]}" test -r "$tree/contrib/quickstart" ||
        skip "nobody may not read $tree"
    run -77 "${nobody[@]}" "$tree/contrib/quickstart"
    [[ $output == "quickstart: packages and a cluster need root: use sudo contrib/quickstart" ]]
}
