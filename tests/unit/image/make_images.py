#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes files/, images of every kind, and what Pillow decodes them to.

Run in this folder; needs Pillow 13, numpy and transformers 5.24 with torch and
torchvision. images.txt has a line for each file: its name, the height and width
that it is shown with, its orientation, and the SHA-256 of its pixels in RGB.
"""

import hashlib
import io
import os
import struct
import zlib

import numpy
from PIL import ExifTags, Image, ImageOps
from transformers.image_transforms import convert_to_rgb

ORIENTATION = ExifTags.Base.Orientation


def picture(height, width, channels=3, seed=1):
    """Waves, edges and a little noise."""
    y, x = numpy.mgrid[0:height, 0:width]
    noise = numpy.random.default_rng(seed).normal(0, 6, (height, width, 4))
    waves = [127 + 90 * numpy.sin(x / 7) + 30 * numpy.cos(y / 5),
             127 + 80 * numpy.sin((x + y) / 9),
             127 + 100 * numpy.cos(y / 6) * numpy.sin(x / 8),
             255 * ((x // 5 + y // 4) % 3) / 2]
    out = numpy.stack(waves, -1) + noise
    out[height // 3: height // 2, width // 4: width // 2, 0] = 255
    out = numpy.clip(out, 0, 255).astype(numpy.uint8)[:, :, :channels]
    return out[:, :, 0] if channels == 1 else out


def rgb(height=37, width=53):
    return Image.fromarray(picture(height, width))


def save(name, image, **options):
    image.save(os.path.join("files", name), **options)


def write(name, data):
    with open(os.path.join("files", name), "wb") as f:
        f.write(data)


def oriented(value):
    exif = Image.Exif()
    exif[ORIENTATION] = value
    return exif


def chunk(kind, data):
    return (struct.pack(">I", len(data)) + kind + data +
            struct.pack(">I", zlib.crc32(kind + data)))


def png(array, bits, color, extra=b"", interlace=0):
    """Rows of samples, which Pillow cannot write as PNG, without filters."""
    height, width = array.shape[:2]
    passes = [(0, 0, 1, 1)]
    if interlace:
        passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4),
                  (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    data = b""
    for y, x, down, right in passes:
        for row in array[y::down, x::right]:
            if row.size == 0:
                continue
            if bits == 16:
                line = row.astype(">u2").tobytes()
            elif bits == 8:
                line = row.astype(numpy.uint8).tobytes()
            else:
                each = numpy.unpackbits(row.astype(numpy.uint8)[:, None], 1)
                line = numpy.packbits(each[:, 8 - bits:]).tobytes()
            data += b"\0" + line
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0,
                         interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra +
            chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b""))


def with_segment(jpeg, data):
    """A JPEG file with an application segment 1 more."""
    return (jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(data) + 2) + data +
            jpeg[2:])


def encoded(image, form, **options):
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def write_jpegs():
    save("rgb.jpg", rgb(), quality=85)
    save("444.jpg", rgb(61, 47), quality=95, subsampling=0)
    save("422.jpg", rgb(40, 64), quality=60, subsampling=1)
    save("progressive.jpg", rgb(50, 41), quality=80, progressive=True)
    save("restarts.jpg", rgb(48, 48), quality=75, restart_marker_blocks=2)
    save("gray.jpg", Image.fromarray(picture(33, 44, 1)), quality=80)
    save("cmyk.jpg", Image.fromarray(picture(30, 35, 4), "CMYK"), quality=90)
    ycck = bytearray(encoded(Image.fromarray(picture(27, 38, 4), "CMYK"),
                             "JPEG", quality=90))
    ycck[ycck.index(b"Adobe") + 11] = 2  # as Photoshop writes them
    write("ycck.jpg", ycck)
    save("keep_rgb.jpg", rgb(25, 30), quality=90, keep_rgb=True)
    for value in range(1, 9):
        save(f"turned{value}.jpg", rgb(26, 39), quality=70,
             exif=oriented(value))
    plain = encoded(rgb(31, 22), "JPEG", quality=75)
    big = (b"MM\0*\0\0\0\x08\0\2" + struct.pack(">HHII", 0x10F, 2, 4, 0) +
           struct.pack(">HHIHH", 0x112, 3, 1, 6, 0) + bytes(4))
    write("big_endian.jpg", with_segment(plain, b"Exif\0\0" + big))
    xmp = b'<x:xmpmeta tiff:Orientation="8"/>'
    space = b"http://ns.adobe.com/xap/1.0/\0"
    write("xmp.jpg", with_segment(plain, space + xmp))
    write("exif_before_xmp.jpg", with_segment(
        with_segment(plain, space + xmp), oriented(3).tobytes()))
    write("bad_orientation.jpg", with_segment(plain, oriented(9).tobytes()))
    write("cut_exif.jpg", with_segment(plain, oriented(6).tobytes()[:20]))


def write_pngs():
    save("rgb.png", rgb(29, 34))
    save("rgba.png", Image.fromarray(picture(28, 31, 4)))
    two = picture(27, 33, 4)[:, :, [0, 3]]
    save("la.png", Image.fromarray(two, "LA"))
    palette = rgb(32, 30).quantize(40)
    save("p.png", palette)
    alpha = bytes((i * 13) % 256 for i in range(40))
    save("p_alpha.png", palette, transparency=alpha)
    save("p_one.png", palette, transparency=3)
    save("l.png", Image.fromarray(picture(24, 36, 1)))
    save("l_one.png", Image.fromarray(picture(24, 36, 1) // 16 * 16),
         transparency=128)
    save("one_bit.png", Image.fromarray(picture(21, 27, 1) > 120))
    wide = picture(26, 25, 1).astype(numpy.uint16) * 3
    write("gray16.png", png(wide, 16, 0))
    write("gray16_one.png", png(wide // 90 * 90, 16, 0,
                                chunk(b"tRNS", struct.pack(">H", 180))))
    write("gray2.png", png(picture(19, 23, 1) // 64, 2, 0))
    write("gray4.png", png(picture(19, 23, 1) // 16, 4, 0))
    write("la16.png", png(picture(15, 17, 4)[:, :, 2:].astype(int) * 257 + 1,
                          16, 4))
    write("rgb16.png", png(picture(15, 17).astype(int) * 256 + 200, 16, 2))
    write("rgba16.png", png(picture(15, 17, 4).astype(int) * 256 + 99, 16, 6))
    write("rgb_one.png", png(picture(20, 20) // 64 * 64, 8, 2,
                             chunk(b"tRNS", struct.pack(">HHH", 128, 128, 0))))
    colors = chunk(b"PLTE", bytes(range(30, 42)))
    write("p2.png", png(picture(18, 21, 1) // 64, 2, 3, colors))
    write("beyond_palette.png", png(picture(18, 21, 1) // 8, 8, 3, colors +
                                    chunk(b"tRNS", b"\x40\x80")))
    write("interlaced.png", png(picture(35, 45), 8, 2, interlace=1))
    write("interlaced_rgba.png", png(picture(11, 13, 4), 8, 6, interlace=1))
    save("turned.png", rgb(20, 31), exif=oriented(6))
    save("turned_rgba.png", Image.fromarray(picture(23, 14, 4)),
         exif=oriented(7))
    text = b"XML:com.adobe.xmp\0\0\0\0\0<tiff:Orientation>5</tiff:Orientation>"
    write("xmp.png", png(picture(12, 19), 8, 2, chunk(b"iTXt", text)))
    write("profile.png", png(picture(12, 19), 8, 2, chunk(
        b"iCCP", b"p\0\0" + zlib.compress(bytes(200)))))
    save("row.png", rgb(1, 150))
    save("column.png", rgb(97, 1))
    save("aspect199.png", rgb(2, 398))


def write_webps():
    save("lossy.webp", rgb(36, 45), quality=70)
    save("lossless.webp", rgb(22, 35), lossless=True)
    save("alpha.webp", Image.fromarray(picture(24, 33, 4)), quality=80)
    save("lossless_alpha.webp", Image.fromarray(picture(18, 23, 4)),
         lossless=True)
    save("turned.webp", rgb(21, 34), quality=75, exif=oriented(8))


def describe(name):
    image = Image.open(os.path.join("files", name))
    value = image.getexif().get(ORIENTATION, 1)
    value = value if value in range(1, 9) else 1
    pixels = convert_to_rgb(ImageOps.exif_transpose(image), return_numpy=True)
    height, width = pixels.shape[:2]
    return (f"{name} {height} {width} {value} "
            f"{hashlib.sha256(pixels.tobytes()).hexdigest()}\n")


if __name__ == "__main__":
    os.makedirs("files", exist_ok=True)
    write_jpegs()
    write_pngs()
    write_webps()
    with open("images.txt", "w") as f:
        f.writelines(describe(n) for n in sorted(os.listdir("files")))
