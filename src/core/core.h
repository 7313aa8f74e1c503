/* The module core: the header that other folders include. */
#ifndef FV_CORE_H
#define FV_CORE_H

#include "core/cancel.h"
#include "core/dtypes.h"
#include "core/elementary.h"
#include "core/environment.h"
#include "core/file.h"
#include "core/float_mode.h"
#include "core/fma.h"
#include "core/hash.h"
#include "core/memory.h"
#include "core/names.h"
#include "core/size.h"
#include "core/status.h"
#include "core/struct.h"
#include "core/tensor.h"
#include "core/text.h"
#include "core/words.h"

#endif
