/* Stands before each C file of the library (-include, cmake/FoveaCompile.cmake): what compilers must not do to it. */
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) ||                               \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#error "Fovea cannot be built with -ffast-math, -Ofast or a part of them: NaN would become numbers, bits would change"
#endif
#if defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ < 8
#error "Fovea has no 32-bit builds"
#endif
