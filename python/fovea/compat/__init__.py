"""Other libraries' functions, by their names and with their arguments, on Fovea: fovea.compat.flash_attn."""
