# SPDX-License-Identifier: Apache-2.0
# embed.awk - templates as C strings: NAME.jinja becomes text_NAME
BEGIN { print "/* made by embed.awk */" }
FNR == 1 {
    name = FILENAME
    sub(/.*\//, "", name)
    sub(/\.jinja$/, "", name)
    gsub(/[^a-z0-9]/, "_", name)
    if (NR > 1)
        print "    ;"
    print "static const char text_" name "[] ="
}
{
    gsub(/[\\"]/, "\\\\&")
    print "    \"" $0 "\\n\""
}
END { print "    ;" }
