/* The module of tuning: the header that other folders include. */
#ifndef FV_TUNING_H
#define FV_TUNING_H

#include "tuning/file.h"
#include "tuning/line.h"
#include "tuning/rows.h"
#include "tuning/text.h"

#endif
