# SPDX-License-Identifier: Apache-2.0
# fold.awk - text as lines of a manual page

function escape(text)
{
    gsub(/-/, "\\-", text)
    return text
}

# Prints text in lines of at most 79 bytes, none of which is a request.
function fold(text,    words, count, i, line)
{
    count = split(escape(text), words, " ")
    line = words[1]
    for (i = 2; i <= count; i++) {
        if (length(line) + length(words[i]) < 79) {
            line = line " " words[i]
        } else {
            print line
            line = (words[i] ~ /^[.']/ ? "\\&" : "") words[i]
        }
    }
    print line
}
