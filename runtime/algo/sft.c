/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sft.c - supervised fine-tuning: the mean loss of the next token
 *
 * The model computes this loss itself, so there is nothing to add.
 */
#include "config.h"

#include "run/algo_table.h"

const struct dt_algo dt_algo_sft = {.name = "sft"};
