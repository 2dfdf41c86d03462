# SPDX-License-Identifier: Apache-2.0
# families.awk - from names of files, one a line, what family.c includes
{
    sub(/\.c$/, "")
    print "#include \"model/families/" $0 ".c\""
    list = list "    &dt_family_" $0 ",\n"
}
END {
    print "const struct dt_family *const dt_families[] = {\n" list "    NULL,\n};"
}
