/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract.h - names on which the Slurm plugin and the runtime agree
 *
 * The plugin links nothing but libc, so this header holds names and no code.
 *
 * 1. The contract. srun runs `RUNTIME check --contract FILE` as the user,
 * before anything is queued. A config without a mistake gives exit status 0
 * and, on stdout, lines of the form
 *
 *     DISTTRAIN_CONTRACT=1          first line: the version of this grammar
 *     CONFIG=/absolute/path         once
 *     ENV NAME=value                one for each entry of `env:`, any number
 *
 * A value ends at the newline; in it a backslash is written as \\ and a newline
 * as \n, nothing else is escaped. NAME is [A-Za-z_][A-Za-z0-9_]*. The whole
 * contract is at most DT_CONTRACT_BYTES. Anything else is refused: both sides
 * come from the same release. With a mistake in the config the exit status is
 * not 0, stdout is ignored, and stderr has one line `file:line:col: key: text`
 * for each mistake, which srun repeats as it is.
 *
 * 2. The environment. All names begin with SLURM, because `--export=NONE` drops
 * every other one on the way to the tasks. The plugin removes those that it
 * finds in srun's own environment, so that steps started inside a task begin
 * afresh.
 */
#ifndef DT_LAUNCH_CONTRACT_H
#define DT_LAUNCH_CONTRACT_H

#define DT_CONTRACT_VERSION_LINE "DISTTRAIN_CONTRACT=1"
#define DT_CONTRACT_CONFIG "CONFIG="
#define DT_CONTRACT_ENV "ENV "
#define DT_CONTRACT_BYTES (1024 * 1024)

/* Everything below begins with this. */
#define DT_ENV_PREFIX "SLURM_DISTTRAIN_"

/* Absolute path of the config: in every task of an active step. It is what
 * `disttrain` without arguments trains.
 */
#define DT_ENV_CONFIG "SLURM_DISTTRAIN_CONFIG"

/* NodeName of the host of rank 0, as srun knows it; absent if srun could not
 * ask.
 */
#define DT_ENV_MASTER "SLURM_DISTTRAIN_MASTER"

/* DT_ENV_CARRY "NAME" carries an `env:` entry from srun to the tasks, where the
 * plugin takes it away and sets NAME, unless the user has set NAME.
 */
#define DT_ENV_CARRY "SLURM_DISTTRAIN_ENV_"

/* Space-separated NAME=value: the variables that the plugin, and not the user,
 * has set in this task (RANK and so on).
 */
#define DT_ENV_EXPORTED "SLURM_DISTTRAIN_EXPORTED"

#endif /* DT_LAUNCH_CONTRACT_H */
