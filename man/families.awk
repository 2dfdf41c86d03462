# SPDX-License-Identifier: Apache-2.0
# families.awk - from the sources of families, their list in disttrain.yaml(5)
FNR == 1 {
    text = ""
    name = FILENAME
    sub(/.*\//, "", name)
}
FNR == 2, /\*\// {
    sub(/ *\*\/$/, "")
    sub(/^ *\/?\* ?/, "")
    text = text " " $0
    end = 1
}
/^#include/ && end {
    end = 0
    sub(/^.*\.c - /, "", text)
    sub(/ *$/, ".", text)
    gsub(/-/, "\\-", text)
    sub(/\.c$/, "", name)
    print ".TP\n.B " name
    count = split(text, word, " ")
    line = word[1]
    for (i = 2; i <= count; i++)
        if (length(line) + length(word[i]) > 78) {
            print line
            line = word[i]
        } else {
            line = line " " word[i]
        }
    print line
}
