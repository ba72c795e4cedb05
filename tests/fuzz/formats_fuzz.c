/* SPDX-License-Identifier: BSD-3-Clause */
/* NumPy, NRRD, MetaImage, NIfTI, PNG and EDF: the same from a pipe and a disk, or rejected; colours looked up, too. */
#include "fuzz.h"
#include "stack/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const struct fuzz_stack a = fuzz_read(data, n, true, NULL);
    const struct fuzz_stack b = fuzz_read(data, n, false, NULL);

    if (a.rc == 0 && b.rc == 0)
        MUST(a.nx == b.nx && a.ny == b.ny && a.type == b.type && a.pages == b.pages && a.sum == b.sum);
    fuzz_read_as(data, n, false, &(struct vp_reader_options){.colours = true});
    return 0;
}
