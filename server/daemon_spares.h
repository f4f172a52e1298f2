/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices that come to arrays without being asked for: spares that the configuration names, members
 * that were away and whose bitmap knows what they missed, and spares that move between arrays of a
 * spare-group. What a spare is used for, the engine decides.
 */
#ifndef SERVER_DAEMON_SPARES_H
#define SERVER_DAEMON_SPARES_H

struct daemon;
struct served;

/* An array runs: give it what belongs to it. */
void spares_array_runs(struct daemon *d, struct served *s);

/*
 * Members have changed somewhere. An array of a group that is degraded and has nothing to rebuild
 * onto gets the smallest spare of that group that is large enough, from an array that is not
 * degraded. One moves at a time.
 */
void spares_look(struct daemon *d);

#endif
