/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the program `disttrain`: which subcommand runs */
#include "config.h"

#include <stdio.h>

int main(void)
{
    puts(PACKAGE_STRING);
    return 0;
}
