/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of rates: the cost of reading, copying, starting and computing, for the planners and for `--device auto`.
 * Results never depend on it; plans do, and only on the ratios. `make rates` measures the rates that the machine at
 * hand allows to measure, and prints the table in this form.
 *
 * Two figures are elsewhere because they belong to one operation: the cost of a voxel on the CPU (vp_op.cost), and the
 * time of a row in each of a GPU's filter kernels (cuda/filter.cu). */
#pragma once

/* X(name, value, unit, what it is, where it was measured). XEON2: two cores of a Xeon with AVX-512, data in memory;
 * EPYC2: processor time of two cores of an EPYC beside other work; XEON16: 16 cores of one, all at work, rows of 512 to
 * 4096 samples; H100: one H100 80GB with 132 multiprocessors at 1.98 GHz. "ordinary": a round figure for ordinary
 * machines, never measured on one alone; "a guess": chosen so that plans are good ones.
 *
 * In order: storage and memory; the engine's steps; devices; what `auto` means; reconstruction; the ramp filter;
 * convolution. VOXPIPE_RATES names a file of rates of the machine at hand. */
#define VP_RATES(X) \
    X(read, 0.35e-9, "s/byte", "to read a file or pipe that is in memory, one thread", "ordinary") \
    X(write, 0.5e-9, "s/byte", "to write a file or pipe in memory, one thread", "ordinary") \
    X(read_all, 0.05e-9, "s/byte", "the same, all threads", "ordinary; XEON16: 0.02e-9") \
    X(write_all, 0.09e-9, "s/byte", "the same, all threads", "ordinary; XEON16: 0.06e-9") \
    X(again, 3e-9, "s/byte", "to read once more, as from a disk, where it costs most", "a guess") \
    X(move, 1 / 25e9, "s/byte", "from memory to memory, all threads", "ordinary") \
    X(fresh, 0.4e-9, "s/byte", "to touch memory for the first time", "ordinary") \
    X(process, 0.01, "s", "to start and end a program", "ordinary") \
    X(cpu, 1, "of vp_op.cost", "that operations take while all threads work", "XEON2, as those") \
    X(slab, 120e-6, "s", "to pass a slab from reader to workers to writer", "XEON16 with an H200: 512 and 114 slabs") \
    X(piece, 30e-6, "s", "to read or write rows that do not follow each other in the file", "ordinary") \
    X(part, 8e-6, "s", "to start all threads on a part", "ordinary") \
    X(bus, 1 / 25e9, "s/byte", "between pinned memory and a device, either way", "ordinary") \
    X(bus_call, 15e-6, "s", "to start a part on a device: its copies and its kernels", "ordinary") \
    X(pinned, 0.15e-9, "s/byte", "to make memory that a device copies from and to at full speed", "ordinary") \
    X(solve, 1.2e-9, "s/byte", "of the most that entries can have, to solve them with one thread", "EPYC2: 1.0e-9 to 1.3e-9") \
    X(offset, 2 / 2e12, "s/byte", "to add a carried value to output on a device: read and written", "ordinary") \
    X(device_cores, 1000, "cores", "of the CPU that are as fast as a device", "a guess") \
    X(recon_cores, 100, "cores", "the same of morphological reconstruction", "H100: 98 to 154 (2048^3 of u8 in 1.23 s)") \
    X(device_start, 0.5, "s", "of a device's context and pinned memory", "H100: CUDA's start and end are 0.3 s") \
    X(device_share, 1, "s", "of a device's work that pays for the start of one device more", "a guess") \
    X(devices_all, 4e9, "bytes", "of input, from which on images are worth all devices", "a guess") \
    X(cpu_updates, 1e9, "voxel views/s", "back-projected by one thread, at least", "XEON2: 1.2e9 to 7e9") \
    X(cpu_samples, 4e8, "samples/s", "filtered by one thread, at least", "XEON2: 5.4e8") \
    X(gpu_updates, 2e12, "voxel views/s", "back-projected by a device of gpu_speed", "H100: 1.1e12 to 3.5e12") \
    X(gpu_speed, 132 * 1.98, "GHz", "multiprocessors times clock of the device of gpu_updates", "H100") \
    X(views_read, 25e9, "bytes/s", "of projections, read by all threads", "a guess") \
    X(views_up, 40e9, "bytes/s", "of projections, to a device", "a guess") \
    X(slabs_add, 10e9, "bytes/s", "of subsets' volumes, fetched and added on the host", "a guess") \
    X(volume_write, 8e9, "bytes/s", "of a volume, to a file in memory, by all threads", "H200: 8.6e9") \
    X(ranks_exchange, 4e9, "bytes/s", "that a rank takes from others", "a guess") \
    X(device_alloc, 5e11, "bytes/s", "of a device's memory, allocated", "a guess") \
    X(subsets_save, 0.1, "s", "that subsets must save: they cost the promise of equal bits", "a guess") \
    X(subsets_part, 0.25, "of the whole", "that they must save, too", "a guess") \
    X(filter_avx512, 3.6e-9, "s/sample", "of the transform, filtered by one thread", "XEON16: 4.7 ns / 1.3") \
    X(filter_avx2, 4.9e-9, "s/sample", "the same", "XEON16: 5.7 ns / 1.16") \
    X(filter_generic, 7.8e-9, "s/sample", "the same", "XEON16: 9 ns / 1.16") \
    X(convolve_avx512, 1, "of vp_line_cost", "that transforms of convolution take", "XEON2, as that table") \
    X(convolve_avx2, 1.5, "of vp_line_cost", "the same", "EPYC2: 1.1 to 1.9 by length") \
    X(convolve_generic, 3.2, "of vp_line_cost", "the same", "XEON2") \
    X(convolve_move, 4.2e-9, "s/element", "of 16 rows, to transpose it, times that; the next four, too", "EPYC2") \
    X(convolve_product, 14e-9, "s/element", "of 16 rows, by the spectrum of one of several kernels", "EPYC2") \
    X(convolve_load, 0.17e-9, "s/sample", "to load", "XEON2") \
    X(convolve_store, 0.45e-9, "s/result", "to store", "XEON2") \
    X(convolve_sum, 1.9, "of vp_op.cost", "that sums of products take", "EPYC2") \
    X(convolve_mix, 2.2e-9, "s/result", "of a kernel anywhere, to weigh and add: plain code, as the rest", "EPYC2") \
    X(convolve_weight, 30e-9, "s/pixel", "to find its weights in triangles", "EPYC2: 28 to 31") \
    X(convolve_ones, 9.2e-9, "s/step", "of the sums of weights of the source", "EPYC2") \
    X(convolve_edge, 26e-9, "s/result", "near edges, to complete it", "EPYC2: 21 to 30")

struct vp_rates {
#define VP_RATES_FIELD(name, value, unit, what, where) double name;
    VP_RATES(VP_RATES_FIELD)
#undef VP_RATES_FIELD
};

/* The table used where no other is given. */
extern struct vp_rates vp_rates;

/* Replaces the rates of the table that a file has, lines of `name = number`, from 1e-30 to 1e30; other names are passed over
 * (`make model` writes them with what ct-fdk and img-convolve read). Before any other thread starts. 0, or -1: VP_EUSAGE;
 * VP_ERUN, the file cannot be read. */
struct vp_err;
int vp_rates_read(const char *path, struct vp_err *err);
