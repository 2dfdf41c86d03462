/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_png.c - decodes PNG files with libpng
 *
 * Only chunks that pixels are made of are looked at. libpng reports errors by a
 * call that must not return.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "image/image_impl.h"

struct decoder {
    png_structp png;
    png_infop info;
    const struct dt_image_source *source;
    size_t at;       /* in the file */
    uint8_t *pixels; /* that are not yet RGB */
    struct dt_error *err;
};

/* setjmp is of libpng, which jumps in its own functions, too. */
static _Noreturn void stop(png_structp png, png_const_charp what)
{
    struct decoder *decoder = png_get_error_ptr(png);
    dt_error_set(decoder->err, EX_DATAERR, "a damaged PNG file: %s", what);
    png_longjmp(png, 1);
}

static void warn(png_structp png, png_const_charp what)
{
    (void)png;
    (void)what;
}

static void read_bytes(png_structp png, png_bytep to, size_t bytes)
{
    struct decoder *decoder = png_get_io_ptr(png);
    if (bytes > decoder->source->bytes - decoder->at)
        stop(png, "it is cut short");
    memcpy(to, decoder->source->data + decoder->at, bytes);
    decoder->at += bytes;
}

/* Samples become 8 bits of R, G, B, or of R, G, B, A if the file is
 * transparent; of 16-bit gray they stay as they are.
 */
static void set_up(png_structp png, const struct dt_image_info *info)
{
    if (info->transparent)
        png_set_tRNS_to_alpha(png);
    if (info->mode == DT_IMAGE_PALETTE)
        png_set_palette_to_rgb(png);
    else if (info->mode == DT_IMAGE_GRAY && info->bits < 8)
        png_set_expand_gray_1_2_4_to_8(png);
    if (info->mode == DT_IMAGE_GRAY && info->bits == 16)
        return;
    png_set_strip_16(png);
    png_set_gray_to_rgb(png);
}

/* 16-bit gray, with alpha or without, as Pillow shows it: cut at 255. */
static void wide_gray_to_rgba(uint8_t *rgba, const uint8_t *samples,
                              size_t channels, size_t count)
{
    for (size_t i = 0; i < count; i++, samples += 2 * channels) {
        const uint8_t gray = samples[0] > 0 ? 255 : samples[1];
        memset(rgba + 4 * i, gray, 3);
        rgba[4 * i + 3] = channels == 2 ? samples[2] : 255;
    }
}

static int convert(struct decoder *decoder, uint8_t *rgb, size_t row_bytes)
{
    const struct dt_image_source *source = decoder->source;
    const size_t width = source->width, channels = row_bytes / width;
    const bool wide =
        source->info->bits == 16 && source->info->mode == DT_IMAGE_GRAY;
    if (!wide && channels != 4)
        return dt_error_set(decoder->err, EX_DATAERR,
                            "a damaged PNG file: it has %zu channels",
                            channels);
    uint8_t *line = malloc(width * 4);
    if (!line)
        return dt_error_set(decoder->err, EX_OSERR,
                            "out of memory for a PNG file");
    for (size_t y = 0; y < source->height; y++) {
        const uint8_t *from = decoder->pixels + y * row_bytes;
        if (wide)
            wide_gray_to_rgba(line, from, channels / 2, width);
        dt_image_on_white(rgb + y * width * 3, wide ? line : from, width);
    }
    free(line);
    return 0;
}

static int read_pixels(struct decoder *decoder, uint8_t *rgb)
{
    png_structp png = decoder->png;
    const struct dt_image_source *source = decoder->source;
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, decoder->info);
    const size_t row_bytes = png_get_rowbytes(png, decoder->info);
    const bool direct = png_get_bit_depth(png, decoder->info) == 8 &&
                        png_get_channels(png, decoder->info) == 3;
    uint8_t *to = rgb;
    if (!direct)
        to = decoder->pixels = malloc(row_bytes * source->height);
    if (!to)
        return dt_error_set(decoder->err, EX_OSERR,
                            "out of memory for a PNG file");
    for (int pass = 0; pass < passes; pass++)
        for (size_t y = 0; y < source->height; y++)
            png_read_row(png, to + y * row_bytes, NULL);
    return direct ? 0 : convert(decoder, rgb, row_bytes);
}

static int decode(struct decoder *decoder, uint8_t *rgb)
{
    png_structp png = decoder->png;
    const struct dt_image_source *source = decoder->source;
    if (setjmp(png_jmpbuf(png)))
        return -1;
    png_set_user_limits(png, source->width, source->height);
    png_set_chunk_cache_max(png, 1);
    png_set_chunk_malloc_max(png, source->bytes);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_read_fn(png, decoder, read_bytes);
    png_read_info(png, decoder->info);
    if (png_get_image_height(png, decoder->info) != source->height ||
        png_get_image_width(png, decoder->info) != source->width ||
        png_get_bit_depth(png, decoder->info) != source->info->bits)
        stop(png, "it has two sizes");
    set_up(png, source->info);
    return read_pixels(decoder, rgb);
}

int dt_image_decode_png(const struct dt_image_source *source, uint8_t *rgb,
                        struct dt_error *err)
{
    struct decoder decoder = {.source = source, .err = err};
    int rc = -1;
    decoder.png =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, stop, warn);
    if (decoder.png)
        decoder.info = png_create_info_struct(decoder.png);
    if (decoder.info)
        rc = decode(&decoder, rgb);
    else
        dt_error_set(err, EX_OSERR, "out of memory for a PNG file");
    if (decoder.png)
        png_destroy_read_struct(&decoder.png, &decoder.info, NULL);
    free(decoder.pixels);
    return rc;
}
