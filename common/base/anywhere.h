/* Marks small functions of headers that kernels on devices share with the CPU: a plugin defines VP_ANYWHERE, before it
 * includes any of them, as what its compiler needs. */
#pragma once

#ifndef VP_ANYWHERE
#define VP_ANYWHERE
#endif
