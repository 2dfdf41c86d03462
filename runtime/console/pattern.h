/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pattern.h - reads a message by its pattern, and fills in a sentence about it
 *
 * A pattern is the message as it is written, with fields in braces that go to
 * struct dt_console_event. {} is any text, up to the text that follows it.
 *
 *     {rank}    -> rank            {node}    a node's position -> node
 *     {host}    -> host            {hosts}   "n1,n2" -> list
 *     {ranks}   "4-5,7" -> list    {time}    "SECONDS.mmm" -> ms
 *     {wait}    a number -> status
 *     {status}  srun's words for a wait status, to the end -> status, oom
 *     {signal}  a signal's name -> status
 *     {bar}, {reason}  the rest -> bar, reason
 *
 * Any other name is that of a number, at most DT_EVENT_NUMBERS in a pattern. A
 * sentence may have {rank}, {host}, {reason}, {hosts}, each with its ranks, and
 * the numbers of the pattern.
 */
#ifndef DT_CONSOLE_PATTERN_H
#define DT_CONSOLE_PATTERN_H

#include <stdbool.h>
#include <stdio.h>

#include "console/event.h"
#include "console/outcome.h"

/* Whether the whole text is as the pattern says; fills the event, also with a
 * part of a text that is not.
 */
bool dt_pattern_match(const char *pattern, const char *text,
                      struct dt_console_event *event);

/* Writes a sentence about an event of this pattern as a line of disttrain. The
 * outcome knows the ranks of hosts.
 */
void dt_pattern_tell(const char *pattern, const char *sentence,
                     const struct dt_console_event *event,
                     const struct dt_outcome *outcome, FILE *out);

#endif /* DT_CONSOLE_PATTERN_H */
