/* SPDX-License-Identifier: Apache-2.0 */
/* end.h - takes back the names of members.h */
#undef BOOL
#undef INT
#undef U64
#undef REAL
#undef SIZE
#undef COUNT
#undef TEXT
#undef DIR
#undef OLD_DIR
#undef FREE
#undef FILES
#undef LIST
#undef ENUM
#undef BOOL_OR_WORD
#undef INT_OR_WORD
#undef OLD_OR_WORD
#undef FILE_OR_WORD
#undef ROW
#undef MEMBER
#undef GROUP
#undef END
