#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# families.sh - nothing but its own file asks which family a model is of

# shellcheck source=tests/lint/tap.sh
. "$(dirname "$0")/tap.sh"
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT

# asked ROOT: places that compare a family, switch on it or name one, by its
# object or by its word. Families of addresses are no families of models.
asked() {
    grep -rnE --include='*.[ch]' --exclude-dir=text --exclude-dir=vision \
        -e '(^|[^a-z_])family *[!=]= ' -e '[!=]= *([a-z_]+(->|\.))*family\>' \
        -e 'switch \(.*family\)' -e '\<dt_family_[a-z0-9]+' \
        -e 'cmp\(.*(dt_model_type\(|family->type)' "$1" | grep -v AF_
}

cat >"$data/asks.c" <<'END'
    if (config->family == dt_model_family_find("llama"))
    if (first != config->family)
    switch (config->family) {
    const void *llama = &dt_family_llama;
    return !strcmp(dt_model_type(config), "llama");
    return strcmp("llama", config->family->type);
    if (config->family->shifted && family == AF_INET)
    config->family = dt_model_family_find("gpt2");
END
expect_none "traits are asked for by name, not families" "$(asked runtime)"
expect_none "each way to ask which family it is is found" \
    "$(asked "$data" | grep -c . | grep -vx 6)"
done_testing
