/* SPDX-License-Identifier: Apache-2.0 */
/*
 * processor.h - the image processor of a model, and the plan of an image
 *
 * A model directory says in preprocessor_config.json, or in newer ones in
 * processor_config.json, how images are resized, cut and normalized. With that
 * the height and the width of an image, which its header has, decide
 * everything else: how many patches the tower sees and how many tokens of the
 * text they become. A plan has these numbers; the pixels follow it later.
 *
 *   kind      families        resize                          tower sees
 *   fixed     SigLIP, Gemma 3 to one size                     that
 *   shortest  CLIP, LLaVA     the shorter side to one size    a center crop
 *   pixels    Qwen2-VL to 3   to multiples of merged patches, that
 *                             pixels within bounds
 *   tiles     SmolVLM,        the longer side to one size,    each tile, then
 *             Idefics3        then to whole tiles             all as one tile
 *
 * The pixels that the tower sees are cut into patches, each of which is a row
 * of bytes. The last step is a table of 256 numbers for each color, which a
 * device can look up.
 */
#ifndef DT_IMAGE_PROCESSOR_H
#define DT_IMAGE_PROCESSOR_H

#include "image/image.h"

enum dt_image_kind {
    DT_IMAGE_FIXED,
    DT_IMAGE_SHORTEST,
    DT_IMAGE_PIXELS,
    DT_IMAGE_TILES,
};

struct dt_image_processor {
    enum dt_image_kind kind;
    enum dt_image_backend backend;
    enum dt_image_filter filter;
    struct dt_image_limits limits;
    uint32_t height, width;           /* FIXED; SHORTEST: both the same */
    uint32_t crop_height, crop_width; /* of the center; 0: no crop */
    bool pad;                         /* first to a square, */
    uint8_t background[3];            /* with this color; */
    bool unsaid; /* which no class of transformers does for such a model */
    uint64_t min_pixels, max_pixels; /* PIXELS */
    uint32_t longest, tile;          /* TILES: sides */
    bool split;                      /* TILES; else one tile is all */
    double mean[3], std[3], factor;  /* (value * factor - mean) / std */
    uint32_t patch, merge, temporal; /* sides of a patch, and of patches that
                                        become one token; frames */
    uint32_t tokens; /* of a tile or of an image; 0: of each merged patch one */
};

/* Facts of the model's config.json and wishes of the user. */
struct dt_image_options {
    enum dt_image_backend backend;
    const struct dt_image_limits *limits;
    uint32_t patch;  /* of the tower; 0: as the processor says */
    uint32_t merge;  /* side of the patches of a feature; 0: likewise */
    uint32_t tokens; /* features of a tile or of an image of one size; 0: as the
                        processor says */
    uint64_t min_pixels, max_pixels; /* 0: as the processor says */
    int pad; /* to a square first: 1, 0, or -1: as the processor says */
};

#define DT_IMAGE_FILE "preprocessor_config.json"
#define DT_IMAGE_FILE_WHOLE "processor_config.json"

/* The texts of both files; NULL: there is none. */
struct dt_image_files {
    char *image, *whole;
};

/* Reads the files of `dir`. Release with dt_image_files_fini. -1: EX_NOINPUT,
 * EX_IOERR, EX_OSERR.
 */
int dt_image_files_read(struct dt_image_files *files, const char *dir,
                        struct dt_error *err);

/* Changes what `processor` does in another way than the files of `dir`:
 * padding, unless it is unsaid, and bounds of pixels. Read without wishes they
 * give `processor`, here and in transformers; the backend is a wish of each
 * program. -1: as dt_image_processor_parse.
 */
int dt_image_files_change(struct dt_image_files *files, const char *dir,
                          const struct dt_image_processor *processor,
                          struct dt_error *err);
void dt_image_files_fini(struct dt_image_files *files);

/* Reads the processor from its files, which messages call those of `dir`. -1:
 * EX_NOINPUT, there is none; EX_OSERR; EX_DATAERR with the file and all keys
 * that are wrong, or that ask for what is not computed here.
 */
int dt_image_processor_parse(struct dt_image_processor *processor,
                             const char *dir,
                             const struct dt_image_files *files,
                             const struct dt_image_options *options,
                             struct dt_error *err);

/* The same from the files in `dir`. -1: also as dt_image_files_read. */
int dt_image_processor_load(struct dt_image_processor *processor,
                            const char *dir,
                            const struct dt_image_options *options,
                            struct dt_error *err);

/* A hash of all that the pictures of an image depend on. */
uint64_t dt_image_processor_hash(const struct dt_image_processor *processor);

struct dt_image_plan {
    uint32_t square;                    /* TILES: 0; side to pad to, or 0 */
    uint32_t first_height, first_width; /* TILES: of the first resize */
    uint32_t height, width;             /* of the resize that is cut */
    struct dt_image_box keep;           /* the part that the tower sees */
    uint32_t rows, columns; /* of tiles, before one of all; 0: not split */
    uint32_t tiles;         /* in all: 1 if it is not split */
    uint32_t grid_height, grid_width; /* patches of a tile */
    uint32_t patches, tokens;         /* in all */
};

/* Plans an image of this size, upright. -1: EX_DATAERR, beyond a limit or of
 * an aspect that the processor refuses.
 */
int dt_image_plan(struct dt_image_plan *plan,
                  const struct dt_image_processor *processor, uint32_t height,
                  uint32_t width, struct dt_error *err);

/* Bounds of what an image of any size becomes: it has at least so many tokens,
 * and at most those.
 */
struct dt_image_bounds {
    uint32_t least_tokens;
    uint32_t tokens, patches, tiles;
};

/* The bounds of this processor; images on the way to them need not exist. */
struct dt_image_bounds dt_image_bounds(
    const struct dt_image_processor *processor);

/* Numbers that the bytes of each color become. */
struct dt_image_table {
    float of[3][256];
};

/* As the backend computes them: torchvision normalizes bytes, Pillow's class
 * rescales them first.
 */
struct dt_image_table dt_image_table(
    const struct dt_image_processor *processor);

/* Bytes of a row: the pixels of a patch, (3, patch, patch), once for all of its
 * frames. Elements of the tower's input: (3, temporal, patch, patch).
 */
size_t dt_image_row_bytes(const struct dt_image_processor *processor);
size_t dt_image_row_values(const struct dt_image_processor *processor);

/* Resizes and cuts an image, which has the size that was planned, into
 * plan->patches rows: tile after tile, in each the patches of a token after
 * those of another. rows (patches, row bytes). -1: EX_OSERR.
 */
int dt_image_rows(uint8_t *rows, const struct dt_image_plan *plan,
                  const struct dt_image_processor *processor,
                  const struct dt_image *image, struct dt_error *err);

/* The rows as the tower reads them: values (count, row values). */
void dt_image_values(float *values, const uint8_t *rows, size_t count,
                     const struct dt_image_processor *processor);

#endif /* DT_IMAGE_PROCESSOR_H */
