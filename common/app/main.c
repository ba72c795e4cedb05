/* SPDX-License-Identifier: BSD-3-Clause */
/* main of every program, in an object file of its own: tests have mains of their own. */
#include "app/tool.h"

int main(int argc, char **argv)
{
    return vp_main(&vp_program, argc, argv);
}
