/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces the part of libjbig that libtiff links, for a bundle without libjbig, which is under the GNU GPL. Decoding a
 * page compressed with JBIG fails with this message; nothing else in libtiff calls it, and voxpipe never encodes with
 * it. */
enum { REFUSED = 0x30 };

int jbg_dec_in(void *state, unsigned char *data, unsigned long n, unsigned long *taken);
const char *jbg_strerror(int number);
unsigned char *jbg_dec_getimage(const void *state, int plane);
unsigned long jbg_dec_getsize(const void *state);
void jbg_dec_init(void *state);
void jbg_dec_free(void *state);
int jbg_newlen(unsigned char *data, unsigned long n);
void jbg_enc_init(void *state, unsigned long x, unsigned long y, int planes, unsigned char **data,
                  void (*out)(unsigned char *start, unsigned long n, void *file), void *file);
void jbg_enc_out(void *state);
void jbg_enc_free(void *state);

int jbg_dec_in(void *state, unsigned char *data, unsigned long n, unsigned long *taken)
{
    (void)state, (void)data, (void)n, (void)taken;
    return REFUSED;
}

const char *jbg_strerror(int number)
{
    (void)number;
    return "JBIG is not in this bundle, for its library is under the GPL";
}

unsigned char *jbg_dec_getimage(const void *state, int plane)
{
    (void)state, (void)plane;
    return 0;
}

unsigned long jbg_dec_getsize(const void *state)
{
    (void)state;
    return 0;
}

int jbg_newlen(unsigned char *data, unsigned long n)
{
    (void)data, (void)n;
    return 0;
}

void jbg_dec_init(void *state)
{
    (void)state;
}

void jbg_dec_free(void *state)
{
    (void)state;
}

void jbg_enc_init(void *state, unsigned long x, unsigned long y, int planes, unsigned char **data,
                  void (*out)(unsigned char *start, unsigned long n, void *file), void *file)
{
    (void)state, (void)x, (void)y, (void)planes, (void)data, (void)out, (void)file;
}

void jbg_enc_out(void *state)
{
    (void)state;
}

void jbg_enc_free(void *state)
{
    (void)state;
}
