/* SPDX-License-Identifier: BSD-3-Clause */
/* What `--device auto` means: whether work is worth a device, and how many of them. */
#ifndef VP_CHOOSE_H
#define VP_CHOOSE_H

/* Of the work as a whole, from its sizes and the table of rates (run/rates.h). */
struct vp_effort {
    double on_cpu;  /* seconds that the CPU would take, with all its threads */
    double start;   /* seconds that a device takes to start: the CPU has done before what takes it less */
    double work;    /* what the devices do, in seconds or in bytes, and in the same: */
    double each;    /* ... what pays for the start of one device more; 0: nothing does */
    double all;     /* ... from which on all of them pay; 0: nothing does */
    int asked;      /* so many were asked for, and where they are there they are taken; 0: none */
};

/* How many of so many devices; 0: the CPU. */
int vp_choose(const struct vp_effort *e, int devices);

#endif
