/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_known.c - recognizes published chat templates by hashes of their text
 *
 * A template is a program: one that only looks like another may render
 * different text. So a template is recognized only if its text is that of a
 * published one, as Jinja reads it: every line end is a newline, and a newline
 * at the end is dropped, also one after a block there. All others are refused;
 * the error names the most similar published template and the first piece that
 * differs.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "tokenizer/chat.h"
#include "tokenizer/chat_style.h"

enum {
    HEX = 4,     /* hex digits in the hash of a piece */
    SHOWN = 200, /* bytes of a piece that a message shows */
};

/* The XXH3 of the text, and the low 16 bits of the XXH3 of each of its pieces.
 * A piece ends with a newline, or with }} or %} and the newline that may
 * follow. tests/parity/make_chat_known.py writes these rows.
 */
static const struct known {
    uint64_t hash;
    enum dt_chat_style_id style;
    const char *label;
    const char *pieces;
} known[] = {
    {UINT64_C(0x4c6e807ee5fe9f4a), DT_STYLE_CHATML, "ChatML",
     "f9826c1336e2a9c9f90561c6"},
    {UINT64_C(0xa04f41d813a07b13), DT_STYLE_CHATML, "ChatML",
     "f98227f907369e0d36e2a9c9000cb6ec61c6"},
    {UINT64_C(0xda206a9e46a4ac01), DT_STYLE_CHATML, "ChatML",
     "2672d00961c6f98227f907369e0d36e2a9c9000cb6ec61c6"},
    {UINT64_C(0x846f9032c2079ea2), DT_STYLE_CHATML, "ChatML",
     "2672d00961c6f9826c1336e2a9c9f90561c6"},
    {UINT64_C(0xc79034a9d5f0ae58), DT_STYLE_QWEN2, "Qwen 2",
     "f982d9c5c6ea61c66c1336e2a9c9f90561c6"},
    {UINT64_C(0xd5d943bd0bd9082f), DT_STYLE_QWEN2, "Qwen 2",
     "f982d9c5ccd51d9eb6ec61c627f907369e0d36e2a9c9000cb6ec61c6"},
    {UINT64_C(0x2469c9508f79506e), DT_STYLE_QWEN25, "Qwen 2.5",
     "b64b1860d7e3301dffa207232de601f57e2bd3d1f75e2b4713929083d7e32c4bffa2"
     "2da52de688a8349a1d8ff77a058b833e4394e9de5d2f8016ddd5ed47e784a7a6ba1a"
     "bfd4a34ab208a853102d57b3e72a7dd75d2fa82ba8a6387572b18a785d2f2de61ea4"
     "67702abc5af9"},
    {UINT64_C(0xc9e0155c80737cf2), DT_STYLE_QWEN3, "Qwen 3",
     "b64b18605cccc81d2de6c8cf7e2bd3d1f75e2b47139290835ccc51f92de688a89ae7"
     "b6303d45041ea037105a2de61ea4349a109ff937ffa2fc692de69fd40e4e058bbc4b"
     "1b2977d0aaad6ffa60b75dc1e7845d2fc78a35318eb79b545868e784aaadc45f5d2f"
     "a25995af90213f11d00e419bd559d00ed2a30fef79cb70cd049d30ae31b8d00e9218"
     "51bd5d2f102d57b34acf7dd75d2fa82b6540387572b18a785d2f2de61ea467702abc"
     "ccc969382de65af9"},
    {UINT64_C(0x8fb5d937b1e8f5d0), DT_STYLE_QWEN3_2507, "Qwen 3 2507",
     "b64b18605cccc81d2de6c8cf7e2bd3d1f75e2b47139290835ccc51f92de688a8349a"
     "109ff937ffa2fc692de69fd40e4e058b05a8a25995af90213f11d00e419bd559d00e"
     "d2a30fef79cb70cd049d30ae31b8d00e921851bd5d2f102d57b34acf7dd75d2fa82b"
     "6540387572b18a785d2f2de61ea467702abc5af9"},
    {UINT64_C(0x24f6d97f87d647f5), DT_STYLE_LLAMA2, "Llama 2",
     "4889907dcbf0323094b9f9fe61c6be1deb0b36b261c62b72f1433230fcb261c669d5"
     "2e87c86ba79e61c636e2"},
    {UINT64_C(0x8e30cf11bd23649b), DT_STYLE_LLAMA2, "Llama 2",
     "4889907dcbf0323094b9f9fe61c6be1deb0b36b261c62b72f1433230fcb261c669d5"
     "6efbc86b33db61c636e2"},
    {UINT64_C(0x9799ad6e2dea0594), DT_STYLE_LLAMA3, "Llama 3",
     "94b9be1d9b441fdcf5c108eef67461c65a5036e2a9c9f84e1fdcb6ec61c6"},
    {UINT64_C(0x6ca7779b7730196a), DT_STYLE_LLAMA31, "Llama 3.1",
     "6eedef1afda388a83f059d6788a811f6cf7488a8bc955a2788a81fdcda8d79254fc4"
     "8b9e90839f0888a81fdcb4675cc58da0ff6b88a893d3068788a87012ebcc411ac462"
     "96128ff7a53c01bca1992b4788a8d977700e1fdc73cbc3a10f728f03dea2f6cfffa2"
     "671f88a897d4048fb54596128ff7a53c01bca1992b475e8488a81fdc349af31bfee5"
     "3ddce7de0a9d5d2f220e4b91986051e6dcc5c7d00553a31dd00e361b7d551d3d9860"
     "8e5e1cbfa34a171c5d2faefdb6083c2caaadc0b25d2f549c401d57d1f845aaadde55"
     "5d2f1d842de61ea4677027785af9"},
    {UINT64_C(0xc3d57e38f5ff0756), DT_STYLE_LLAMA32, "Llama 3.2",
     "6eedef1afda388a83f059d6788a811f6a5c69dc0ffa2a5b02de688a8bc955a2788a8"
     "1fdcda8d79254fc48b9e90839f0888a81fdc8a375cc52d1cff6b88a87012ebcc411a"
     "c46296128ff7a53c01bca1992b4788a8d977700e1fdc73cbc3a10f728f03dea2f6cf"
     "ffa2671f88a897d4048fb54596128ff7a53c01bca1992b475e8488a81fdc349af31b"
     "fee53ddce7de0a9d5d2f220e26eca26bfb1cb30cca6c1d84549c401d57d1f845aaad"
     "de555d2f1d842de61ea4677027785af9"},
    {UINT64_C(0xb7f52373b11c60d7), DT_STYLE_MISTRAL_V01, "Mistral 7B v0.1",
     "2e9df982eb0b36b261c669d55943c86bc6f73230875a61c636e2"},
    {UINT64_C(0xa5d004210ebce758), DT_STYLE_MISTRAL_V02, "Mistral 7B v0.2",
     "2e9df982eb0b36b261c669d55943c86b2d3a3230875a61c636e2"},
    {UINT64_C(0xdf71f377295a76df), DT_STYLE_MISTRAL_V1,
     "Mistral 7B v0.2 of 2024",
     "9a3ca15289eb9083e46988a81fdc6eed1425cc6fbca32de672fb5b10a47baaad90ac"
     "5d2f2f6f0962ffa2e0602de68f62"},
    {UINT64_C(0xf89cfc57f651ff3d), DT_STYLE_MISTRAL_V1,
     "Mistral 7B v0.2 of 2024",
     "7925b2ac89eb9083e46988a81fdc6eed1425cc6fbca32de673825b108208aaadd757"
     "5d2f1aa7d787ffa2c05f2de68f62"},
    {UINT64_C(0xc6614466504d495b), DT_STYLE_MISTRAL_V3_END, "Mistral 7B v0.3",
     "9a3ca15289eb9083e46988a8bc955a2788a8481f1fdc59d9f9f4aa8414257404a4a9"
     "c51f5d2f5ec32de61ea41fdc6eed142572fbe768b7e98b4224ae788834d3be795ee7"
     "b3b02e6dd59526fe212ed595361b81f625420553a31d30aef2dad00e51bd7610e784"
     "898fa904aaad9b2b5d2f58caef6d8016b0ee969830d97072e7847c8786a8a5429b54"
     "a4ebe784a8532f6f132e998610c0967daaadd0b15d2f9e54b45393225d2f827affa2"
     "e0602de68f62"},
    {UINT64_C(0x509c2225a29819d8), DT_STYLE_MISTRAL_V3, "Mistral 7B v0.3",
     "9a3ca15289eb9083e46988a8bc955a2788a8481f1fdc59d9f9f4aa8414257404a4a9"
     "c51f5d2f5ec32de61ea41fdc6eed142572fbe768b7e98b4224ae788834d3be795ee7"
     "b3b02e6dd59526fe212ed595361b81f625420553a31d30aef2dad00e51bd7610e784"
     "f0a8a904aaad9b2b5d2f58caef6d8016b0ee969830d97072e7847c8786a8a5429b54"
     "a4ebe784a8532f6f132e998610c0967daaadd0b15d2f9e54b45393225d2f827affa2"
     "e0602de68f62"},
    {UINT64_C(0xcae647ce0048756b), DT_STYLE_MISTRAL_NEMO_END, "Mistral Nemo",
     "9a3ca15289eb9083e46988a8bc955a2788a8481f1fdc59d9f9f4aa8414257404a4a9"
     "c51f5d2f5ec32de61ea41fdc6eed142572fbe7686c478b4224ae788834d3be795ee7"
     "b3b02e6dd59526fe212ed595361b81f625420553a31d30aef2dad00e51bd7610e784"
     "898fb8b8aaad600a5d2f2e545fff8016b0ee969830d97072e7847c8786a8a5429b54"
     "a4ebe784a8532f6f1bbb998610c0967daaadd0b15d2f8528b45393225d2f827affa2"
     "e0602de68f62"},
    {UINT64_C(0xd73b2a61543bb725), DT_STYLE_MISTRAL_NEMO, "Mistral Nemo",
     "9a3ca15289eb9083e46988a8bc955a2788a8481f1fdc59d9f9f4aa8414257404a4a9"
     "c51f5d2f5ec32de61ea41fdc6eed142572fbe7686c478b4224ae788834d3be795ee7"
     "b3b02e6dd59526fe212ed595361b81f625420553a31d30aef2dad00e51bd7610e784"
     "f0a8b8b8aaad600a5d2f2e545fff8016b0ee969830d97072e7847c8786a8a5429b54"
     "a4ebe784a8532f6f1bbb998610c0967daaadd0b15d2f8528b45393225d2f827affa2"
     "e0602de68f62"},
};

enum { KNOWN = sizeof(known) / sizeof(known[0]) };

/* The text as Jinja reads it; the caller frees it. NULL: out of memory. */
static char *normal_form(const char *jinja)
{
    char *text = malloc(strlen(jinja) + 1), *to = text;
    for (const char *s = jinja; text && *s; s++)
        if (*s == '\r')
            *to++ = '\n', s += s[1] == '\n';
        else
            *to++ = *s;
    if (!text)
        return NULL;
    to -= to > text && to[-1] == '\n';
    to -= to - text >= 3 && memcmp(to - 3, "%}\n", 3) == 0;
    *to = '\0';
    return text;
}

/* The length of the piece at the start of s, which is not empty. */
static size_t piece_at(const char *s)
{
    for (size_t i = 0; s[i]; i++)
        if (s[i] == '\n')
            return i + 1;
        else if ((s[i] == '%' || s[i] == '}') && s[i + 1] == '}')
            return i + 2 + (s[i + 2] == '\n');
    return strlen(s);
}

static void print_hash(const char *s, size_t bytes, char hex[HEX + 1])
{
    snprintf(hex, HEX + 1, "%04x", (unsigned)(XXH3_64bits(s, bytes) & 0xffff));
}

/* The similarity of a text to `one`, from 0 to 1: the share of their pieces
 * that both have.
 */
static double similarity(const char *text, const struct known *one)
{
    size_t shared = 0, count = 0, theirs = strlen(one->pieces) / HEX;
    for (const char *s = text; *s; s += piece_at(s), count++) {
        char hex[HEX + 1];
        print_hash(s, piece_at(s), hex);
        for (size_t i = 0; i < theirs; i++)
            if (memcmp(one->pieces + i * HEX, hex, HEX) == 0) {
                shared++;
                break;
            }
    }
    return 2.0 * (double)shared / (double)(count + theirs);
}

/* The first piece of the text that differs from `one`, or the text's end. */
static const char *first_difference(const char *text, const struct known *one)
{
    const char *s = text;
    for (const char *other = one->pieces; *s; s += piece_at(s), other += HEX) {
        char hex[HEX + 1];
        print_hash(s, piece_at(s), hex);
        if (strncmp(hex, other, HEX) != 0)
            break;
    }
    return s;
}

/* Prints the position, as "line 2, column 5, where this one has ...". */
static void print_place(char *out, size_t room, const char *text,
                        const char *at)
{
    int line = 1;
    const char *begin = text;
    char piece[SHOWN + 1];
    for (const char *s = text; s < at; s++)
        if (*s == '\n') {
            line++;
            begin = s + 1;
        }
    size_t bytes = *at ? piece_at(at) : 0;
    while (bytes > 0 && at[bytes - 1] == '\n')
        bytes--;
    snprintf(piece, sizeof(piece), "%.*s", (int)(bytes < SHOWN ? bytes : SHOWN),
             at);
    for (char *p = piece; *p; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p >= 0x7f)
            *p = '?';
    if (*at)
        snprintf(out, room, "line %d, column %d, where this one has: %s", line,
                 (int)(at - begin) + 1, piece);
    else
        snprintf(out, room, "line %d, column %d, where this one ends", line,
                 (int)(at - begin) + 1);
}

static void refuse_template(const char *text, struct dt_error *err)
{
    const struct known *nearest = NULL;
    double most = 0.5; /* less similar templates are not worth naming */
    char place[SHOWN + 80];
    for (size_t i = 0; i < KNOWN; i++)
        if (similarity(text, &known[i]) > most) {
            most = similarity(text, &known[i]);
            nearest = &known[i];
        }
    if (!nearest) {
        dt_error_set(
            err, EX_CONFIG,
            "the tokenizer's chat template is unknown: choose one "
            "with data.chat_template (--chat-template), of " DT_CHAT_NAMES
            ", or give the conversations as rendered "
            "text");
        return;
    }
    print_place(place, sizeof(place), text, first_difference(text, nearest));
    dt_error_set(
        err, EX_CONFIG,
        "the tokenizer's chat template is unknown: it first "
        "differs from that of %s at %s. Choose one with data.chat_template "
        "(--chat-template), of " DT_CHAT_NAMES
        ", or give the conversations as rendered text",
        nearest->label, place);
}

const struct dt_chat_style *dt_chat_style_published(uint64_t hash)
{
    for (size_t i = 0; i < KNOWN; i++)
        if (known[i].hash == hash)
            return &dt_chat_styles[known[i].style];
    return NULL;
}

const struct dt_chat_style *dt_chat_style_of(const char *jinja,
                                             struct dt_error *err)
{
    char *text = normal_form(jinja);
    if (!text) {
        dt_error_set(err, EX_OSERR, "chat: out of memory");
        return NULL;
    }
    const struct dt_chat_style *style =
        dt_chat_style_published(XXH3_64bits(text, strlen(text)));
    if (!style)
        refuse_template(text, err);
    free(text);
    return style;
}
