/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_jpeg.c - decodes JPEG files with libjpeg-turbo
 *
 * Its settings are left as they are, since Pillow leaves them: the slow integer
 * transform, smooth upsampling of colors, and never a smaller image than the
 * file has. libjpeg reports errors by a call that must not return.
 */
#include "config.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jerror.h>
#include <jpeglib.h>

#include "image/image_impl.h"

/* libjpeg calls the managers with `jpeg`, whose client_data is the decoder. */
struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    struct jpeg_source_mgr input;
    const struct dt_image_source *source;
    uint8_t *line; /* of four colors */
    jmp_buf failed;
    struct dt_error *err;
};

static struct decoder *decoder_of(j_common_ptr jpeg)
{
    return jpeg->client_data;
}

static int fail(struct decoder *decoder, const char *what)
{
    return dt_error_set(decoder->err, EX_DATAERR, "a damaged JPEG file: %s",
                        what);
}

static _Noreturn void stop(j_common_ptr jpeg)
{
    char text[JMSG_LENGTH_MAX];
    struct decoder *decoder = decoder_of(jpeg);
    jpeg->err->format_message(jpeg, text);
    if (jpeg->err->msg_code == JERR_OUT_OF_MEMORY)
        dt_error_set(decoder->err, EX_OSERR, "out of memory for a JPEG file");
    else
        fail(decoder, text);
    longjmp(decoder->failed, 1);
}

/* A level below 0 is a warning: data is damaged, but can be decoded. */
static void count_warning(j_common_ptr jpeg, int level)
{
    if (level < 0 && ++jpeg->err->num_warnings >
                         (long)decoder_of(jpeg)->source->limits->warnings)
        stop(jpeg);
}

static void say_nothing(j_common_ptr jpeg)
{
    (void)jpeg;
}

/* A progressive file may have any number of scans, each of which costs as much
 * as the whole image.
 */
static void count_scans(j_common_ptr jpeg)
{
    struct decoder *decoder = decoder_of(jpeg);
    const unsigned most = decoder->source->limits->scans;
    if (decoder->jpeg.input_scan_number <= (int)most)
        return;
    dt_error_set(decoder->err, EX_DATAERR, "a JPEG file of more than %u scans",
                 most);
    longjmp(decoder->failed, 1);
}

/* The file is in memory as a whole: nothing comes after its bytes. */
static void start_input(j_decompress_ptr jpeg)
{
    (void)jpeg;
}

static boolean fill_input(j_decompress_ptr jpeg)
{
    struct decoder *decoder = decoder_of((j_common_ptr)jpeg);
    fail(decoder, "it is cut short");
    longjmp(decoder->failed, 1);
}

static void skip_input(j_decompress_ptr jpeg, long bytes)
{
    if (bytes <= 0)
        return;
    if ((size_t)bytes > jpeg->src->bytes_in_buffer)
        fill_input(jpeg);
    jpeg->src->next_input_byte += bytes;
    jpeg->src->bytes_in_buffer -= (size_t)bytes;
}

static void init(struct decoder *decoder)
{
    decoder->jpeg.err = jpeg_std_error(&decoder->errors);
    decoder->errors.error_exit = stop;
    decoder->errors.emit_message = count_warning;
    decoder->errors.output_message = say_nothing;
    decoder->jpeg.client_data = decoder;
    jpeg_create_decompress(&decoder->jpeg);
    decoder->progress.progress_monitor = count_scans;
    decoder->jpeg.progress = &decoder->progress;
    decoder->input = (struct jpeg_source_mgr){
        .next_input_byte = decoder->source->data,
        .bytes_in_buffer = decoder->source->bytes,
        .init_source = start_input,
        .fill_input_buffer = fill_input,
        .skip_input_data = skip_input,
        .resync_to_restart = jpeg_resync_to_restart,
        .term_source = start_input,
    };
    decoder->jpeg.src = &decoder->input;
}

/* Colors are inverted in the file, as Adobe's programs write them; Pillow takes
 * all files for such.
 */
static void cmyk_to_rgb(uint8_t *rgb, const uint8_t *cmyk, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < 3; c++) {
            const unsigned black = cmyk[4 * i + 3]; /* 255 less black ink */
            const unsigned t = (255u - cmyk[4 * i + c]) * black + 128;
            const int left = (int)black - (int)(((t >> 8) + t) >> 8);
            rgb[3 * i + c] = (uint8_t)(left < 0 ? 0 : left);
        }
}

static int read_lines(struct decoder *decoder, uint8_t *rgb)
{
    struct jpeg_decompress_struct *jpeg = &decoder->jpeg;
    const bool cmyk = jpeg->out_color_space == JCS_CMYK;
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *to =
            rgb + (size_t)jpeg->output_scanline * jpeg->output_width * 3;
        JSAMPROW line = cmyk ? decoder->line : to;
        jpeg_read_scanlines(jpeg, &line, 1);
        if (cmyk)
            cmyk_to_rgb(to, line, jpeg->output_width);
    }
    return 0;
}

static int decode(struct decoder *decoder, uint8_t *rgb)
{
    struct jpeg_decompress_struct *jpeg = &decoder->jpeg;
    const struct dt_image_source *source = decoder->source;
    if (setjmp(decoder->failed))
        return -1;
    init(decoder);
    jpeg_read_header(jpeg, TRUE);
    if (jpeg->image_height != source->height ||
        jpeg->image_width != source->width)
        return fail(decoder, "it has two sizes");
    jpeg->out_color_space =
        source->info->mode == DT_IMAGE_CMYK ? JCS_CMYK : JCS_RGB;
    if (source->info->mode == DT_IMAGE_CMYK &&
        !(decoder->line = malloc((size_t)source->width * 4)))
        return dt_error_set(decoder->err, EX_OSERR,
                            "out of memory for a JPEG file");
    jpeg_start_decompress(jpeg);
    return read_lines(decoder, rgb);
}

int dt_image_decode_jpeg(const struct dt_image_source *source, uint8_t *rgb,
                         struct dt_error *err)
{
    struct decoder decoder = {.source = source, .err = err};
    int rc = decode(&decoder, rgb);
    jpeg_destroy_decompress(&decoder.jpeg);
    free(decoder.line);
    return rc;
}
