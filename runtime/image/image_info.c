/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_info.c - sizes, colors and orientation from the headers of files
 *
 * As in ITU-T T.81 (JPEG), the PNG specification, RFC 9649 (WebP) and, of
 * EXIF, the first directory of TIFF 6.0. Every length is compared with the
 * bytes that are left before it is used.
 */
#include "config.h"

#include <string.h>

#include "base/foreign.h"
#include "image/image.h"

const struct dt_image_limits dt_image_limits_usual = {
    .bytes = (size_t)64 << 20,
    .side = 16384,
    .pixels = 89478485,
    .aspect = 200,
    .scans = 100,
    .warnings = 100,
};

/* Bytes that are left to read. */
struct span {
    const uint8_t *at;
    size_t left;
};

/* Where a file says how it is turned. Pillow reads XMP only if EXIF does not
 * say it.
 */
struct turn {
    struct span exif, xmp;
};

static uint32_t big16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t big32(const uint8_t *at)
{
    return big16(at) << 16 | big16(at + 2);
}

static uint32_t little16(const uint8_t *at)
{
    return (uint32_t)at[1] << 8 | at[0];
}

static uint32_t little24(const uint8_t *at)
{
    return (uint32_t)at[2] << 16 | little16(at);
}

static uint32_t little32(const uint8_t *at)
{
    return little16(at + 2) << 16 | little16(at);
}

static bool begins(struct span span, const void *with, size_t bytes)
{
    return span.left >= bytes && memcmp(span.at, with, bytes) == 0;
}

static struct span skip(struct span span, size_t bytes)
{
    bytes = bytes < span.left ? bytes : span.left;
    return (struct span){span.at + bytes, span.left - bytes};
}

static struct span first(struct span span, size_t bytes)
{
    return (struct span){span.at, bytes < span.left ? bytes : span.left};
}

static int damaged(const char *what, struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR, "a damaged image: %s", what);
}

/* Tag 0x0112 in the first directory of a TIFF header, which EXIF is. False: it
 * is not there.
 */
static bool exif_orientation(struct span exif, unsigned *orientation)
{
    enum { TAG = 0x0112, SHORT = 3, LONG = 4, ENTRY_BYTES = 12 };
    for (int i = 0; i < 2 && begins(exif, "Exif\0\0", 6); i++)
        exif = skip(exif, 6);
    bool big = begins(exif, "MM", 2);
    if (exif.left < 8 || (!big && !begins(exif, "II", 2)))
        return false;
    uint32_t (*get16)(const uint8_t *) = big ? big16 : little16;
    uint32_t (*get32)(const uint8_t *) = big ? big32 : little32;
    struct span dir = skip(exif, get32(exif.at + 4));
    if (dir.left < 2)
        return false;
    bool found = false;
    uint32_t entries = get16(dir.at);
    dir = skip(dir, 2);
    for (; entries > 0 && dir.left >= ENTRY_BYTES; entries--) {
        const uint32_t type = get16(dir.at + 2), count = get32(dir.at + 4);
        if (get16(dir.at) == TAG && (type == SHORT || type == LONG)) {
            *orientation = count != 1      ? 0
                           : type == SHORT ? get16(dir.at + 8)
                                           : get32(dir.at + 8);
            found = true; /* the last one counts */
        }
        dir = skip(dir, ENTRY_BYTES);
    }
    return found;
}

/* The first digit after tiff:Orientation=" or tiff:Orientation>. */
static bool xmp_orientation(struct span xmp, unsigned *orientation)
{
    static const char name[] = "tiff:Orientation";
    const size_t bytes = sizeof(name) - 1;
    const uint8_t *found;
    while (xmp.left > 0 && (found = memmem(xmp.at, xmp.left, name, bytes))) {
        xmp = skip(xmp, (size_t)(found - xmp.at) + bytes);
        struct span value = begins(xmp, "=\"", 2) ? skip(xmp, 2)
                            : begins(xmp, ">", 1) ? skip(xmp, 1)
                                                  : first(xmp, 0);
        if (value.left > 0 && *value.at >= '0' && *value.at <= '9') {
            *orientation = *value.at - '0';
            return true;
        }
    }
    return false;
}

/* Height and width of `info` are those of the file so far. */
static void apply_turn(struct dt_image_info *info, const struct turn *turn)
{
    unsigned found = 1;
    if (!exif_orientation(turn->exif, &found))
        xmp_orientation(turn->xmp, &found);
    info->orientation = found >= 1 && found <= 8 ? found : 1;
    if (info->orientation > 4) {
        uint32_t height = info->height;
        info->height = info->width;
        info->width = height;
    }
}

/* JPEG: segments of a marker and a length. */

/* The header of a frame; only Huffman-coded 8-bit ones are read. */
static int jpeg_frame(struct dt_image_info *info, unsigned marker,
                      struct span segment, struct dt_error *err)
{
    static const enum dt_image_mode modes[] = {
        [1] = DT_IMAGE_GRAY, [3] = DT_IMAGE_RGB, [4] = DT_IMAGE_CMYK};
    if (segment.left < 6)
        return damaged("a frame header that is too short", err);
    if (marker > 0xC2)
        return dt_error_set(err, EX_DATAERR,
                            "a JPEG file that is %s: convert it to a "
                            "baseline or progressive one",
                            marker == 0xC3   ? "lossless"
                            : marker >= 0xC9 ? "arithmetic-coded"
                                             : "hierarchical");
    unsigned colors = segment.at[5];
    info->bits = segment.at[0];
    info->height = big16(segment.at + 1);
    info->width = big16(segment.at + 3);
    if (info->bits != 8 || (colors != 1 && colors != 3 && colors != 4))
        return dt_error_set(err, EX_DATAERR,
                            "a JPEG file of %u colors with %u bits: 8 bits of "
                            "gray, RGB or CMYK are read",
                            colors, info->bits);
    info->mode = modes[colors];
    return 0;
}

static void jpeg_application(struct span segment, struct turn *turn)
{
    static const char xmp[] = "http://ns.adobe.com/xap/1.0/";
    if (begins(segment, "Exif\0\0", 6) && !turn->exif.at)
        turn->exif = segment;
    else if (begins(segment, xmp, sizeof(xmp)))
        turn->xmp = skip(segment, sizeof(xmp));
}

/* Takes the next segment. Its marker, or -1 at the end of the bytes. */
static int jpeg_segment(struct span *file, struct span *segment)
{
    while (file->left > 0 && *file->at != 0xFF)
        *file = skip(*file, 1);
    while (file->left > 0 && *file->at == 0xFF)
        *file = skip(*file, 1);
    if (file->left == 0)
        return -1;
    int marker = *file->at;
    *file = skip(*file, 1);
    *segment = first(*file, 0);
    if (marker <= 0x01 || (marker >= 0xD0 && marker <= 0xD9))
        return marker; /* they have no length */
    if (file->left < 2 || big16(file->at) < 2 || big16(file->at) > file->left)
        return -1;
    *segment = first(*file, big16(file->at));
    *file = skip(*file, segment->left);
    *segment = skip(*segment, 2);
    return marker;
}

static int jpeg_info(struct dt_image_info *info, struct span file,
                     struct turn *turn, struct dt_error *err)
{
    enum {
        SOI = 0xD8,
        EOI,
        SOS,
        APP1 = 0xE1,
        DHT = 0xC4,
        JPG = 0xC8,
        DAC = 0xCC
    };
    struct span segment;
    bool framed = false;
    file = skip(file, 2);
    for (;;) {
        int marker = jpeg_segment(&file, &segment);
        if (marker < 0)
            return damaged("it ends in its header", err);
        if (marker == SOI || marker == EOI || (marker == SOS && !framed))
            return damaged("it has no frame", err);
        if (marker == SOS)
            return 0;
        if (marker == APP1)
            jpeg_application(segment, turn);
        if (marker < 0xC0 || marker > 0xCF || marker == DHT || marker == JPG ||
            marker == DAC)
            continue;
        if (framed)
            return damaged("it has two frames", err);
        framed = true;
        if (jpeg_frame(info, (unsigned)marker, segment, err) < 0)
            return -1;
    }
}

/* PNG: chunks of a length, a type, data and a checksum. */

static const char png_signature[] = "\x89PNG\r\n\x1a\n";

static int png_header(struct dt_image_info *info, struct span *file,
                      struct dt_error *err)
{
    static const enum dt_image_mode modes[] = {
        [0] = DT_IMAGE_GRAY,       [2] = DT_IMAGE_RGB,  [3] = DT_IMAGE_PALETTE,
        [4] = DT_IMAGE_GRAY_ALPHA, [6] = DT_IMAGE_RGBA,
    };
    static const char begin[] = "\0\0\0\x0dIHDR";
    if (file->left < 25 || !begins(*file, begin, 8))
        return damaged("it has no whole IHDR", err);
    const uint8_t *header = file->at + 8;
    unsigned color = header[9];
    info->width = big32(header);
    info->height = big32(header + 4);
    info->bits = header[8];
    if (color > 6 || color == 1 || color == 5)
        return damaged("a color type that PNG does not have", err);
    info->mode = modes[color];
    info->transparent = color >= 4;
    *file = skip(*file, 25);
    return 0;
}

/* XMP is the text of this key, unless it is compressed. */
static struct span png_xmp(struct span chunk)
{
    static const char key[] = "XML:com.adobe.xmp";
    if (begins(chunk, key, sizeof(key)) && chunk.left > sizeof(key) &&
        chunk.at[sizeof(key)] == 0)
        return skip(chunk, sizeof(key));
    return first(chunk, 0);
}

static int png_info(struct dt_image_info *info, struct span file,
                    struct turn *turn, struct dt_error *err)
{
    file = skip(file, 8);
    if (png_header(info, &file, err) < 0)
        return -1;
    while (file.left >= 12) {
        size_t bytes = big32(file.at);
        struct span type = skip(file, 4), chunk = first(skip(file, 8), bytes);
        if (begins(type, "IEND", 4))
            break;
        if (begins(type, "acTL", 4))
            return dt_error_set(err, EX_DATAERR,
                                "an animated PNG file: save the frame that "
                                "is meant");
        if (begins(type, "tRNS", 4))
            info->transparent = true;
        else if (begins(type, "eXIf", 4))
            turn->exif = chunk;
        else if (begins(type, "iTXt", 4) && png_xmp(chunk).left > 0)
            turn->xmp = png_xmp(chunk);
        file = skip(skip(file, 12), bytes);
    }
    return 0;
}

/* WebP: chunks of a type, a length and data, which is padded to an even size.
 */

enum { WEBP_ANIMATION = 0x02, WEBP_ALPHA = 0x10 };

/* The size of a frame, or of a canvas that has one frame. */
static int webp_size(struct dt_image_info *info, struct span type,
                     struct span chunk, struct dt_error *err)
{
    const uint8_t *at = chunk.at;
    if (begins(type, "VP8 ", 4) && chunk.left >= 10 &&
        memcmp(at + 3, "\x9d\x01\x2a", 3) == 0) {
        info->width = little16(at + 6) & 0x3fff;
        info->height = little16(at + 8) & 0x3fff;
    } else if (begins(type, "VP8L", 4) && chunk.left >= 5 && at[0] == 0x2f) {
        uint32_t bits = little32(at + 1);
        info->width = (bits & 0x3fff) + 1;
        info->height = (bits >> 14 & 0x3fff) + 1;
        info->transparent = bits >> 28 & 1;
    } else if (begins(type, "VP8X", 4) && chunk.left >= 10) {
        if (at[0] & WEBP_ANIMATION)
            return dt_error_set(err, EX_DATAERR,
                                "an animated WebP file: save the frame that "
                                "is meant");
        info->width = little24(at + 4) + 1;
        info->height = little24(at + 7) + 1;
        info->transparent = at[0] & WEBP_ALPHA;
    } else {
        return damaged("it does not begin with a frame of WebP", err);
    }
    info->mode = info->transparent ? DT_IMAGE_RGBA : DT_IMAGE_RGB;
    info->bits = 8;
    return 0;
}

static int webp_info(struct dt_image_info *info, struct span file,
                     struct turn *turn, struct dt_error *err)
{
    bool sized = false;
    file = skip(file, 12);
    while (file.left >= 8) {
        size_t bytes = little32(file.at + 4);
        struct span chunk = first(skip(file, 8), bytes);
        if (!sized && webp_size(info, file, chunk, err) < 0)
            return -1;
        sized = true;
        if (begins(file, "EXIF", 4))
            turn->exif = chunk;
        else if (begins(file, "XMP ", 4))
            turn->xmp = chunk;
        file = skip(file, 8 + bytes + (bytes & 1));
    }
    return sized ? 0 : damaged("it ends in its header", err);
}

/* Any file. */

/* Other files that people have in place of images, by their first bytes. */
static int refuse(struct span file, struct dt_error *err)
{
    static const struct {
        const char *head;
        size_t at, bytes;
        const char *name;
    } others[] = {
        {"GIF8", 0, 4, "a GIF file"},
        {"BM", 0, 2, "a BMP file"},
        {"II*\0", 0, 4, "a TIFF file"},
        {"MM\0*", 0, 4, "a TIFF file"},
        {"ftypavif", 4, 8, "an AVIF file"},
        {"ftyphei", 4, 7, "a HEIC file"},
        {"ftypmif1", 4, 8, "a HEIC file"},
        {"\0\0\0\x0cjP  ", 0, 8, "a JPEG 2000 file"},
        {"\xff\x0a", 0, 2, "a JPEG XL file"},
        {"\0\0\0\x0cJXL ", 0, 8, "a JPEG XL file"},
        {"\0\0\1\0", 0, 4, "an ICO file"},
        {"<svg", 0, 4, "an SVG file"},
        {"<?xml", 0, 5, "an XML file"},
        {"%PDF", 0, 4, "a PDF file"},
    };
    if (file.left == 0)
        return dt_error_set(err, EX_DATAERR, "an image of 0 bytes");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (begins(skip(file, others[i].at), others[i].head, others[i].bytes))
            return dt_error_set(err, EX_DATAERR,
                                "%s: convert it to PNG or JPEG",
                                others[i].name);
    if (begins(file, "<!DOCTYPE", 9) || begins(file, "<html", 5))
        return dt_error_set(err, EX_DATAERR,
                            "a page of HTML in place of an image: was it "
                            "downloaded with an error?");
    return dt_error_set(err, EX_DATAERR,
                        "not a JPEG, PNG or WebP file: it begins with "
                        "%02x %02x %02x %02x",
                        file.at[0], file.left > 1 ? file.at[1] : 0,
                        file.left > 2 ? file.at[2] : 0,
                        file.left > 3 ? file.at[3] : 0);
}

static int too_large(uint32_t height, uint32_t width, struct dt_error *err,
                     const char *limit, uint64_t most, const char *of)
{
    return dt_error_set(err, EX_DATAERR,
                        "an image of %lu x %lu pixels: %s %llu%s",
                        (unsigned long)width, (unsigned long)height, limit,
                        (unsigned long long)most, of);
}

int dt_image_check_size(uint32_t height, uint32_t width,
                        const struct dt_image_limits *limits,
                        struct dt_error *err)
{
    const uint32_t longer = height > width ? height : width;
    const uint32_t shorter = height > width ? width : height;
    if (shorter == 0)
        return damaged("it has no pixels", err);
    if (longer > limits->side)
        return too_large(height, width, err, "a side has at most", limits->side,
                         "");
    if ((uint64_t)height * width > limits->pixels)
        return too_large(height, width, err, "at most", limits->pixels,
                         " pixels are decoded");
    if (longer > (uint64_t)limits->aspect * shorter)
        return too_large(height, width, err, "the longer side is at most",
                         limits->aspect, " times the shorter one");
    return 0;
}

int dt_image_info(struct dt_image_info *info, const void *data, size_t bytes,
                  const struct dt_image_limits *limits, struct dt_error *err)
{
    const struct span file = {data, bytes};
    struct turn turn = {0};
    int rc;
    *info = (struct dt_image_info){0};
    if (bytes > limits->bytes)
        return dt_error_set(err, EX_DATAERR,
                            "an image of %zu bytes: at most %zu are read",
                            bytes, limits->bytes);
    if (dt_foreign_pointer("image", data, bytes, err) < 0)
        return -1;
    if (begins(file, "\xff\xd8\xff", 3)) {
        info->format = DT_IMAGE_JPEG;
        rc = jpeg_info(info, file, &turn, err);
    } else if (begins(file, png_signature, 8)) {
        info->format = DT_IMAGE_PNG;
        rc = png_info(info, file, &turn, err);
    } else if (begins(file, "RIFF", 4) && begins(skip(file, 8), "WEBP", 4)) {
        info->format = DT_IMAGE_WEBP;
        rc = webp_info(info, file, &turn, err);
    } else {
        rc = refuse(file, err);
    }
    if (rc < 0)
        return -1;
    apply_turn(info, &turn);
    return dt_image_check_size(info->height, info->width, limits, err);
}
