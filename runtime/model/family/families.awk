# SPDX-License-Identifier: Apache-2.0
# families.awk - from names of files, one a line, what family.c includes
#
# They are in `folder`. Each has an object of struct `type`, whose name is that of
# the file after `kind`; `list` is the list of them.
{
    sub(/\.c$/, "")
    print "#include \"model/family/" folder "/" $0 ".c\""
    members = members "    &" kind "_" $0 ",\n"
}
END {
    print "const struct " type " *const " list "[] = {\n" members "    NULL,\n};"
}
