# SPDX-License-Identifier: Apache-2.0
#
# keys.awk - the key list of disttrain.yaml(5) from `disttrain check --keys`

function sentence(text)
{
    return toupper(substr(text, 1, 1)) substr(text, 2) "."
}

BEGIN {
    FS = "\t"
}

$2 == "later" {
    if (!($5 in waiting)) {
        reasons[++count] = $5
        waiting[$5] = $1
    } else {
        waiting[$5] = waiting[$5] ", " $1
    }
    next
}

{
    dot = index($1, ".")
    section = dot ? substr($1, 1, dot - 1) : "Top level"
    if (section != last)
        print ".SS " section
    last = section
    print ".TP\n.B " escape($1)
    fold(sentence($5))
    fold(sentence($2 ($3 == "-" ? "" : "; default " $3)))
    if ($4 != "-") {
        gsub(/ /, ", ", $4)
        fold("Also: " $4 ".")
    }
}

END {
    print ".SH KEYS OF LATER VERSIONS"
    print "These keys are known but not supported yet."
    print "A file that uses one is refused, and the message says what it needs:"
    for (i = 1; i <= count; i++) {
        print ".TP\n.I " escape(reasons[i])
        fold(waiting[reasons[i]] ".")
    }
}
