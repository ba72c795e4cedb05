/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/doctor.h"

#include "app/tool.h"
#include "base/isa.h"
#include "base/places.h"
#include "base/plugin.h"
#include "base/size.h"
#include "device/device.h"
#include "stack/codecs.h"
#include "stack/hdf5.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static void line(FILE *out, const char *what, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Prints "what    text"; without `what` a further line of the same. */
static void line(FILE *out, const char *what, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(out, "%-12s ", what);
    vfprintf(out, fmt, ap);
    fputc('\n', out);
    va_end(ap);
}

static void machine(FILE *out)
{
    const char *const dir = vp_tmpdir();
    struct statvfs disk;
    const uint64_t memory = vp_memory_available();

    line(out, "processor", "%d cores, instruction set %s%s", vp_cores(), vp_isa_name(),
         strcmp(vp_isa_name(), "generic") ? "" : " (AVX2 or AVX-512 would be faster)");
    line(out, "memory", "%s available; a program takes at most %s of it (-m)", vp_bytes_text(memory).text,
         vp_bytes_text(memory / 5 * 4).text);
    if (statvfs(dir, &disk))
        line(out, "scratch", "%s: cannot be used: set TMPDIR to a folder", dir);
    else
        line(out, "scratch", "%s, %s free%s", dir, vp_bytes_text((uint64_t)disk.f_bavail * disk.f_frsize).text,
             vp_scratch_in_memory() ? ", in memory: TMPDIR names a folder on a disk" : "");
}

static void devices(FILE *out)
{
    const struct vp_backend *backend = NULL;
    struct vp_err err = VP_ERR_INIT;
    char why[PATH_MAX + 256];
    int *list = NULL, n = 0;

    if (vp_devices_find(&backend, &list, &n, "cuda", &err)) {
        line(out, "GPU", "none: %s", err.msg);
        if (!vp_plugin_open("voxpipe-cuda.so", false, why, sizeof why))
            line(out, "", "to have the plugin install the CUDA toolkit (nvcc) and run make again");
        else
            line(out, "", "nvidia-smi shows the driver's view; VOXPIPE_PLUGINS is the folder of plugins");
    }
    for (int i = 0; i < n; i++) {
        struct vp_device_info info = {0};
        if (backend->info(list[i], &info, &err))
            line(out, "GPU", "%s:%d: %s", backend->name, list[i], err.msg);
        else
            line(out, "GPU", "%s:%d: %s, %s of %s free", backend->name, list[i], info.name,
                 vp_bytes_text(info.free).text, vp_bytes_text(info.total).text);
    }
    free(list);
    if (vp_plugin_open("voxpipe-mpi.so", true, why, sizeof why))
        line(out, "MPI", "ct-fdk runs on many hosts: mpirun -n N ct-fdk ...");
    else
        line(out, "MPI", "none: %s; with mpicc (libopenmpi-dev) make builds it", why);
    const struct vp_h5_plugin *const hdf5 = vp_h5_open(why, sizeof why);
    if (hdf5)
        line(out, "HDF5", "%s: .h5 files are read and written", hdf5->version);
    else
        line(out, "HDF5", "none: %s; with hdf5.h (libhdf5-dev) make builds it", why);
}

/* True if the file contains the text. */
static bool contains(const char *path, const char *text)
{
    FILE *const f = vp_fopen(path, "rb");
    char block[1 << 16];
    size_t kept = 0, n;
    bool found = false;

    while (f && !found && (n = fread(block + kept, 1, sizeof block - kept, f)) > 0) {
        found = memmem(block, kept + n, text, strlen(text));
        n += kept;
        kept = n < 64 ? n : 64;
        memmove(block, block + n - kept, kept);
    }
    if (f)
        fclose(f);
    return found;
}

static void libraries(FILE *out, const char *folder)
{
    char version[32], with[128] = "", without[128] = "", path[PATH_MAX + 32];
    bool there;
    const char *codec;

    for (int i = 0; (codec = vp_tiff_codec(i, &there)); i++) {
        char *const to = there ? with : without;
        snprintf(to + strlen(to), sizeof with - strlen(to), "%s%s", *to ? ", " : "", codec);
    }
    line(out, "libtiff", "%s, with %s%s%s", vp_tiff_version(version, sizeof version), with,
         *without ? "; without " : "", without);
    snprintf(path, sizeof path, "%s/img-convolve", folder);
    if (access(path, R_OK))
        line(out, "FFTW", "unknown: there is no %s", path);
    else if (contains(path, "libfftw3.so") || contains(path, "fftw_plan_"))
        line(out, "FFTW", "img-convolve and img-deconvolve work on f64, too");
    else
        line(out, "FFTW", "none: img-convolve and img-deconvolve refuse f64; install libfftw3-dev and run make again");
}

static void environment(FILE *out)
{
    static const char *const names[] = {"VOXPIPE_THREADS", "VOXPIPE_MEMORY",  "VOXPIPE_DEVICE",
                                        "VOXPIPE_ISA",     "VOXPIPE_PLUGINS", "VOXPIPE_DEVICE_MEMORY",
                                        "VOXPIPE_RATES"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            line(out, "set", "%s=%s", names[i], getenv(names[i]));
}

void vp_doctor(FILE *out, const char *folder)
{
    line(out, "voxpipe", "%s, in %s", vp_version, folder);
    machine(out);
    devices(out);
    libraries(out, folder);
    environment(out);
}
