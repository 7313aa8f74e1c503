/* Cancellation (pthread_cancel): calls of the library are no cancellation points. */
#ifndef FV_CANCEL_H
#define FV_CANCEL_H

#if defined(__ANDROID__) || defined(_WIN32) /* have no cancellation */
#define FV_HOLD_CANCELLATION() (void)0
#else
#include <pthread.h>

static inline int fv_cancellation_hold(void) {
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void fv_cancellation_restore(const int *before) {
    int held;
    pthread_setcancelstate(*before, &held);
}

/* For the rest of a block, which waits, or reads or writes files, the calling thread is not cancelled. */
#define FV_HOLD_CANCELLATION()                                                                                         \
    __attribute__((cleanup(fv_cancellation_restore), unused)) const int cancellation_ = fv_cancellation_hold()
#endif

#endif
