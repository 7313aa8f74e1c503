/* Chat templates: is one ChatML, the only chat that is computed here?
 *
 *     char *system;
 *     if (chatml_read(template, bytes, &system)) ...    its own system message, or NULL
 *
 * Templates are programs in Jinja. Two are known: the one that writes each message between <|im_start|> and
 * <|im_end|>, and the one that begins with a system message of its own, if the first message is not one. They may be
 * spaced differently. */
#ifndef MODELS_CHATML_H
#define MODELS_CHATML_H

#include <stdbool.h>
#include <stddef.h>

/* *system is to be freed; false: another template, or no memory. */
bool chatml_read(const char *template_bytes, size_t count, char **system);

#endif
