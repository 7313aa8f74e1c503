/* Parts of the page of fovea-tune report. What is measured for them ends by `until` (tune_now()). */
#ifndef FOVEA_TUNE_REPORT_H
#define FOVEA_TUNE_REPORT_H

#include "page.h"

/* Time over two sizes of a class's plan, with the chosen point. */
void report_heat_map(const page *p, const tune_class *c, double until);

/* What these classes reach, below what the machine allows, and a table of them. */
void report_roofline(const page *p, const tune_class *classes, int count, double until);

#endif
