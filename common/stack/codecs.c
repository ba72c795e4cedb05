/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/codecs.h"

#include <stdio.h>
#include <string.h>
#include <tiffio.h>

const char *vp_tiff_version(char *text, size_t size)
{
    const char *const all = TIFFGetVersion(), *const at = strstr(all, "ersion "), *const from = at ? at + 7 : all;
    snprintf(text, size, "%.*s", (int)strcspn(from, "\n "), from);
    return text;
}

const char *vp_tiff_codec(int i, bool *there)
{
    static const struct { const char *name; uint16_t code; } codecs[] = {
        {"deflate", COMPRESSION_ADOBE_DEFLATE}, {"lzw", COMPRESSION_LZW}, {"zstd", 50000}, {"jpeg", COMPRESSION_JPEG},
        {"lzma", 34925}, {"webp", 50001},
    };
    if (i >= (int)(sizeof codecs / sizeof *codecs))
        return NULL;
    *there = TIFFIsCODECConfigured(codecs[i].code);
    return codecs[i].name;
}
