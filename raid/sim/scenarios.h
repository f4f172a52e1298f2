/* SPDX-License-Identifier: BSD-3-Clause */
/* Named stories over the same world: one rule or one known RAID bug each. */
#ifndef RAID_SIM_SCENARIOS_H
#define RAID_SIM_SCENARIOS_H

enum scenarios_output { SCENARIOS_QUIET, SCENARIOS_NAMES, SCENARIOS_VERBOSE };

/* Run one by name, or all (NULL). Returns the exit status. */
int scenarios_run(const char *name, enum scenarios_output output);

#endif
