# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS +=
