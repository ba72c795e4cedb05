/* Numbers and text as people and scripts read them. */
#ifndef VP_REPORT_H
#define VP_REPORT_H

#include <stddef.h>
#include <stdio.h>

struct vp_meta;

/* A short decimal (15 to 17 digits) that reads back as the same double, "nan", "inf" or "-inf"; buf of at
 * least 32 bytes; returns buf. */
const char *vp_format_number(char *buf, double v);
/* JSON: a number, null if it is not finite. */
void vp_json_number(FILE *out, double v);
/* At most four such decimals, blanks between them, as the value of a key. 0 or -1 (out of memory). */
int vp_report_numbers(struct vp_meta *m, const char *key, int n, const double *v);

#endif
