/* SPDX-License-Identifier: Apache-2.0 */
/* small_png.h - images of a few pixels, made by the test */
#ifndef DT_TESTS_UNIT_SMALL_PNG_H
#define DT_TESTS_UNIT_SMALL_PNG_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/scratch.h"

enum { SMALL_PNG_BYTES = 1 << 16 };

static inline void small_png_number(uint8_t *to, uint32_t number)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(number >> (24 - 8 * i));
}

static inline uint32_t small_png_crc(const uint8_t *data, size_t bytes)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

/* Completes a chunk whose data are in their place. Returns its bytes. */
static inline size_t small_png_chunk(uint8_t *at, const char *type,
                                     size_t bytes)
{
    small_png_number(at, (uint32_t)bytes);
    memcpy(at + 4, type, 4);
    small_png_number(at + 8 + bytes, small_png_crc(at + 4, bytes + 4));
    return bytes + 12;
}

/* An image of so many bytes a pixel, 1 (gray) or 3 (colors); returns the bytes
 * of the file, of at most SMALL_PNG_BYTES.
 */
static inline size_t small_png_of(uint8_t *png, uint32_t height, uint32_t width,
                                  size_t channels, const uint8_t *pixels)
{
    const size_t row = width * channels, rows = height * (row + 1);
    uint8_t *at = png, *data;
    uint32_t a = 1, b = 0; /* Adler-32 */
    if (rows + 100 > SMALL_PNG_BYTES)
        abort();
    memcpy(at, "\x89PNG\r\n\x1a\n", 8);
    at += 8;
    small_png_number(at + 8, width);
    small_png_number(at + 12, height);
    memcpy(at + 16, "\x08\0\0\0", 5); /* 8 bits, gray, ... */
    if (channels == 3)
        at[17] = 2; /* ... or colors */
    at += small_png_chunk(at, "IHDR", 13);
    data = at + 8;
    memcpy(data, "\x78\x01\x01", 3); /* one stored block */
    data[3] = (uint8_t)rows;
    data[4] = (uint8_t)(rows >> 8);
    data[5] = (uint8_t)~rows;
    data[6] = (uint8_t)(~rows >> 8);
    for (size_t i = 0; i < rows; i++) {
        const size_t y = i / (row + 1), x = i % (row + 1);
        data[7 + i] = x > 0 ? pixels[y * row + x - 1] : 0; /* no filter */
        a = (a + data[7 + i]) % 65521;
        b = (b + a) % 65521;
    }
    small_png_number(data + 7 + rows, b << 16 | a);
    at += small_png_chunk(at, "IDAT", rows + 11);
    at += small_png_chunk(at, "IEND", 0);
    return (size_t)(at - png);
}

/* A gray image of one shade. */
static inline size_t small_png(uint8_t *png, uint32_t height, uint32_t width,
                               uint8_t shade)
{
    static uint8_t pixels[SMALL_PNG_BYTES];
    if ((size_t)height * width > sizeof(pixels))
        abort();
    memset(pixels, shade, (size_t)height * width);
    return small_png_of(png, height, width, 1, pixels);
}

/* Writes one to the scratch directory and returns its path. */
static inline const char *small_png_write(const char *name, uint32_t height,
                                          uint32_t width, uint8_t shade)
{
    static uint8_t png[SMALL_PNG_BYTES];
    return scratch_write(name, png, small_png(png, height, width, shade));
}

#endif /* DT_TESTS_UNIT_SMALL_PNG_H */
