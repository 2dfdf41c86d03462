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
}

traces() {
    pgrep -af "devcluster/qs" || true
    ip -oneline link | cut -d: -f2
    find /run /tmp -maxdepth 2 -name "*qs[0-9]*" -o -name "disttrain-quick*"
    (cd "$tree" && find . -path ./outputs -prune -o -print)
}

# Prints the last held-out loss times 1000.
held_out() {
    sed -n 's/^held-out loss \([0-9]*\)\.\([0-9]\{3\}\).*/\1\2/p' <<<"$1"
}

@test "it trains, generates text, and leaves nothing but the model" {
    traces >"$BATS_TEST_TMPDIR/before"
    run -0 "$tree/contrib/quickstart"
    traces >"$BATS_TEST_TMPDIR/after"
    diff "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after"
    echo "$output"
    # Guessed by frequency, the letters of the held-out text have 3.07 nats
    # each.
    (($(held_out "$output") < 2500))
    [[ $output == *"The licensee may "[[:print:]]* ]]
    [[ -e $tree/outputs/quickstart/checkpoints/latest/model.safetensors ]]
}

@test "it works a second time" {
    sed -i 's/max_steps: .*/max_steps: 20/' "$tree/configs/quickstart.yaml"
    run -0 "$tree/contrib/quickstart"
    [[ $output == *"done: 20 steps"* ]]
}

@test "a failure sets its exit status, and the cluster is taken down" {
    sed -i 's/max_steps:/maxsteps:/' "$tree/configs/quickstart.yaml"
    traces >"$BATS_TEST_TMPDIR/before"
    run ! "$tree/contrib/quickstart"
    [[ $output == *"maxsteps"* ]]
    traces >"$BATS_TEST_TMPDIR/after"
    diff "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after"
}

@test "a user who is not root is told so in one line" {
    local nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    chmod 755 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR"
    "${nobody[@]}" test -r "$tree/contrib/quickstart" ||
        skip "nobody may not read $tree"
    run -77 "${nobody[@]}" "$tree/contrib/quickstart"
    [[ $output == "quickstart: packages and a cluster need root: use sudo contrib/quickstart" ]]
}
