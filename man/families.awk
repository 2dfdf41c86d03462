# SPDX-License-Identifier: Apache-2.0
# families.awk - the families of disttrain.yaml(5) from the top of their files
FNR == 1 { text = "" }
FNR > 1 && FNR < 12 { text = text " " $0 }
FNR == 12 {
    sub(/ *\*\/.*/, ".", text)
    gsub(/ \* /, " ", text)
    name = text
    sub(/\.c - .*/, "", name)
    sub(/.* /, "", name)
    sub(/^.*\.c - /, "", text)
    print ".TP\n.B " name
    fold(text)
}
