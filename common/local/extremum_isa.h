/* Inner part of extremum.c: rows of minima and maxima, of each type. Private to extremum.c. */
#ifndef VP_EXTREMUM_ISA_H
#define VP_EXTREMUM_ISA_H

#include "local/window.h"

extern const struct vp_window_rows vp_extremum_avx512[VP_N_TYPES], vp_extremum_avx2[VP_N_TYPES],
    vp_extremum_generic[VP_N_TYPES];

#endif
