/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
int main(void) { return 0; }
